// How many cores a program is told to have, preloaded: in each call the same, though a thread that is timed is kept on
// one of them.
//
// libgomp counts the cores of the thread that asks, and the C library asks the kernel, which tells a candidate nothing
// of them (confinement/system_calls.py).
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int threads = 1;
static cpu_set_t cores;

__attribute__((constructor)) static void count(void) {
  const char *said = getenv("OMP_NUM_THREADS");
  if (said && atoi(said) > 0) threads = atoi(said);
  syscall(SYS_sched_getaffinity, 0, sizeof cores, &cores);
}

int omp_get_num_procs(void) { return threads; }

int omp_get_num_procs_(void) { return threads; }

int sched_getaffinity(pid_t process, size_t size, cpu_set_t *found) {
  (void)process;
  memset(found, 0, size);
  memcpy(found, &cores, size < sizeof cores ? size : sizeof cores);
  return 0;
}
