"""The executor's service: the trusted process that owns the forkserver, the builder, the references and the cores.

Started by `LocalExecutor` with one socket, and with the environment of the forkserver, which parts from it by a fork
once both have imported torch. What no candidate may know comes after that on standard input: the environment variables
of whoever uses the executor, its settings and its secret. Requests come in and verdicts go out as JSON; when the socket
closes, the service ends and every process that it started ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import json
import math
import os
import queue
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

if __name__ == "__main__":
    gc.disable()  # it would look at what is imported again and again, and all of that stays
    from kernelrl.executor.contest import forkserver

    WARMING = forkserver.fork(int(sys.argv[1]))
    TOLD = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.set_inheritable(int(sys.argv[1]), False)
    os.environ.clear()
    os.environ.update(TOLD["environment"])
    tempfile.tempdir = None  # it was looked for with other variables

import diskcache  # noqa: E402
import psutil  # noqa: E402
import torch  # noqa: E402

from kernelrl.errors import InfrastructureError, TaskError  # noqa: E402
from kernelrl.executor import machine, wire  # noqa: E402
from kernelrl.executor.api import INCIDENTAL, ExecutorSettings, Request, not_known  # noqa: E402
from kernelrl.executor.building.builder import Builder  # noqa: E402
from kernelrl.executor.building.pruning import CacheLimits  # noqa: E402
from kernelrl.executor.confinement import sandbox  # noqa: E402
from kernelrl.executor.engines.ahead import build_ahead  # noqa: E402
from kernelrl.executor.engines.cache_folder import judging_code, own_folder, read_secret  # noqa: E402
from kernelrl.executor.engines.waiting import Line, Waiting  # noqa: E402
from kernelrl.executor.judging.bound import Bounds  # noqa: E402
from kernelrl.executor.judging.endings import PageLearnt  # noqa: E402
from kernelrl.executor.judging.nsight import Profiler  # noqa: E402
from kernelrl.executor.judging.referee import judge  # noqa: E402
from kernelrl.executor.judging.reference import Reference  # noqa: E402
from kernelrl.executor.judging.reference_process import ReferenceLost  # noqa: E402
from kernelrl.executor.judging.retest import Retest, add_costs  # noqa: E402
from kernelrl.executor.processes.closed_library import ClosedLibrary  # noqa: E402
from kernelrl.executor.processes.cores import Cores  # noqa: E402
from kernelrl.executor.processes.forking import ForkServer  # noqa: E402
from kernelrl.executor.processes.helpers import compiled_helper  # noqa: E402
from kernelrl.executor.processes.process import Needs, Process  # noqa: E402
from kernelrl.executor.processes.warming import (  # noqa: E402
    Warming,
    forkserver_environment,
    num_threads,
    start_forkserver,
)
from kernelrl.executor.quota import num_workers  # noqa: E402
from kernelrl.task import Task  # noqa: E402
from kernelrl.verdict import Verdict, Violation  # noqa: E402

REFERENCE_BYTES = 1 << 29
"""Memory for the inputs and expected outputs of references that nobody waits for: those of the least recently used are
forgotten first, and made again if they are needed."""
MAX_REFERENCES = 16
"""References at once that nobody waits for, each of which has a process."""
MAX_LESSONS = 4
"""How often a candidate is judged again because it needed a function of the library that was closed by mistake."""
REQUEST_BYTES = 1 << 30
"""Length of the longest request: its sender is trusted, and a candidate that is too long is told so."""
COMPILED_MB = 256
"""Size of any file that `torch.compile` writes for a reference (in MiB)."""
MALLOC = {-8: 1, -3: 32 << 20, -1: 128 << 20}
"""M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of mallopt(3): one heap for all threads, which make tensors of
every size; many would keep what is freed. Of this one 128 MiB at the most: each tensor of the next judgement would have
to touch its pages anew."""
MAX_VERDICT_CHARS = 1 << 20
"""Length of the longest verdict: what would make a longer one comes from a candidate that forges what it says."""
_LIBC = ctypes.CDLL(None)


@dataclass
class Told:
    """Who has had verdicts on the inputs that a reference has now."""

    first: float = math.inf
    """When the first was told, by `time.monotonic`."""
    groups: set[str | None] = field(default_factory=set)

    def may_be_known(self, group: str | None, arrived: float) -> bool:
        """Whether a candidate of that group, which arrived then, may have been written by who knew one of them."""
        return self.first < arrived and (group is None or self.groups != {group})


class References:
    """The references in use or waited for and, within a budget of memory, those used lately.

    Args:
        make: makes that of a task.
        cores: counts the waiting for somebody else who does.
        is_waited_for: whether a request waits for the task of that digest.
    """

    def __init__(self, make: Callable[[Task], Reference], cores: Cores, is_waited_for: Callable[[str], bool]):
        self._make = make
        self._cores = cores
        self._is_waited_for = is_waited_for
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._entries: OrderedDict[str, Reference | TaskError] = OrderedDict()
        self._users: dict[str, int] = {}
        self._starting: dict[str, threading.Lock] = {}
        self._told: dict[str, Told] = {}

    @contextmanager
    def of(self, task: Task, group: str | None, arrived: float) -> Iterator[Any]:
        """A function that gives the task's reference; it stays alive until the context is left.

        Its inputs are others than those of verdicts of which whoever asks may know: it waits until nobody needs these.

        Args:
            task: the task.
            group: see `Request`.
            arrived: when the request did, by `time.monotonic`.
        """
        key = task.digest
        with self._lock:
            while (told := self._told.setdefault(key, Told())).may_be_known(group, arrived):
                if self._users.get(key):
                    self._left.wait()
                    continue
                known = self._entries.get(key)
                if isinstance(known, Reference):
                    known.renew()
                self._told[key] = Told()
            told.groups.add(group)
            self._users[key] = self._users.get(key, 0) + 1
            starting = self._starting.setdefault(key, threading.Lock())

        met = False

        def get() -> Reference:
            nonlocal met
            met = True
            with self._cores.holding(starting):
                entry = self._entries.get(key)
                if entry is None or (isinstance(entry, Reference) and not entry.process.alive):
                    try:
                        entry = self._make(task)
                    except TaskError as error:
                        entry = error
                    with self._lock:
                        self._entries[key] = entry
                with self._lock:
                    self._entries.move_to_end(key)
            if isinstance(entry, TaskError):
                raise entry
            return entry

        try:
            yield get
        finally:
            with self._lock:
                self._users[key] -= 1
                if met:  # else it was refused before it saw any inputs
                    told.first = min(told.first, time.monotonic())
                if not self._users[key] and key not in self._entries:
                    del self._users[key], self._starting[key], self._told[key]
                self._shrink()
                self._left.notify_all()

    def _shrink(self) -> None:
        """Forget what nobody waits for, beyond the budget: draws first, which most of those who come renew anyway."""
        idle = [key for key in self._entries if not self._users[key] and not self._is_waited_for(key)]
        references = {key: entry for key in idle if isinstance(entry := self._entries[key], Reference)}
        sizes = {key: reference.num_bytes for key, reference in references.items()}
        total = sum(sizes.values())
        for key in idle[: max(0, len(idle) - MAX_REFERENCES)]:
            total -= sizes.pop(key, 0)
            del self._entries[key], self._users[key], self._starting[key], self._told[key]
            if key in references:
                threading.Thread(target=_end, args=(references[key],), daemon=True, name="closing").start()
        if total <= REFERENCE_BYTES:
            return
        for key, size in sizes.items():
            if size and total > REFERENCE_BYTES:
                references[key].forget()
                total -= size
        threading.Thread(target=_trim, daemon=True, name="trimming").start()


def _end(reference: Reference) -> None:
    reference.close()
    _trim()


def _trim() -> None:
    """Give back the memory of cases that are gone, which the C library would keep."""
    _LIBC.malloc_trim(0)


class Spares:
    """Processes that are confined and wait for a candidate, so that none waits for its process.

    Args:
        make: starts one.
        number: how many wait.
    """

    def __init__(self, make: Callable[[], Process], number: int):
        self._make = make
        self._ready: queue.SimpleQueue[Process] = queue.SimpleQueue()
        self._wanted = threading.Semaphore(number)
        threading.Thread(target=self._refill, daemon=True, name="spares").start()

    def take(self) -> Process | None:
        """One that lives; None: none is ready."""
        while True:
            try:
                spare = self._ready.get_nowait()
            except queue.Empty:
                return None
            self._wanted.release()
            if spare.alive:
                return spare
            spare.close()

    def _refill(self) -> None:
        while True:
            self._wanted.acquire()
            try:
                self._ready.put(self._make())
            except InfrastructureError:  # whoever needs one will meet the error
                self._wanted.release()
                time.sleep(1.0)


class Service:
    """Judges requests on a pool of threads.

    Args:
        settings: see `ExecutorSettings`.
        warming: the forkserver, started for these settings.
        secret: from which the seeds of hidden inputs are derived; None: this machine's.

    Raises:
        InfrastructureError: something that these settings need is not on this machine, or does not work.
    """

    def __init__(self, settings: ExecutorSettings, warming: Warming, secret: str | None = None):
        self.settings = settings
        self.workers = settings.workers or num_workers()
        self.threads = num_threads(settings)
        self.cache = Path(settings.cache_dir).expanduser()
        self.cache.mkdir(parents=True, exist_ok=True)
        self.secret = secret or read_secret(self.cache)
        own = own_folder(self.cache)
        self.on_gpu = settings.device == "cuda"
        self.scratch = _scratch(own / "scratch")
        self.helper = str(compiled_helper(self.cache, "closed_pages"))
        if settings.timing and not self.on_gpu:
            compiled_helper(self.cache, "peaks")  # here: nothing is compiled while a candidate is timed
        looks_twice = settings.sanitize and not self.on_gpu
        also_warming = start_forkserver(forkserver_environment(settings, sanitized=True)) if looks_twice else None
        self.forkserver = ForkServer(warming, on_death=lambda: os._exit(1))  # the client starts another service
        self.sanitized = None if also_warming is None else ForkServer(also_warming, on_death=lambda: os._exit(1))
        self.cores = Cores(self.workers, self.on_gpu, settings.lock_file)
        arch = machine.gpu_arch() if self.on_gpu else None
        limits = CacheLimits(settings.build_cache_mb << 20, settings.cache_days)
        self.builder = Builder(
            self.cache, self.scratch, self.forkserver, self.cores, settings.build_timeout_s, arch, limits
        )
        self.bounds = Bounds(self.cache, own, self.cores)
        self.profiler = (
            Profiler(self.forkserver, self.cores, self.scratch, shutil.which("ncu"), (self.cache,))
            if settings.counters and self.on_gpu
            else None
        )
        self.retest = Retest(settings, self.bounds.measure_again)
        self.line = Line()
        self.references = References(self._reference, self.cores, self.line.has)
        self.verdicts = diskcache.Cache(str(own / "verdicts"), size_limit=settings.verdict_cache_mb << 20)
        self.pool = ThreadPoolExecutor(max_workers=2 * self.workers, thread_name_prefix="judge")
        self.library = ClosedLibrary(
            self.cache, self.scratch, lambda: self._fork("library"), self.on_gpu, settings.allow_missing
        )
        self._fork().close()  # what this machine does not offer is known before the first candidate
        self.spares = Spares(self._fork, 2 if self.on_gpu else self.workers)

    def verdict(self, request: Request, arrived: float) -> Verdict:
        """Judge one request, or recall it. Never raises: whatever is not the candidate's fault is `infrastructure`.

        Args:
            request: the candidate.
            arrived: when it did, by `time.monotonic`.
        """
        if self.on_gpu and request.dialect == "cpp":
            return _not_known(request, "cuda", "task", "C++ kernels run on the CPU: use executor.device=cpu")
        key = self._key(request)
        try:
            if self.settings.verdict_cache and (known := self.verdicts.get(key)) is not None:
                update = {"task_id": request.task.id, "cached": True}
                return Verdict.model_validate_json(known).model_copy(update=update)
            found = self._judge_in_spite_of_the_machine(request, arrived)
            if found.status == "killed" and not found.final:
                first = found  # died by itself, or by a machine short of memory: the second time tells
                found = self._judge(request, arrived)
                found = add_costs(found, [first, found])
            if (length := len(text := found.model_dump_json())) > MAX_VERDICT_CHARS:
                found = forged(found, f"its verdict would be {length} characters long")
                text = found.model_dump_json()
            if self.settings.verdict_cache and found.final:
                self.verdicts.set(key, text)
        except TaskError as error:
            return _not_known(request, self.settings.device, "task", str(error))
        except Exception as error:
            return _not_known(request, self.settings.device, "executor", f"{type(error).__name__}: {error}")
        return found

    def build_ahead(self, request: Request, gpu_arch: str | None) -> Verdict:
        """Make the candidate's native builds and do not judge it (status `not_run`). Never raises."""
        try:
            return build_ahead(request, self.settings, self._start, self.builder, self.cores, gpu_arch)
        except Exception as error:
            return _not_known(request, self.settings.device, "executor", f"{type(error).__name__}: {error}")

    def _judge_in_spite_of_the_machine(self, request: Request, arrived: float) -> Verdict:
        """Judge it, and once more where the reference's process was killed: the second time it is the task's doing.

        Raises:
            TaskError: the reference fails, or was killed twice.
        """
        try:
            return self._judge(request, arrived)
        except ReferenceLost:
            try:
                return self._judge(request, arrived)
            except ReferenceLost as error:
                raise TaskError(f"{error}, twice; where memory is short, give the task smaller inputs") from None

    def _judge(self, request: Request, arrived: float) -> Verdict:
        profile = cache(self.profiler.profile) if self.profiler else None  # once, however often the kernel is judged

        def look(reference: Callable[[], Reference]) -> Verdict:
            parts = (
                *(request, self.settings, reference, self._start, self.builder, self.library, self.cores),
                *(self.bounds, profile),
            )
            for _ in range(MAX_LESSONS):
                with contextlib.suppress(PageLearnt):
                    return judge(*parts)
            return judge(*parts, may_learn=False)

        def look_again() -> Verdict:
            with closing(self._reference(request.task)) as reference:
                return look(lambda: reference)

        since = arrived if self.settings.draws is None else -math.inf  # named ones are the same for all
        with self.references.of(request.task, request.group, since) as reference:
            return self._on_this_machine(self.retest(request.task.digest, partial(look, reference), look_again))

    def _on_this_machine(self, found: Verdict) -> Verdict:
        return found.model_copy(update={"machine": machine.fingerprint()})

    def _start(self, needs: Needs = "nothing") -> Process:
        """A process for a candidate or a reference: one that waits, or a new one."""
        spare = self.spares.take() if needs == "nothing" else None
        return self._fork(needs) if spare is None else spare

    def _fork(self, needs: Needs = "nothing") -> Process:
        spec = {
            "device": self.settings.device,
            "memory_bytes": self.settings.memory_mb << (20 if self.on_gpu else 21),  # as much again to make outputs in
            "file_bytes": (COMPILED_MB if needs in ("jit", "compiler") else self.settings.output_mb) << 20,
            "threads": self.threads,
            "may_exec": needs in ("jit", "compiler"),
            "filtered": needs != "compiler",
            "candidate": needs in ("nothing", "operators") and not self.on_gpu,
            "sealed": needs == "nothing",
            "helper": self.helper,
        }
        forkserver = self.forkserver
        if needs == "sanitizer":
            assert self.sanitized is not None, "it is started where the settings ask for the second look"
            forkserver = self.sanitized
        with self.cores.working():
            process = Process(forkserver, spec, self.scratch, trusted=needs == "library")
        needed = {"namespaces", "landlock"} | ({"seccomp"} if spec["filtered"] else set())
        needed |= {"clock"} if spec["candidate"] else set()
        needed |= {"noexec"} if spec["sealed"] else set()
        if missing := sorted(needed - {*process.layers, *self.settings.allow_missing}):
            process.close()
            raise InfrastructureError(sandbox.explain_missing(missing))
        return process

    def _reference(self, task: Task) -> Reference:
        task.check_source()
        with self.cores.making_reference():
            process = self._start("library")  # which needs no device, though a driver takes a second to start
            try:
                with self.cores.preparing(), self.cores.on_device():
                    return Reference(task, process, self._start, self.cores, self.settings, self.secret)
            except BaseException:
                process.close()
                raise

    def _key(self, request: Request) -> str:
        candidate = request.candidate.digest if request.candidate else None
        parts = (
            judging_code(),
            request.task.digest,
            candidate,
            request.dialect,
            self.settings.model_dump_json(exclude=set(INCIDENTAL)),
            machine.fingerprint(),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _not_known(request: Request, device: str, fault: Literal["task", "executor"], feedback: str) -> Verdict:
    return not_known(request, device, fault, feedback, machine.fingerprint())


def forged(found: Verdict, evidence: str) -> Verdict:
    """The verdict on a candidate that has made it too long: without what it could have made long."""
    kept = set("task_id candidate stage final dialect device trials layers protocol seconds".split())
    violation = Violation(rule="forged_message", evidence=evidence)
    feedback = f"Not a genuine kernel. forged_message: {evidence}"
    update = {"status": "illegal", "violations": (violation,), "feedback": feedback}
    return Verdict(**found.model_dump(include=kept) | update)


def _scratch(folder: Path) -> Path:
    """A folder for this service's scratch folders; those of services that are gone are removed."""
    for left in folder.glob("*"):
        if not psutil.pid_exists(int(left.name)):
            shutil.rmtree(left, ignore_errors=True)
    mine = folder / str(os.getpid())
    mine.mkdir(parents=True, exist_ok=True)
    return mine


def main(client: socket.socket, settings: ExecutorSettings, warming: Warming, secret: str | None) -> None:
    """Serve one client until it hangs up."""
    sandbox.name_process("executor")
    for parameter, value in MALLOC.items():
        _LIBC.mallopt(parameter, value)
    torch.set_num_threads(1)  # each judge compares on a core of its own
    try:
        service = Service(settings, warming, secret)
    except InfrastructureError as error:
        wire.send(client, {"failed": str(error)})
        os._exit(1)
    wire.send(client, {"ready": True})
    sending, line = threading.Lock(), service.line

    def answer_next() -> None:
        with line.next() as it:
            if it is None:  # cancelled
                return
            ahead = it.ahead
            verdict = (
                service.verdict(it.request, it.arrived)
                if ahead is None
                else service.build_ahead(it.request, ahead["gpu_arch"])
            )
        with sending:
            wire.send(client, {"number": it.number, "verdict": verdict.to_json()})

    while True:
        try:
            message, _ = wire.receive(client, max_bytes=REQUEST_BYTES)
        except wire.WireError:
            os._exit(0)
        if "cancel" in message:
            line.cancel(message["cancel"])
            continue
        request = Request.model_validate(message["request"])
        line.add(Waiting(message["number"], request, message.get("ahead")))
        service.pool.submit(answer_next)


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    settings = ExecutorSettings.model_validate(TOLD["settings"])
    main(socket.socket(fileno=int(sys.argv[1])), settings, WARMING, TOLD["secret"])
