// How fast this machine reads, writes and multiplies with all cores (judging/bound.py). Vectors as wide as the processor
// has them; each thread has memory of its own and goes over it until the time is up.

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define LANES 16
#define CHAINS 10

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef uint64_t words __attribute__((vector_size(64)));
enum { READ, WRITE, FILL, MULTIPLY };

typedef struct {
  pthread_mutex_t closed;  // until it is known whether all threads exist
  int all_exist;
  pthread_barrier_t together;
} gate;

typedef struct {
  int what;
  char *memory;
  size_t bytes;
  double seconds, done, took;
  gate *start;
} job;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);  // whoever else has the core is not counted
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

FOR_EACH_PROCESSOR static void pass_reading(const char *memory, size_t bytes) {
  const words *at = (const words *)memory, *end = at + bytes / sizeof(words) / 4 * 4;
  words a = {0}, b = {0}, c = {0}, d = {0};
  for (; at < end; at += 4) {
    a |= at[0];
    b |= at[1];
    c |= at[2];
    d |= at[3];
  }
  a |= b | c | d;
  __asm__ volatile("" : : "m"(a));
}

FOR_EACH_PROCESSOR static void pass_writing(char *memory, size_t bytes) {
  words *at = (words *)memory, *end = at + bytes / sizeof(words);
  words a = {1};
  for (; at < end; at++) *at = a;
  __asm__ volatile("" : : "r"(memory) : "memory");
}

FOR_EACH_PROCESSOR static void pass_multiplying(void) {
  vector a0 = {1}, a1 = {2}, a2 = {3}, a3 = {4}, a4 = {5}, a5 = {6}, a6 = {7}, a7 = {8}, a8 = {9}, a9 = {10};
  vector b, c;
  for (int k = 0; k < LANES; k++) b[k] = 0.999f, c[k] = 1e-3f;
  for (int i = 0; i < 1000; i++) {
    a0 = a0 * b + c, a1 = a1 * b + c, a2 = a2 * b + c, a3 = a3 * b + c, a4 = a4 * b + c;
    a5 = a5 * b + c, a6 = a6 * b + c, a7 = a7 * b + c, a8 = a8 * b + c, a9 = a9 * b + c;
  }
  a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9;
  __asm__ volatile("" : : "m"(a0));
}

static void *work(void *argument) {
  job *j = argument;
  pthread_mutex_lock(&j->start->closed);
  pthread_mutex_unlock(&j->start->closed);
  if (!j->start->all_exist) return NULL;
  pthread_barrier_wait(&j->start->together);
  double begun = now();
  do {
    for (size_t pass = 0; pass < 1 + (1 << 20) / (j->bytes + 1); pass++) {
      if (j->what == READ) pass_reading(j->memory, j->bytes);
      if (j->what == WRITE) pass_writing(j->memory, j->bytes);
      if (j->what == FILL) memset(j->memory, (int)pass, j->bytes);
      if (j->what == MULTIPLY) pass_multiplying();
      j->done += j->what == MULTIPLY ? 2.0 * LANES * CHAINS * 1000 : (double)j->bytes;
    }
    j->took = now() - begun;
  } while (j->took < j->seconds);
  return NULL;
}

// Bytes, or operations on float32, per second of all threads together, each at work for so many seconds.
// The memory is parted among them. 0: so many threads cannot be started.
double kernelrl_peak(int what, char *memory, size_t bytes, int num_threads, double seconds) {
  pthread_t threads[num_threads];
  job jobs[num_threads];
  gate start = {PTHREAD_MUTEX_INITIALIZER};
  pthread_barrier_init(&start.together, NULL, num_threads);
  pthread_mutex_lock(&start.closed);
  size_t part = bytes / num_threads / 256 * 256;
  int made = 0;
  for (; made < num_threads; made++) {
    jobs[made] = (job){what, memory + made * part, what == MULTIPLY ? 1 << 14 : part, seconds, 0, 0, &start};
    if (pthread_create(&threads[made], NULL, work, &jobs[made])) break;
  }
  start.all_exist = made == num_threads;
  pthread_mutex_unlock(&start.closed);
  double rate = 0;
  for (int i = 0; i < made; i++) {
    pthread_join(threads[i], NULL);
    if (start.all_exist) rate += jobs[i].done / jobs[i].took;
  }
  pthread_barrier_destroy(&start.together);
  return rate;
}
