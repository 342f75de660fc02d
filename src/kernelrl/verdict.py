"""`Verdict`: all that the executor found out about one candidate. A stable, public format (docs/verdict.md).

`None` means "not measured"; a number is always a measurement.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

SCHEMA_VERSION = 1

Status = Literal[
    "correct",
    "incorrect",
    "illegal",
    "compile_error",
    "runtime_error",
    "timeout",
    "killed",
    "not_run",
    "infrastructure",
]
ParameterSource = Literal["keyed", "by_name", "same_seed"]
Stage = Literal["none", "parsed", "legal", "compiled", "ran", "correct"]
STAGES: tuple[Stage, ...] = ("none", "parsed", "legal", "compiled", "ran", "correct")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Violation(_Frozen):
    """A rule that the candidate broke. One violation makes it `illegal`."""

    rule: str
    """Name of the rule, e.g. `library_call` (docs/executor-legality.md lists them)."""
    evidence: str
    """What was seen, short enough to read: the call, the operator, the attribute."""
    line: int | None = None
    """Line of the candidate's source, where one is known."""


class TrialError(_Frozen):
    """Why one trial failed. Trials that passed leave no entry."""

    trial: int
    """Index of the trial."""
    kind: Literal[
        "mismatch",
        "shape",
        "dtype",
        "device",
        "count",
        "type",
        "layout",
        "non_finite",
        "exception",
        "memory",
        "undefined",
    ]
    message: str
    inputs: str = "task"
    """What the inputs were: the task's own (`task`), a hidden distribution (`ties`, …) or a hidden shape (`n=17`)."""
    max_abs: float | None = None
    """Largest absolute difference from the reference (in the output's unit)."""
    max_rel: float | None = None
    """Largest relative difference from the reference."""
    mismatched: float | None = None
    """Share of elements outside the tolerance, 0 to 1."""


class Speedup(_Frozen):
    """Reference time over candidate time, from interleaved pairs; `low` and `high` bound the median (95 %)."""

    median: float
    low: float
    high: float
    pairs: int
    """Number of (reference, candidate) pairs measured."""


class Conditions(_Frozen):
    """Under which conditions the times were taken."""

    cache: Literal["warm", "cold"]
    """Processor caches before each call: as the writing of the inputs leaves them, or flushed."""
    load: float
    """Runnable processes on the machine, mean over a minute (beside it, nothing of this executor runs)."""
    clock_mhz: float | None
    """Mean clock of the cores (in MHz); None: the machine does not say."""
    overhead_ms: float
    """Time of asking, already taken off the times; below a quarter of it no time is told from another."""


class Memory(_Frozen):
    """Peak of the memory that a process holds from before it loads its program to the end of its first call.

    The program, parameters, outputs and all in between; the inputs are not counted (in MiB)."""

    candidate_mb: float
    reference_mb: float


class Counters(_Frozen):
    """What was counted from outside in one call on the CPU, all threads together: the median of several calls, less
    what a question that asks nothing takes. None: see `Verdict.uncounted`."""

    cycles: float | None = None
    """In the program's own code, as are instructions and branches."""
    instructions: float | None = None
    cache_references: float | None = None
    """Accesses to the outer cache, as the processor counts them: of Intel's the last level, of AMD's the second."""
    cache_misses: float | None = None
    """Of these, the ones that missed: each brings a cache line."""
    branches: float | None = None
    branch_misses: float | None = None
    """Branches that the processor had predicted wrongly."""
    page_faults: float | None = None
    context_switches: float | None = None
    """Times at which a thread gave up its core, or lost it."""
    cpu_ms: float | None = None
    """Time for which its threads have computed (in milliseconds)."""


class Construction(_Frozen):
    """Wall time of importing the text and constructing the model, builds not counted (in milliseconds).

    Others work beside it, so it is rough. It shows where work has gone that the timed calls lack."""

    candidate_ms: float
    reference_ms: float


class Loop(_Frozen):
    """What the compiler has made of one innermost loop of C++."""

    line: int
    """Of the text that is compiled."""
    vector_bytes: int
    """Length of its vectors (in bytes); 0: it is not vectorised."""
    reason: str = ""
    """Why not, in the compiler's words; empty: they do not say."""


