/* Closed pages of library code: closing them, telling which one a process died on, and finding which ones it needs.

   A closed page is readable and not executable, so the processor faults when it fetches an instruction there. */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE_BYTES = 4096, MAX_PAGES = 1 << 16, INSTRUCTION_FETCH = 1 << 4 };

static volatile uint64_t *fault_address;
static struct sigaction handler_before;
static uint64_t pages[MAX_PAGES];
static int num_pages;

static int is_fetch(const void *context) {
  return (((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & INSTRUCTION_FETCH) != 0;
}

static void note_and_die(int signal_number, siginfo_t *info, void *context) {
  if (is_fetch(context)) *fault_address = (uint64_t)info->si_addr;
  sigaction(signal_number, &handler_before, NULL); /* which takes over when the instruction is tried again */
}

static void note_and_open(int signal_number, siginfo_t *info, void *context) {
  uint64_t page = (uint64_t)info->si_addr & ~(uint64_t)(PAGE_BYTES - 1);
  if (is_fetch(context) && mprotect((void *)page, PAGE_BYTES, PROT_READ | PROT_EXEC) == 0) {
    int index = __atomic_fetch_add(&num_pages, 1, __ATOMIC_RELAXED);
    if (index < MAX_PAGES) {
      pages[index] = page;
      return;
    }
  }
  signal(signal_number, SIG_DFL);
}

static void handle_faults(void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, &handler_before);
}

/* Close `count` ranges, each a start and a length in bytes. Returns how many could not be closed. */
int close_ranges(const uint64_t *ranges, size_t count) {
  int failed = 0;
  for (size_t i = 0; i < count; ++i)
    failed += mprotect((void *)ranges[2 * i], ranges[2 * i + 1], PROT_READ) != 0;
  return failed;
}

/* From now on the address of an instruction on a closed page is written to `address` before the process dies of it. */
void report_faults(uint64_t *address) {
  fault_address = address;
  handle_faults(note_and_die);
}

/* From now on a closed page is opened when it is needed. */
void open_what_is_needed(void) { handle_faults(note_and_open); }

/* The pages that were opened so far, and their number. */
const uint64_t *opened_pages(int *count) {
  *count = num_pages;
  return pages;
}
