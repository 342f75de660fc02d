"""What every test gets: a folder of its own, no tracker, and a sample task with an honest and some other kernels.

What takes long to make is made once and read by all tests that need it: the build cache, the verdicts of the candidate
files, a data set and a policy. It lies in one folder, which several runs of pytest share where KERNELRL_TESTS names it.
"""

from __future__ import annotations

import fcntl
import gc
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warm
from chat_server import Server
from kernelrl import cli
from kernelrl.executor import Executor, ExecutorSettings, make_executor

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command line does
os.environ.setdefault("WANDB__SERVICE_WAIT", "600")  # seconds for its process to start, of which it has 30 else
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for models of two layers; the executor gives its processes their own

REFERENCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
"""
RIGHT = '''\
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
'''
KERNELS = {
    "right": RIGHT,
    "wrong": RIGHT.replace("2.0f * a[i]", "3.0f * a[i]"),
    "broken": RIGHT.replace("int64_t n = x.numel();", "int64_t n = x.numel()"),
    "cheat": REFERENCE.replace("class Model", "class ModelNew"),
}

Run = Callable[..., subprocess.CompletedProcess[str]]
Kept = Callable[..., AbstractContextManager[Executor]]
MAX_IDLE = 3
"""Executors that are kept though no test uses them now: each holds some hundred MB."""


MADE_HERE = "KERNELRL_TESTS" not in os.environ
if MADE_HERE:
    os.environ["KERNELRL_TESTS"] = tempfile.mkdtemp(prefix="kernelrl-tests-")


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries complain that their objects outlive the interpreter
    if MADE_HERE:
        shutil.rmtree(os.environ["KERNELRL_TESTS"])


LONGEST = """slurm executor gpu_compile packaging ray curate ablate suite second_look executor_limits executor_faults
pipeline ranks closed_library sources teachers template hidden promises push eval grpo decontamination plan_memory
backends models call_memory bound clock turns""".split()
"""Files that take long, the longest first: begun last, one of them would keep one worker busy and the others idle."""


gc.disable()  # while the files of tests are imported, and with them torch and TRL: a million objects that stay


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {f"test_{name}": index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.fixture(autouse=True)
def _no_tracking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", "/nonexistent")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """What a test draws without a seed is the same in every run, whichever tests its process has run before."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def executor_cache() -> Path:
    """A build and verdict cache that starts empty and serves all tests: the precompiled header is made once."""
    folder = Path(os.environ["KERNELRL_TESTS"]) / "cache"
    folder.mkdir(exist_ok=True)
    (folder / "secret").write_text("of the tests: the same hidden inputs in every run")
    return folder


@pytest.fixture
def fresh_cache(executor_cache: Path, tmp_path: Path) -> Path:
    """A cache of this test's own, with nothing in it but what takes long to find out and is of this machine."""
    return copied_cache(executor_cache, tmp_path / "cache")


def copied_cache(executor_cache: Path, folder: Path) -> Path:
    """Another cache with the same precompiled headers, helpers and open functions: without verdicts and builds."""
    unfinished = shutil.ignore_patterns("tmp*", ".*")
    copies: dict[str, Callable[[str, str], object]] = {"headers": os.link, "helpers": shutil.copy, "pages": shutil.copy}
    for name, copy in copies.items():
        if (executor_cache / name).exists():
            shutil.copytree(executor_cache / name, folder / name, copy_function=copy, ignore=unfinished)
    return folder


@pytest.fixture(scope="session")
def kept_executor() -> Iterator[Kept]:
    """Stands in for `make_executor`: one executor serves all tests of this process that have the same settings.

    Its service takes some seconds of a core to start. Tests of how executors start, fail and end make their own.
    """
    engines: dict[str, Executor] = {}  # the one that was asked for last is the last
    users: Counter[str] = Counter()

    @contextmanager
    def kept(settings: ExecutorSettings | dict[str, Any]) -> Iterator[Executor]:
        settings = ExecutorSettings.model_validate(settings)
        key = settings.model_dump_json()
        engines[key] = engines.pop(key, None) or make_executor(settings)
        users[key] += 1
        try:
            yield engines[key]
        finally:
            users[key] -= 1
            idle = [each for each in engines if not users[each]]
            for each in idle[:-MAX_IDLE]:
                engines.pop(each).close()

    yield kept
    for engine in engines.values():
        engine.close()


@pytest.fixture(scope="session")
def server() -> Iterator[warm.Server]:
    """Starts processes that need not import torch and TRL again."""
    started = warm.Server()
    yield started
    started.close()


@pytest.fixture
def kernel_files(tmp_path: Path) -> dict[str, Path]:
    """`reference`, `right`, `wrong`, `broken` and `cheat`, as files."""
    files = {}
    for name, source in {"reference": REFERENCE, **KERNELS}.items():
        files[name] = tmp_path / f"{name}.py"
        files[name].write_text(source)
    return files


@pytest.fixture
def kernelrl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line as a person runs it in an empty folder, though in this process."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        command = list(map(str, words))
        with pytest.raises(SystemExit) as end:
            cli.main(command)
        printed = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return subprocess.CompletedProcess(command, end.value.code, printed.out, printed.err)

    return run


TOY_CACHE = f"executor.cache_dir={os.environ['KERNELRL_TESTS']}/cache"
TOY_DATA = ("tasks.num_train=24", "curate.num_triples=16", "curate.num_heldout_triples=2")
"""Runs that curate the same tasks recall each other's verdicts from that cache."""
TOY = ("recipe=toy", "tracker=none", "executor.timing=false", "executor.draws=tests", *TOY_DATA, TOY_CACHE)
"""Overrides of the toy run, which other runs that go on from it share."""
TOY_SFT = ("sft.trainer.max_steps=12", "sft.trainer.logging_steps=1")


@pytest.fixture(scope="session")
def toy(server: warm.Server) -> Path:
    """The folder of a run with a data set and an SFT policy, to be read only."""
    folder = Path(os.environ["KERNELRL_TESTS"]) / "toy"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of this run of pytest may be making it
        for stage in ("curate", "sft"):  # one that has finished is left as it is
            done = server.run(stage, *TOY, *TOY_SFT, f"output_dir={folder}", folder=folder)
            assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    """Overrides with which a training goes on from a data set and a policy of two small layers, to be read only."""
    from curated import training_config, write_data
    from kernelrl import sft  # takes seconds to import

    folder = Path(os.environ["KERNELRL_TESTS"]) / "tiny"
    folder.mkdir(exist_ok=True)
    with open(folder / ".lock", "a") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        cfg = training_config(folder, "sft.trainer.max_steps=1", "executor.timing=false")
        if not (folder / "sft" / "done.json").exists():
            write_data(cfg)
            sft.run(cfg)
    return [f"curate.folder={folder}/data", f"sft.folder={folder}/sft"]


@pytest.fixture
def serve():
    servers = []

    def start(*script, **options):
        servers.append(Server(*script, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
