"""What every execution engine offers, and the settings that they share."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from kernelrl.candidate import ENTRY_POINT, Candidate
from kernelrl.task import Task
from kernelrl.verdict import Spent, Verdict, Violation

Distribution = Literal[
    "normal",
    "uniform",
    "constant",
    "ties",
    "zeros",
    "negative",
    "large",
    "tiny",
    "wide",
    "denormal",
    "nan",
    "infinite",
    "single",
    "ordered",
    "rows",
    "spike",
    "grains",
    "ends",
    "boundary",
]
"""Value distributions beside the task's own (`executor/contest/distributions.py`)."""
BOUNDARY_RUNS = 8
"""Checked runs of `boundary`; of each other distribution there is one."""


Layer = Literal["namespaces", "noexec", "landlock", "seccomp", "clock", "pages"]
"""A layer of confinement (docs/executor.md)."""


CompileMode = Literal["default", "reduce-overhead"]
"""A mode of `torch.compile`. On a CPU the two are the same: `reduce-overhead` is about CUDA graphs."""


class Request(BaseModel):
    """One candidate against one task. `candidate` is None for a completion without a kernel: that is a verdict too."""

    model_config = ConfigDict(frozen=True)

    task: Task
    candidate: Candidate | None
    dialect: str
    """The dialect that was asked for; named in the verdict also when there is no kernel."""
    group: str | None = None
    """Whoever wrote candidates of one group knew no verdict on another of them, so they may meet the same inputs.

    None: the requests of one call of `Executor.stream` are a group."""


class ClusterSettings(BaseModel):
    """Which Ray cluster the engine `ray` judges on, and how it uses it (docs/executor-ray.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str | None = None
    """`auto`, `host:port` or `ray://host:port` of a running cluster; None: RAY_ADDRESS, else Ray is started here."""
    min_nodes: PositiveInt = 1
    """Number of nodes that must be ready to judge before work starts."""
    wait_s: PositiveFloat = 120.0
    """Time to wait for them, or for any node once all are gone (in seconds)."""
    max_actors: PositiveInt | None = None
    """Use at most so many actors, and show an autoscaler that so many are wanted; None: those that fit the nodes."""
    cpus_per_actor: PositiveFloat | None = None
    """CPUs that an actor claims from Ray; None: all of its node's, because timing needs quiet cores."""
    gpus_per_actor: PositiveInt = 1
    """With device=cuda: GPUs that an actor claims. It judges on the first of them."""
    judges: str | None = None
    """Only nodes that offer this custom resource of Ray's judge; None: all (with device=cuda, all that have a GPU)."""
    builders: str | None = None
    """Nodes that offer this resource build ahead and do not judge; None: none (cuda: those that have no GPU)."""
    in_flight: PositiveInt | None = None
    """Requests at one actor at a time; the others wait with the driver. None: two for each of its workers."""
    silent_s: PositiveFloat = 60.0
    """An actor that gives no sign of life for so long is given up (in seconds)."""
    service: str | None = None
    """Name of a shared executor on the cluster (`kernelrl executor serve`); None: actors of this run's own."""
    token_file: str | None = None
    """File with the shared executor's token; None: the token is in KERNELRL_EXECUTOR_TOKEN."""


DEFAULT_LOCK_FILE = "/tmp/kernelrl-timing.lock"


