"""Function-local statics of C++ under the guards that candidates' processes preload (contest/static_guard.c)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kernelrl.executor.processes.helpers import compiled_helper

PROGRAM = """
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

static std::atomic<int> tries{0}, ended{0};

struct Slow {
  Slow() {
    const int number = ++tries;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (number < 4) throw std::runtime_error("not yet");
  }
  int value = 7;
};

static int value() {
  static Slow made;
  return made.value;
}

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (;;) try {
          ended += value() == 7;
          return;
        } catch (const std::runtime_error&) {
        }
    });
  for (std::thread& thread : threads) thread.join();
  Dl_info place;
  dladdr(dlsym(RTLD_DEFAULT, "__cxa_guard_acquire"), &place);
  std::printf("%d tries, %d ended, by %s", tries.load(), ended.load(), place.dli_fname);
}
"""


def test_all_threads_wait_for_the_one_that_succeeds_and_one_of_them_goes_on_where_it_fails(tmp_path: Path) -> None:
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-O1", "-pthread", "-o", program, source, "-ldl"], check=True)
    guard = str(compiled_helper(tmp_path, "static_guard"))
    done = subprocess.run([program], capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": guard})
    assert done.stdout == f"4 tries, 8 ended, by {guard}", done.stderr
