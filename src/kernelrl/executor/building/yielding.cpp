// What `-fsanitize=thread` calls at every access to memory, here without its detector, which does not know OpenMP's
// barriers: now and then the thread waits a little or lets another one run. A kernel whose threads touch each other's
// memory without synchronisation then computes something else.

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

namespace {

constexpr uint32_t OFTEN = 1u << 29, SELDOM = 1u << 20;  // of 2^32
constexpr int BURST = 256;                               // pauses after which they are seldom

thread_local uint32_t state;
thread_local int burst;
thread_local volatile int idle;

inline void pause_perhaps() {
  if (!state) state = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&state) >> 4) | 1;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  if (state >= (burst > 0 ? OFTEN : SELDOM)) return;
  --burst;
  if (state & 1) {
    sched_yield();
  } else {
    for (uint32_t left = state >> 1 & 1023; left; --left) idle = static_cast<int>(left);
  }
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) { burst = BURST; }
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_read_range(void*, size_t) { pause_perhaps(); }
void __tsan_write_range(void*, size_t) { pause_perhaps(); }

#define ACCESS(kind, size)                                             \
  void __tsan_##kind##size(void*) { pause_perhaps(); }                 \
  void __tsan_unaligned_##kind##size(void*) { pause_perhaps(); }       \
  void __tsan_volatile_##kind##size(void*) { pause_perhaps(); }        \
  void __tsan_unaligned_volatile_##kind##size(void*) { pause_perhaps(); }
#define ACCESSES(size) ACCESS(read, size) ACCESS(write, size)
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
    pause_perhaps();                                                   \
    return __atomic_load_n(static_cast<const volatile type*>(at), __ATOMIC_SEQ_CST); \
  }                                                                    \
  void __tsan_atomic##bits##_store(volatile void* at, type value, int) { \
    pause_perhaps();                                                   \
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