class ExecutorSettings(BaseModel):
    """Settings of an execution engine (`configs/executor`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: Literal["local", "ray"] = "local"
    """Where candidates are judged: on this machine, or on the nodes of a Ray cluster."""
    cluster: ClusterSettings | None = None
    """Settings of the engine `ray`; None: its defaults."""
    protocol: str = "kernelrl"
    """Name that the verdicts carry for these settings."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where candidates run: `cuda` is the first CUDA device, for every dialect but `cpp`."""
    workers: PositiveInt | None = None
    """Number of candidates that are built or prepared at once on a machine; None: one per core."""
    threads: PositiveInt | None = None
    """Threads of one timed or checked run; None: all cores."""
    trials: PositiveInt = 5
    """Number of runs on the task's own fresh inputs whose outputs must be right; most hold something rare."""
    distributions: tuple[Distribution, ...] = get_args(Distribution)
    """Hidden value distributions, one more run each, where the reference itself is reliable."""
    shapes: NonNegativeInt = 5
    """Number of hidden shapes, one more run each, where the task declares `SHAPE_RANGES`: of five,
    both ends of each range come in three, then sizes that are no multiple of eight, then small ones."""
    oracle: Literal["float64", "native"] = "float64"
    """What outputs are compared with: the reference in float64, or as the task computes it (KernelBench)."""
    seeds: Literal["secret", "kernelbench"] = "secret"
    """Where input seeds come from: this machine's secret, or KernelBench's published sequence from seed 42."""
    timing: bool = True
    """Measure speedup; otherwise every time in the verdict is None."""
    retest_above: Annotated[float, Field(gt=1)] | None = 3.0
    """Median speedups above this are measured again, and the lower one counts; None: no speedup is."""
    retest_over_record: Annotated[float, Field(gt=1)] = 2.0
    """So are those above this multiple of the task's best so far, once there is one."""
    compile_baseline: CompileMode | None = None
    """Time the reference under `torch.compile` in this mode too."""
    cpu_cache: Literal["warm", "cold"] = "warm"
    """Processor caches before a timed call: as the writing of the inputs leaves them, or flushed."""
    counters: bool = False
    """Read counters of the hardware in further calls of a kernel that was timed (`Verdict.counters`)."""
    sanitize: bool = False
    """Have a kernel that is right run again under sanitizers and with other numbers of threads (on the CPU)."""
    static_rules: bool = True
    """False: judge by what runs alone (to test the dynamic defences by themselves)."""
    min_pairs: PositiveInt = 7
    """Number of interleaved (reference, candidate) pairs before the interval is looked at."""
    max_pairs: PositiveInt = 15
    timing_budget_s: NonNegativeFloat = 2.0
    """Time for the timed pairs of one candidate (in seconds), beyond `min_pairs`."""
    target_width: NonNegativeFloat = 0.1
    """Stop timing when the interval's width is below this share of the median."""
    gpu_arch: Annotated[str, Field(pattern=r"^sm_\d+a?$")] | None = None
    """Architecture for which GPU kernels are compiled where there is none to run them, e.g. `sm_90`, or `sm_90a`.

    None: CUDA for `DEFAULT_ARCH`, Triton not at all (its interpreter runs it)."""
    build_timeout_s: PositiveFloat = 60.0
    """CPU time for one native build, and time on the clock for all builds of a candidate that fail (in seconds)."""
    load_timeout_s: PositiveFloat = 30.0
    """Limit for importing the candidate and constructing `ModelNew`, builds not counted (in seconds of CPU time of one
    thread, or of waiting; docs/executor.md)."""
    run_timeout_s: PositiveFloat = 10.0
    """Limit for one call of `forward` (in seconds, as `load_timeout_s`). On a GPU a call in which Triton may compile
    has that of a build as well."""
    memory_mb: PositiveInt = 4096
    """Private memory that a candidate may allocate (in MiB)."""
    output_mb: PositiveInt = 16
    """Size of any file that a candidate's process writes (in MiB): on a CPU its log is the only one."""
    cache_dir: str = "~/.cache/kernelrl"
    """Folder of the build cache and the verdict cache."""
    build_cache_mb: PositiveInt = 8192
    """Size of the builds that are kept (in MiB); those used longest ago go first."""
    verdict_cache_mb: PositiveInt = 4096
    """Size of the verdicts that are kept (in MiB)."""
    cache_days: PositiveFloat = 90.0
    """A build that nobody has used for so long is removed (in days)."""
    lock_file: str = DEFAULT_LOCK_FILE
    """File that the executors of this machine lock while they time: one at a time does."""
    verdict_cache: bool = True
    allow_missing: tuple[Layer, ...] = ()
    """Layers of confinement without which candidates may run where the machine does not offer them."""
    draws: str | None = None
    """Name of the inputs to draw again, which a verdict has; None: new ones for each group of requests."""
    seed: int = 0
    """Root of the hidden input seeds."""


DEFAULT_ARCH = "sm_90"