class Build(_Frozen):
    """What compiling the candidate's native code came to."""

    ok: bool
    seconds: float
    """Wall time of the compiler, without the time for which it was stopped (in seconds); 0: all came from the cache."""
    cached: bool
    units: int
    """Number of native modules."""
    log: str = ""
    """Compiler output, shortened."""
    keys: tuple[str, ...] = ()
    """Content keys of the modules in the build cache."""
    loops: tuple[Loop, ...] = ()
    """Of the only native module, where it is C++ that compiles; empty: not known, or there are none."""


class GpuBuild(_Frozen):
    """What compiling one kernel for a GPU that is not here came to."""

    kernel: str
    arch: str
    """The GPU's architecture, e.g. `sm_90`."""
    ok: bool
    log: str = ""
    registers: int | None = None
    """Registers of one thread; None: it did not compile."""
    shared_bytes: int | None = None
    """Shared memory of one program (in bytes)."""
    spill_bytes: int | None = None
    """Registers spilled to memory by one thread (in bytes)."""


class GpuCounters(_Frozen):
    """What Nsight Compute counted in the longest launch of one kernel. None: it does not say."""

    kernel: str
    launches: int = 1
    """Of this kernel, among the first 16 launches of one call, which are all that are profiled."""
    microseconds: float | None = None
    compute: float | None = None
    """Throughput of the multiprocessors, as a share of what they could do, 0 to 1."""
    dram: float | None = None
    """Throughput of the device's memory, as a share of what it could do, 0 to 1."""
    read_bytes: float | None = None
    """Read from the device's memory."""
    written_bytes: float | None = None
    occupancy: float | None = None
    """Warps that were active, as a share of those that a multiprocessor holds, 0 to 1."""
    stalled_by: str | None = None
    """What its warps waited for most."""


class Spent(_Frozen):
    """Where the time of an evaluation went (in seconds); what is left of it the candidate's own build, load and runs
    took."""

    waiting: float
    """For others: for a place, for what another candidate was making, while another was timed."""
    reference: float
    """Making the task's reference and expected outputs, which the first candidate of a task does for all."""
    timed: float
    """Having the machine alone."""
    calls: float = 0.0
    """Of that, the timed calls themselves."""


