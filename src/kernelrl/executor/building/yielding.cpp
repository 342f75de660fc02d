// What `-fsanitize=thread` calls at every access to memory, here without its detector, which does not know OpenMP's
// barriers: now and then the thread waits a little or lets another one run. And one that has read a place and is about to
// write to it, as to add something, sometimes waits for another one to read it, too, or stays behind until the others
// have ended or wait, as it may before a lock. The first thread that writes so at a place of the program stays behind
// once it has written: it may have said that something is ready which is not yet. A kernel whose threads touch each
// other's memory without synchronisation then computes something else, and so does one that takes what malloc gives for
// zeros.

#include <atomic>
#include <malloc.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

extern "C" int omp_in_parallel() __attribute__((weak));

namespace {

constexpr uint32_t OFTEN = 1u << 29, SELDOM = 1u << 20;  // of 2^32
constexpr int BURST = 256;                               // pauses after which they are seldom

constexpr int SITES = 1 << 12, WAITS = 32;  // of each place in the program, how often a thread waits there
constexpr int PATIENCE = 3000;              // for so many turns
constexpr int LAGS = 160, LAG = 1 << 18;     // how often a thread stays behind at such a place, and for how many turns
constexpr int AT_ONCE = 8;                  // how often any does in one parallel region
constexpr int QUIET = 64;                   // turns without any access to memory after which one thread may go on
constexpr int READS = 4;                    // reads that a thread remembers

thread_local uint32_t state;
thread_local int burst;
thread_local bool begins;  // a function, as the part of a loop that is a thread's own is one
thread_local volatile int idle;
thread_local void* read_places[READS];
thread_local unsigned num_reads;
thread_local void* written_at;  // the place in the program of a first write, after which the thread stays behind
thread_local void* met;  // what a thread was awaited at: it does not wait there itself
std::atomic<int> waits[SITES], lags[SITES];
alignas(64) std::atomic<int> lags_at_once;
alignas(64) std::atomic<unsigned> progress;  // by sixteen accesses each
thread_local unsigned num_accesses;
alignas(64) std::atomic<void*> awaited;  // by one thread at a time, so that the others go on

inline void draw() {
  if (!state) state = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&state) >> 4) | 1;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
}

inline size_t number_of(void* site) { return (reinterpret_cast<uintptr_t>(site) * 0x9e3779b97f4a7c15u) >> 52; }

inline bool are_parallel() { return omp_in_parallel && omp_in_parallel(); }

// Whether the thread has stayed behind: until the others have ended, wait for it, or stay behind for longer. So its
// beginning meets another one's end (as priorities do in Burckhardt et al., "A randomized scheduler with probabilistic
// guarantees of finding bugs", 2010).
bool lag_perhaps(void* site) {
  std::atomic<int>& number = lags[number_of(site)];
  draw();
  const uint32_t mask = begins ? 1 : 7;
  begins = false;
  const int before = number.load(std::memory_order_relaxed);  // the first one here always stays behind
  if ((before && state & mask) || before >= LAGS) return false;
  if (lags_at_once.load(std::memory_order_relaxed) >= AT_ONCE || lags_at_once.fetch_add(1) >= AT_ONCE) return false;
  ++number;
  unsigned seen = progress.load(std::memory_order_relaxed);
  const int enough = QUIET + (state >> 8) % (16 * QUIET);
  for (int left = LAG, quiet = 0; left && quiet < enough; --left) {
    sched_yield();
    const unsigned now = progress.load(std::memory_order_relaxed);
    quiet = now == seen ? quiet + 1 : 0;
    seen = now;
  }
  return true;
}

