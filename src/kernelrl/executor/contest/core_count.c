// The number of cores that OpenMP tells a program, preloaded: that of the threads which it has.
//
// libgomp counts the cores on which the calling thread may run, and a thread that is timed is kept on one.
#include <stdlib.h>

static int cores = 1;

__attribute__((constructor)) static void count(void) {
  const char *threads = getenv("OMP_NUM_THREADS");
  if (threads && atoi(threads) > 0) cores = atoi(threads);
}

int omp_get_num_procs(void) { return cores; }

int omp_get_num_procs_(void) { return cores; }