class Verdict(_Frozen):
    """All that is known about one candidate on one task."""

    schema_version: int = SCHEMA_VERSION
    task_id: str
    candidate: str | None
    """sha256 of the candidate (dialect and source); None: the completion held no kernel."""
    status: Status
    fault: Literal["task", "executor"] | None = None
    """Whose fault an `infrastructure` verdict is; None for every other status."""
    stage: Stage
    """The last stage that was passed."""
    dialect: str
    device: str
    """Where it ran: `cpu`, `cuda:0`, …"""
    violations: tuple[Violation, ...] = ()
    errors: tuple[TrialError, ...] = ()
    trials: int = 0
    """Number of trials whose outputs were compared, timed runs included."""
    reference_ms: float | None = None
    """Median time of one reference call (in milliseconds)."""
    candidate_ms: float | None = None
    """Median time of one candidate call (in milliseconds)."""
    speedup: Speedup | None = None
    bound_ms: float | None = None
    """Time below which no program can do the task on this machine (in milliseconds; docs/executor.md); None: not known.

    A kernel that seems to be faster by more than a factor of two, twice, is `illegal` (`implausible`)."""
    bound_by: Literal["reading", "writing", "multiplying"] | None = None
    """What takes `bound_ms`: reading what must be read, writing the outputs, or multiplying matrices."""
    bound_bytes: int | None = None
    """Memory that every program must read and write in a call (in bytes), as far as its reference tells; None: not
    known."""
    uneven: bool = False
    """True: the candidate's other calls took longer than those that count, so `speedup` is that of all of them."""
    retest: Speedup | None = None
    """A speedup too good to be believed at once was measured again: the higher of the two; `speedup` is the lower, or
    None where the kernel was not correct the second time."""
    compiled_ms: float | None = None
    """Median time of one call of the reference under `torch.compile` (in milliseconds); None: not measured."""
    compile_mode: str | None = None
    """That of `torch.compile`: `default` or `reduce-overhead`, which on a CPU is the same."""
    speedup_compiled: Speedup | None = None
    """Compiled reference's time over candidate's time, from the same interleaved calls."""
    baseline: str = ""
    """Why there is no time for the compiled reference although it was asked for; otherwise empty."""
    conditions: Conditions | None = None
    """None: nothing was timed."""
    coverage: float | None = None
    """Share of the work that the candidate's own kernels do, 0 to 1 (Dr. Kernel's PR); None: not known.

    On a GPU, of the device time. On a CPU it is 1 where the libraries' code was closed, so that none computed."""
    memory: Memory | None = None
    """None: not measured, as on a GPU, in Triton's interpreter, or where the first call already failed."""
    counters: Counters | None = None
    """None: `executor.counters` did not ask for them, or nothing was timed on a CPU."""
    gpu_counters: tuple[GpuCounters, ...] = ()
    """Of each kernel of one call on a GPU, where `executor.counters` asks for them."""
    uncounted: str = ""
    """Why counters of the hardware are not known although `executor.counters` asks for them; otherwise empty."""
    construction: Construction | None = None
    """None: the candidate was not loaded."""
    parameters: ParameterSource | None = None
    """How the candidate got the reference's parameters and buffers.

    `keyed`: hidden values, of what it draws or registers as the reference does. `by_name`: hidden values, of which
    those that it initialises in another way or order than the reference were given to it by name or shape.
    `same_seed`: the values that the program's initialisers make, because the reference is not reliable with others or
    the protocol wants it so. None: the reference has no parameters, or the candidate did not run."""
    operators: dict[str, int] | None = None
    """Library operators that ran in one traced call, with counts; None: not traced."""
    build: Build | None = None
    """None: nothing was compiled."""
    gpu_builds: tuple[GpuBuild, ...] = ()
    """GPU kernels compiled for an architecture that is not here; empty: none were, or Triton's were not asked for."""
    feedback: str = ""
    """One paragraph for a person or a policy: what happened and where."""
    log: str = ""
    """The candidate's own output, shortened."""
    protocol: str = "kernelrl"
    """Name of the executor settings that were followed."""
    final: bool = True
    """False: the load on the machine, or a signal from outside, may have decided, or a further look may tell more (an
    `implausible` kernel, one that could not be measured again); such a verdict is not remembered."""
    draws: str | None = None
    """Name of the inputs: `executor.draws` with this name draws them again. None: nothing was drawn."""
    interpreted: bool = False
    """True: Triton's interpreter ran it, so there is no time."""
    cached: bool = False
    """True: the verdict came from the verdict cache."""
    seconds: float = 0.0
    """Wall time of the evaluation, of all looks where a kernel is judged again (in seconds)."""
    spent: Spent | None = None
    """None: not known."""
    layers: tuple[str, ...] = ()
    """Layers of confinement that held for its process: `namespaces`, `noexec` (no file can be made code), `landlock`,
    `seccomp`, `clock` (nothing tells the time), `pages` (the libraries cannot compute). Empty: it did not run."""
    checks: tuple[str, ...] = ()
    """What `executor.sanitize` has found nothing wrong with: `memory` (accesses beyond a tensor, undefined behaviour),
    `threads` (other numbers of threads, which give way to each other at any access to memory)."""
    machine: str = ""
    """Fingerprint of the machine and the toolchain."""

    @model_validator(mode="after")
    def _status_ties_fields(self) -> Verdict:
        if self.violations and self.status not in ("illegal", "infrastructure"):
            raise ValueError(f"a verdict with violations is illegal, not {self.status}")
        if self.status == "illegal" and not self.violations:
            raise ValueError("an illegal verdict names the rule")
        if (self.status == "infrastructure") != (self.fault is not None):
            raise ValueError(f"status {self.status} does not fit fault {self.fault}")
        if (self.status == "correct") != (self.stage == "correct"):
            raise ValueError(f"status {self.status} does not fit stage {self.stage}")
        return self

    @property
    def correct(self) -> bool:
        """Correct and legal."""
        return self.status == "correct"

    @property
    def legal(self) -> bool:
        """There is a kernel and no rule was seen broken."""
        return self.reached("legal") and self.status != "illegal"

    def reached(self, stage: Stage) -> bool:
        """Whether the candidate passed `stage`."""
        return STAGES.index(self.stage) >= STAGES.index(stage)

    def to_json(self) -> dict[str, Any]:
        """The public JSON form."""
        return self.model_dump(mode="json")
