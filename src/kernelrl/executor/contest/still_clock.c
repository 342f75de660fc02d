// The C library's clocks, preloaded: in the process of a candidate they stand still, elsewhere they are the library's.
//
// Python reads a clock whenever it takes a lock, and must not end with the process's real clocks (sandbox.close_clocks).
// No promise rests on this: who goes round it finds no other clock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

static int stopped;
static int (*read_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void find(void) { read_clock = dlsym(RTLD_NEXT, "clock_gettime"); }

void kernelrl_stop_clocks(void) { stopped = 1; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!stopped) {
    if (!read_clock) find(); // another library's constructor asks first
    return read_clock(clock, now);
  }
  *now = (struct timespec){0, 0};
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
