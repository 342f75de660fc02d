// The guards of C++'s function-local statics, preloaded: a thread that waits for another one's initialiser waits within
// its own process.
//
// libstdc++ waits and wakes by futexes that processes may share, and of these a candidate may wake none: the kernel
// would tell it how many processes wait (confinement/system_calls.py). The words are those of libstdc++.
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DONE = 1, PENDING = 0x100, AWAITED = 0x10100 };

static void end(atomic_int *guard, int state) {
  if (atomic_exchange(guard, state) == AWAITED) syscall(SYS_futex, guard, FUTEX_WAKE_PRIVATE, INT_MAX);
}

int __cxa_guard_acquire(atomic_int *guard) {
  for (;;) {
    int found = 0;
    if (atomic_compare_exchange_strong(guard, &found, PENDING)) return 1;
    if (found == DONE) return 0;
    if (found == PENDING && !atomic_compare_exchange_strong(guard, &found, AWAITED)) continue;
    syscall(SYS_futex, guard, FUTEX_WAIT_PRIVATE, AWAITED, NULL);
  }
}

void __cxa_guard_release(atomic_int *guard) { end(guard, DONE); }

void __cxa_guard_abort(atomic_int *guard) { end(guard, 0); }
