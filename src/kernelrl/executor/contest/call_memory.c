// Memory for the tensors of one call (processes/call_memory.py), preloaded into the process of a candidate, and into the
// service, which begins as one with the forkserver and makes no calls.
//
// PyTorch's CPU allocator calls posix_memalign and free. Between begin_call and end_call the first takes memory from a
// region that the referee maps too, which is the limit of a call's tensors; before and after it is the C library's.
// Nothing here is believed by the referee: it overwrites the spans that end_call names and looks for outputs there.
//
// What was never used lies above `top`. Free blocks below it are listed by address, neighbours joined. A block that is
// freed in a later call than the one that took it waits until that call has ended, for nobody has overwritten it yet.

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define UNIT 64  // alignment of PyTorch's tensors, and the size of a block's head
#define MAX_ALIGNMENT 4096

typedef struct block {
  size_t size;  // in bytes, the head included
  size_t call;  // the call that took it or, of a free one, that may take it
  struct block *next;
} block;

extern void *__libc_malloc(size_t), *__libc_memalign(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *region, *end, *top;
static int in_call;
static size_t call, num_spans;
static block *freed, *waiting;

static char *after(block *b) { return (char *)b + b->size; }

static void insert(block *b) {
  block **link = &freed;
  while (*link && *link < b) link = &(*link)->next;
  b->next = *link;
  *link = b;
}

// Join neighbours that the same call may take, and give what ends at `top` back to it.
static void tidy(void) {
  for (block **link = &freed; *link; link = &(*link)->next) {
    block *b = *link;
    while (b->next && after(b) == (char *)b->next && b->call == b->next->call) {
      b->size += b->next->size;
      b->next = b->next->next;
    }
    if (after(b) == top && b->call == call) {
      top = (char *)b;
      *link = NULL;
      return;
    }
  }
}

static void *take(size_t alignment, size_t size) {
  if (size > (size_t)(end - region)) return NULL;
  if (alignment < UNIT) alignment = UNIT;
  size_t need = (size + alignment + UNIT - 1) / UNIT * UNIT;
  block *found = NULL;
  for (block **link = &freed; *link; link = &(*link)->next) {
    block *b = *link;
    if (b->call != call || b->size < need) continue;
    found = b;
    if (b->size >= need + 2 * UNIT) {
      block *rest = (block *)((char *)b + need);
      *rest = (block){b->size - need, call, b->next};
      b->size = need;
      *link = rest;
    } else {
      *link = b->next;
    }
    break;
  }
  if (!found) {
    if ((size_t)(end - top) < need) return NULL;
    found = (block *)top;
    *found = (block){need, call, NULL};
    top += need;
  }
  uintptr_t payload = ((uintptr_t)found + UNIT + alignment - 1) & ~(uintptr_t)(alignment - 1);
  ((block **)payload)[-1] = found;
  return (void *)payload;
}

static int inside(void *p) { return (size_t)((char *)p - region) < (size_t)(end - region); }

int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!alignment || alignment % sizeof(void *) || alignment & (alignment - 1)) return EINVAL;
  void *p;
  if (in_call && alignment <= MAX_ALIGNMENT) {
    pthread_mutex_lock(&lock);
    p = take(alignment, size);
    pthread_mutex_unlock(&lock);
  } else {
    p = __libc_memalign(alignment, size);
  }
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

void free(void *p) {
  if (!inside(p)) {
    __libc_free(p);
    return;
  }
  pthread_mutex_lock(&lock);
  block *b = ((block **)p)[-1];
  if (in_call && b->call == call) {
    insert(b);
    tidy();
  } else {
    b->next = waiting;
    waiting = b;
  }
  pthread_mutex_unlock(&lock);
}

void *realloc(void *p, size_t size) {
  if (!inside(p)) return __libc_realloc(p, size);
  void *moved = __libc_malloc(size);
  if (!moved) return NULL;
  size_t old = after(((block **)p)[-1]) - (char *)p;
  memcpy(moved, p, old < size ? old : size);
  free(p);
  return moved;
}

// Use these bytes from now on. Called once, before untrusted text is there.
void kernelrl_use_region(void *memory, size_t size) {
  region = top = memory;
  end = region + size;
}

void kernelrl_begin_call(void) {
  pthread_mutex_lock(&lock);
  call++;
  block *b = freed;
  for (size_t i = 0; i + 1 < num_spans; i++, b = b->next) b->call = call;
  in_call = 1;
  pthread_mutex_unlock(&lock);
}

// Offsets of the ends of at most `most` spans that the next call may use, the last of them all that was never used.
// They begin with a head that must stay. Returns how many there are.
size_t kernelrl_end_call(size_t (*spans)[2], size_t most) {
  pthread_mutex_lock(&lock);
  in_call = 0;
  while (waiting) {
    block *b = waiting;
    waiting = b->next;
    insert(b);
  }
  for (block *b = freed; b; b = b->next) b->call = call;
  tidy();
  num_spans = 0;
  for (block *b = freed; b && num_spans + 1 < most; b = b->next) {
    spans[num_spans][0] = (char *)b - region;
    spans[num_spans++][1] = after(b) - region;
  }
  spans[num_spans][0] = top - region;
  spans[num_spans++][1] = end - region;
  pthread_mutex_unlock(&lock);
  return num_spans;
}
