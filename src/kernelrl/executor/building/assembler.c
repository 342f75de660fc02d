// Stands before the assembler, which reads any file that its text names (.incbin): a kernel could take the code of a
// library into its own module by it. From here on this process reads the assembler, its libraries and the folder in
// which it works, and nothing else.
//
// Compiled with ASSEMBLER, the program's path, and READABLE, those of its libraries.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, BENEATH = 1 };
enum { EXECUTE = 1 << 0, READ_FILE = 1 << 2, READ_DIR = 1 << 3 };

static int allow(int ruleset, const char* path, uint64_t rights) {
  struct __attribute__((packed)) { uint64_t rights; int32_t place; } rule = {rights, open(path, O_PATH | O_CLOEXEC)};
  int failed = rule.place < 0 || syscall(ADD_RULE, ruleset, BENEATH, &rule, 0);
  close(rule.place);
  return failed;
}

int main(int count, char** arguments) {
  (void)count;
  const char* readable[] = {ASSEMBLER, READABLE};
  uint64_t handled = EXECUTE | READ_FILE | READ_DIR;
  int ruleset = syscall(CREATE_RULESET, &handled, sizeof handled, 0);
  if (ruleset >= 0) {
    int failed = allow(ruleset, ".", READ_FILE | READ_DIR);
    for (unsigned i = 0; i < sizeof readable / sizeof *readable; ++i)
      failed |= allow(ruleset, readable[i], READ_FILE | EXECUTE);
    failed |= prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(RESTRICT_SELF, ruleset, 0);
    if (failed) return perror("the assembler cannot be confined"), 1;
  } else if (errno != ENOSYS && errno != EOPNOTSUPP) {  // without Landlock, the layer is missing for all: see doctor
    return perror("the assembler cannot be confined"), 1;
  }
  execv(ASSEMBLER, arguments);
  return perror(ASSEMBLER), 127;
}
