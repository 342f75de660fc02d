/* Closed code of libraries: closing it, telling where a process died of it, and finding which functions it needs.

   A closed page is readable and not executable, so the processor faults when it fetches an instruction there. Near a
   function that is needed, every byte of the others is `int3`, which traps. Of a clock that a process died of, this
   tells which one it was. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, INSTRUCTION_FETCH = 1 << 4, GENERAL_PROTECTION = 13, INT3 = 0xCC };
enum { COUNTER = 1, CLOCK_PAGE = 2 }; /* as processes/note.py reads them */
static const uint64_t SYSTEM_CALL = 1ull << 32;

struct span {
  uint64_t start, end;
};

static volatile uint64_t *fault_address, *clock_that_was_read;
static uint64_t clock_pages, clock_pages_end;
static int counter_may_be_read;
static struct sigaction before_fault, before_trap, before_call;

static const struct span *functions; /* sorted */
static size_t num_functions;
static uint8_t *needed; /* of each function, whether it is */
static const struct span *code; /* whole pages; sorted */
static size_t num_ranges;
static uint8_t **originals; /* of each page of the code, what it held before it was opened */
static int lock;

static greg_t *registers(void *context) { return ((ucontext_t *)context)->uc_mcontext.gregs; }

static int is_fetch(void *context) { return (registers(context)[REG_ERR] & INSTRUCTION_FETCH) != 0; }

static void handle(int signal_number, void (*handler)(int, siginfo_t *, void *), struct sigaction *before) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(signal_number, &action, before);
}

/* Whether a process was not allowed to execute rdtsc, rdtscp or rdpru. */
static int reads_counter(void *context) {
  if (registers(context)[REG_TRAPNO] != GENERAL_PROTECTION) return 0;
  const uint8_t *instruction = (const uint8_t *)registers(context)[REG_RIP];
  if (instruction[0] != 0x0f) return 0;
  return instruction[1] == 0x31 || (instruction[1] == 0x01 && (instruction[2] == 0xf9 || instruction[2] == 0xfd));
}

/* Do what rdtsc, rdtscp or rdpru would, with the number of readings for the time: a library may wait for it to change. */
static void read_for_library(void *context) {
  static uint64_t readings;
  greg_t *values = registers(context);
  const uint8_t *instruction = (const uint8_t *)values[REG_RIP];
  uint64_t count = __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED);
  values[REG_RAX] = (uint32_t)count;
  values[REG_RDX] = count >> 32;
  if (instruction[1] == 0x01 && instruction[2] == 0xf9) values[REG_RCX] = 0;
  values[REG_RIP] += instruction[1] == 0x31 ? 2 : 3;
}

static void note_fault_and_die(int signal_number, siginfo_t *info, void *context) {
  uint64_t address = (uint64_t)info->si_addr;
  if (is_fetch(context)) *fault_address = address;
  else if (address - clock_pages < clock_pages_end - clock_pages) *clock_that_was_read = CLOCK_PAGE;
  else if (reads_counter(context)) {
    if (counter_may_be_read) {
      read_for_library(context);
      return;
    }
    *clock_that_was_read = COUNTER;
  }
  sigaction(signal_number, &before_fault, NULL); /* which takes over when the instruction is tried again */
}

static void note_trap_and_die(int signal_number, siginfo_t *info, void *context) {
  (void)info;
  *fault_address = --registers(context)[REG_RIP];
  sigaction(signal_number, &before_trap, NULL);
}

static void note_call_and_die(int signal_number, siginfo_t *info, void *context) {
  (void)context;
  *clock_that_was_read = SYSTEM_CALL | (uint32_t)info->si_syscall;
  if (before_call.sa_handler != SIG_DFL) before_call.sa_handler(signal_number);
  signal(signal_number, SIG_DFL); /* the call was left out and would not be tried again */
  raise(signal_number);
  _exit(1);
}

/* The index of the last span that starts at or before an address; -1: none does. */
static ptrdiff_t last_before(const struct span *spans, size_t count, uint64_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (spans[middle].start <= address) low = middle + 1;
    else high = middle;
  }
  return (ptrdiff_t)low - 1;
}

static uint8_t **original_of(uint64_t page) {
  size_t before = 0;
  for (size_t i = 0; i < num_ranges; ++i) {
    if (page >= code[i].start && page < code[i].end) return &originals[before + (page - code[i].start) / PAGE_BYTES];
    before += (code[i].end - code[i].start) / PAGE_BYTES;
  }
  return NULL;
}