// Whoever waits by reading an atomic variable again and again makes none.
inline void go_on() {
  if (void* site = written_at) {
    written_at = nullptr;
    if (are_parallel()) lag_perhaps(site);
  }
  if (++num_accesses & 15) return;
  progress.store(progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

inline void pause_perhaps() {
  draw();
  if (state >= (burst > 0 ? OFTEN : SELDOM)) return;
  --burst;
  if (state & 1) {
    sched_yield();
  } else {
    for (uint32_t left = state >> 1 & 1023; left; --left) idle = static_cast<int>(left);
  }
}

inline void before_read(void* place) {
  read_places[num_reads++ % READS] = place;
  if (awaited.load(std::memory_order_relaxed) == place) {
    met = place;
    awaited.store(nullptr);
  }
  pause_perhaps();
}

inline void before_write(void* place, void* site) {
  pause_perhaps();
  bool was_read = false;
  for (void* read : read_places) was_read |= read == place;
  if (!was_read || met == place || !are_parallel()) return;
  if (!lags[number_of(site)].load(std::memory_order_relaxed) && lags_at_once.load(std::memory_order_relaxed) < AT_ONCE) {
    written_at = site;  // a flag is set once: this may be the only write here
    return;
  }
  if (lag_perhaps(site)) return;
  std::atomic<int>& number = waits[number_of(site)];
  void* nobody = nullptr;
  if (number.load(std::memory_order_relaxed) >= WAITS || !awaited.compare_exchange_strong(nobody, place)) return;
  ++number;
  int left = PATIENCE;
  while (awaited.load(std::memory_order_relaxed) == place && --left) sched_yield();
  if (!left) {
    awaited.store(nullptr);
  } else {  // the other thread is about to read
    for (left = 1024; left; --left) idle = left;
    sched_yield();
  }
}

}  // namespace

extern "C" {

// The linker has the module call these in the place of OpenMP's (checks.py).
#define BEFORE_LOCK(name, parameters, arguments)                        \
  void __real_##name parameters;                                        \
  void __wrap_##name parameters {                                       \
    if (are_parallel()) lag_perhaps(__builtin_return_address(0));       \
    __real_##name arguments;                                            \
  }
BEFORE_LOCK(GOMP_critical_start, (), ())
BEFORE_LOCK(GOMP_critical_name_start, (void** name), (name))
BEFORE_LOCK(omp_set_lock, (void* lock), (lock))

void __real_GOMP_parallel(void (*part)(void*), void* data, unsigned number, unsigned flags);
void __wrap_GOMP_parallel(void (*part)(void*), void* data, unsigned number, unsigned flags) {
  if (!are_parallel()) lags_at_once.store(0, std::memory_order_relaxed);
  __real_GOMP_parallel(part, data, number, flags);
}

__attribute__((constructor)) void fill_what_is_allocated() { mallopt(M_PERTURB, 0xa5); }  // with 0x5a, its complement

void __tsan_init() {}
void __tsan_func_entry(void*) {
  burst = BURST;
  begins = true;
}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_read_range(void*, size_t) { pause_perhaps(); }
void __tsan_write_range(void*, size_t) { pause_perhaps(); }

#define BEFORE(name, size)                                                                                 \
  void __tsan_##name##read##size(void* place) { go_on(), before_read(place); }                             \
  void __tsan_##name##write##size(void* place) { go_on(), before_write(place, __builtin_return_address(0)); }
#define ACCESSES(size) BEFORE(, size) BEFORE(unaligned_, size) BEFORE(volatile_, size) BEFORE(unaligned_volatile_, size)
ACCESSES(1) ACCESSES(2) ACCESSES(4) ACCESSES(8) ACCESSES(16)

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

#define FETCH(bits, type, name)                                        \
  type __tsan_atomic##bits##_##name(volatile void* at, type value, int) { \
    pause_perhaps();                                                   \
    return __atomic_##name(static_cast<volatile type*>(at), value, __ATOMIC_SEQ_CST); \
  }
#define EXCHANGE(bits, type, name)                                     \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile void* at, type* expected, type value, int, int) { \
    pause_perhaps();                                                   \
    return __atomic_compare_exchange_n(static_cast<volatile type*>(at), expected, value, false, __ATOMIC_SEQ_CST, \
                                       __ATOMIC_SEQ_CST);              \
  }
#define ATOMIC(bits, type)                                             \
  type __tsan_atomic##bits##_load(const volatile void* at, int) {      \
    before_read(const_cast<void*>(at));                                \
    return __atomic_load_n(static_cast<const volatile type*>(at), __ATOMIC_SEQ_CST); \
  }                                                                    \
  void __tsan_atomic##bits##_store(volatile void* at, type value, int) { \
    before_write(const_cast<void*>(at), __builtin_return_address(0));  \
    __atomic_store_n(static_cast<volatile type*>(at), value, __ATOMIC_SEQ_CST); \
  }                                                                    \
  type __tsan_atomic##bits##_exchange(volatile void* at, type value, int) { \
    pause_perhaps();                                                   \
    return __atomic_exchange_n(static_cast<volatile type*>(at), value, __ATOMIC_SEQ_CST); \
  }                                                                    \
  type __tsan_atomic##bits##_compare_exchange_val(volatile void* at, type expected, type value, int, int) { \
    __tsan_atomic##bits##_compare_exchange_strong(at, &expected, value, 0, 0); \
    return expected;                                                   \
  }
#define ATOMICS(bits, type)                                            \
  FETCH(bits, type, fetch_add) FETCH(bits, type, fetch_sub) FETCH(bits, type, fetch_and) \
  FETCH(bits, type, fetch_or) FETCH(bits, type, fetch_xor) FETCH(bits, type, fetch_nand) \
  EXCHANGE(bits, type, strong) EXCHANGE(bits, type, weak) ATOMIC(bits, type)
ATOMICS(8, uint8_t) ATOMICS(16, uint16_t) ATOMICS(32, uint32_t) ATOMICS(64, uint64_t)

}  // extern "C"