MAX_STARTS = 3
"""Number of times that a request is handed to a service or a machine before its verdict is `infrastructure`."""

MAX_BUILDS = 16
"""Native modules of one candidate."""

INCIDENTAL = frozenset(
    "build_cache_mb cache_days cache_dir cluster engine lock_file verdict_cache verdict_cache_mb workers".split()
)
"""Settings that do not change what a verdict says."""


def deciding_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that do not change what a verdict says: a run may be resumed with others of these."""
    return {name: value for name, value in settings.items() if name not in INCIDENTAL}


class NodeHealth(BaseModel):
    """How one machine of an engine is doing, as its engine sees it."""

    model_config = ConfigDict(frozen=True)

    node: str
    """Name of the machine."""
    alive: bool
    queued: int
    """Requests handed to this machine that it has not begun, as far as the engine can tell."""
    running: int
    """Requests that are being judged."""
    judged: int
    """Verdicts since the engine started."""
    retried: int
    """Requests that had to be handed out again, because their service or their machine was lost."""
    last_error: str = ""


class Executor(Protocol):
    """Judges candidates. Thread-safe; close it or use it as a context manager."""

    def evaluate(self, requests: Sequence[Request]) -> list[Verdict]:
        """Verdicts in the order of the requests. Equal requests are judged once."""
        verdicts: dict[int, Verdict] = dict(self.stream(requests))
        return [verdicts[index] for index in range(len(requests))]

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Verdict]]:
        """(index, verdict) as they come, each index once."""
        ...

    def health(self) -> list[NodeHealth]:
        """One entry per machine. Cheap; may be asked from another thread at any time."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def in_group(requests: Sequence[Request]) -> list[Request]:
    """The requests, of which those without a group are one."""
    group = secrets.token_hex(8)
    return [it if it.group is not None else it.model_copy(update={"group": group}) for it in requests]


def group_equal(requests: Sequence[Request]) -> list[list[int]]:
    """Indices of the requests, those of equal ones together."""
    groups: dict[tuple[str, str | None, str], list[int]] = {}
    for index, request in enumerate(requests):
        digest = request.candidate.digest if request.candidate else None
        key = (request.task.digest, digest, request.dialect)
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def answers(requests: Sequence[Request], indices: Sequence[int], verdict: Verdict) -> Iterator[tuple[int, Verdict]]:
    """The one verdict on equal requests, for each of them."""
    for position, index in enumerate(indices):
        copy = {"task_id": requests[index].task.id, "cached": verdict.cached or position > 0}
        yield index, verdict.model_copy(update=copy)


def no_answer(request: Request, reason: str) -> Verdict:
    """The verdict on a question that the policy takes for no question: a sample that failed, and why."""
    evidence = f"the policy refused the question: {reason}"
    return _no_kernel(request, evidence, feedback=f"The policy did not answer: {reason}", device="none")


def without_kernel(request: Request, settings: ExecutorSettings) -> Verdict:
    """The verdict on a completion that holds no kernel: nothing has to run for it."""
    evidence = f"no complete code block defines {ENTRY_POINT}"
    feedback = f"The answer holds no complete code block that defines {ENTRY_POINT}. no_kernel: {evidence}"
    spent = Spent(waiting=0.0, reference=0.0, timed=0.0)
    found = {"device": settings.device, "protocol": settings.protocol, "spent": spent}
    return _no_kernel(request, evidence, feedback=feedback, **found)


def _no_kernel(request: Request, evidence: str, **found: Any) -> Verdict:
    return Verdict(
        task_id=request.task.id,
        candidate=None,
        status="illegal",
        stage="none",
        dialect=request.dialect,
        violations=(Violation(rule="no_kernel", evidence=evidence),),
        **found,
    )


def not_known(
    request: Request, device: str, fault: Literal["task", "executor"], feedback: str, machine: str = ""
) -> Verdict:
    """The verdict when nothing was learnt about the candidate."""
    return Verdict(
        task_id=request.task.id,
        candidate=request.candidate.digest if request.candidate else None,
        status="infrastructure",
        fault=fault,
        stage="none",
        dialect=request.dialect,
        device=device,
        feedback=feedback,
        machine=machine,
    )