/* Write all of a function, or `int3`, to a page that can be written. */
static void write_part(const struct span *function, uint64_t page, const uint8_t *original) {
  uint64_t start = function->start > page ? function->start : page;
  uint64_t end = function->end < page + PAGE_BYTES ? function->end : page + PAGE_BYTES;
  if (original) memcpy((void *)start, original + (start - page), end - start);
  else memset((void *)start, INT3, end - start);
}

static int open_part(size_t index, uint64_t page) {
  uint8_t **original = original_of(page);
  int is_new = original && !*original;
  if (!original) return -1;
  if (is_new) {
    void *copy = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return -1;
    *original = memcpy(copy, (void *)page, PAGE_BYTES);
  }
  if (mprotect((void *)page, PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) return -1;
  for (ptrdiff_t i = last_before(functions, num_functions, page + PAGE_BYTES - 1);
       is_new && i >= 0 && functions[i].end > page; --i)
    write_part(&functions[i], page, NULL);
  write_part(&functions[index], page, *original);
  return mprotect((void *)page, PAGE_BYTES, PROT_READ | PROT_EXEC);
}

/* Open the function that an instruction lies in. Returns whether there is one. */
static int open_function(uint64_t address) {
  int failed = 0;
  ptrdiff_t index = last_before(functions, num_functions, address);
  if (index < 0 || address >= functions[index].end) return 0;
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
    ;
  if (!needed[index]) { /* else another thread was faster */
    uint64_t page = functions[index].start & ~(uint64_t)(PAGE_BYTES - 1);
    for (; page < functions[index].end; page += PAGE_BYTES) failed |= open_part((size_t)index, page);
    needed[index] = 1;
  }
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  return !failed;
}

static void open_at_fault(int signal_number, siginfo_t *info, void *context) {
  if (!is_fetch(context) || !open_function((uint64_t)info->si_addr)) signal(signal_number, SIG_DFL);
}

static void open_at_trap(int signal_number, siginfo_t *info, void *context) {
  (void)info;
  registers(context)[REG_RIP] -= 1;
  if (!open_function((uint64_t)registers(context)[REG_RIP])) signal(signal_number, SIG_DFL);
}

/* Close `num_closed` ranges of code, each a start and a length in bytes, and map `num_parts` parts of a file over some of
   it, each an address, a length and the place in the file. Returns how many could not be. */
int close_code(const uint64_t *closed, size_t num_closed, const char *path, const uint64_t *parts, size_t num_parts) {
  int failed = 0, file = num_parts ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  for (size_t i = 0; i < num_closed; ++i)
    failed += mprotect((void *)closed[2 * i], closed[2 * i + 1], PROT_READ) != 0;
  for (size_t i = 0; i < num_parts; ++i) {
    const uint64_t *part = parts + 3 * i;
    void *address = (void *)part[0];
    failed += mmap(address, part[1], PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, (off_t)part[2]) != address;
  }
  if (file >= 0) close(file);
  return failed;
}

/* From now on what the process dies of is written to `told` before: the address of a closed instruction, and the
   clock that it has read. `low` and `high` are the ends of the kernel's clock pages. Where libraries compute, which read
   the time-stamp counter, each reading of that gives one more than the last. */
void report_faults(uint64_t *told, uint64_t low, uint64_t high, int libraries_compute) {
  counter_may_be_read = libraries_compute;
  fault_address = told;
  clock_that_was_read = told + 1;
  clock_pages = low;
  clock_pages_end = high;
  handle(SIGSEGV, note_fault_and_die, &before_fault);
  handle(SIGTRAP, note_trap_and_die, &before_trap);
  handle(SIGSYS, note_call_and_die, &before_call);
}

/* From now on a closed function is opened when it is needed, and marked in `is_needed`. The arrays stay the caller's.

   `pages` are the ranges that are closed; `page_originals` has an empty place for each of their pages. */
void open_what_is_needed(const struct span *all, size_t count, uint8_t *is_needed, const struct span *pages,
                         size_t page_count, uint8_t **page_originals) {
  functions = all;
  num_functions = count;
  needed = is_needed;
  code = pages;
  num_ranges = page_count;
  originals = page_originals;
  handle(SIGSEGV, open_at_fault, &before_fault);
  handle(SIGTRAP, open_at_trap, &before_trap);
}
