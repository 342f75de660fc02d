// `exit`, preloaded: a process that ends itself ends at once.
//
// OpenMP does so where it gets no further thread. What libraries would do last is closed to a candidate, and it would be
// held to have called them.
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

__attribute__((noreturn)) void exit(int status) {
  fflush(NULL);
  _exit(status);
}
