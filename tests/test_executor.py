"""The executor's promises, on real candidates, with a real compiler."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from omegaconf import OmegaConf

import kernelrl.executor as executor_room
from candidate_files import EXPLOITS, HERE, HONEST, TASKS, from_file, header
from conftest import KERNELS, REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge, processes_of, request, service_of, task_that_pries, wait_for
from kernelrl import dialects
from kernelrl.candidate import Completion
from kernelrl.configs import config_dir
from kernelrl.errors import UserError
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.api import Distribution, ExecutorSettings
from kernelrl.executor.building.headers import may_help
from kernelrl.executor.engines.cache_folder import own_folder
from kernelrl.executor.engines.local import LocalExecutor
from kernelrl.executor.processes.warming import forkserver_environment
from kernelrl.rewards import make_reward
from kernelrl.task import Task
from kernelrl.verdict import Verdict


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**FAST, "cache_dir": str(executor_cache)}) as engine:
        yield engine


def test_a_right_kernel_is_correct_and_timed(executor: Executor) -> None:
    verdict = judge(executor, RIGHT)
    assert verdict.status == "correct", verdict.feedback
    assert verdict.speedup is not None
    assert verdict.speedup.low <= verdict.speedup.median <= verdict.speedup.high
    assert verdict.trials > 4 + len(get_args(Distribution)) + verdict.speedup.pairs, "every output is compared"
    assert verdict.build is not None and verdict.build.ok
    assert verdict.coverage is not None and verdict.coverage > 0.5
    assert verdict.machine


def test_the_processes_of_an_executor_run_the_kernelrl_that_started_them(
    executor_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that happens to be installed: a checkout is tried by PYTHONPATH=src, as `make gpu-check` does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}/elsewhere")
    found = forkserver_environment(ExecutorSettings(cache_dir=str(executor_cache)))["PYTHONPATH"]
    assert found == f"{tmp_path / 'src'}{os.pathsep}/elsewhere"


def test_the_folder_of_a_command_has_no_part_in_judging(
    executor_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file there that is called like a module of Python's own is not imported."""
    for module in ("grp", "random", "kernelrl"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    with make_executor({**FAST, "cache_dir": str(executor_cache), "timing": False}) as engine:
        assert judge(engine, RIGHT).correct


DRAWS_FOR_ALL = 100
"""Most calls of `get_inputs` for all candidates of a group: with inputs of its own each would take more than thirty."""
SPARING = REFERENCE.replace(
    "def get_inputs():\n",
    f"""\
drawn = []


def get_inputs():
    drawn.append(0)
    assert len(drawn) <= {DRAWS_FOR_ALL}, "drawn too often"
""",
)


def test_a_verdict_says_where_its_time_went(executor: Executor) -> None:
    sources = [RIGHT.replace("void kernel", f"// {number}\nvoid kernel") for number in range(5)]
    verdicts = executor.evaluate([request(source, SPARING) for source in sources[:4]])
    [later] = executor.evaluate([request(sources[4], SPARING)])
    for verdict in (*verdicts, later):
        assert verdict.correct, f"the first ones make inputs and expected outputs for all: {verdict.feedback}"
        spent, build = verdict.spent, verdict.build
        assert spent is not None and build is not None and spent.timed > spent.calls > 0 and spent.reference > 0
        assert spent.waiting + spent.reference + spent.timed + build.seconds < verdict.seconds
    [refused] = executor.evaluate([request(KERNELS["cheat"], SPARING)])
    assert refused.spent is not None and refused.spent.timed == refused.spent.reference == 0


def test_a_wrong_kernel_is_incorrect_and_says_where(executor: Executor) -> None:
    verdict = judge(executor, KERNELS["wrong"])
    assert verdict.status == "incorrect" and verdict.stage == "ran"
    assert [error.inputs for error in verdict.errors[:4]] == ["task", "rows", "spike", "grains"]
    assert verdict.errors[0].kind == "mismatch" and 0.4 < (verdict.errors[0].mismatched or 0) < 0.6
    assert verdict.speedup is None


def test_a_kernel_that_does_not_compile_shows_the_compilers_words(executor: Executor) -> None:
    verdict = judge(executor, KERNELS["broken"])
    assert verdict.status == "compile_error" and verdict.stage == "legal"
    assert verdict.build is not None and "kernel.cpp:6:" in verdict.build.log


def test_a_text_that_lacks_a_sign_is_compiled_once_and_told_so_in_its_own_words(executor: Executor) -> None:
    verdict = judge(executor, RIGHT.replace("2.0f * a[i]", "(2.0f * a[i]"))
    assert verdict.status == "compile_error" and "before" in verdict.feedback
    assert "TensorView" in verdict.feedback and "light" not in verdict.feedback


@pytest.mark.parametrize(
    ("log", "may"),
    [
        ("kernel.cpp:11:5: error: expected ',' or ';' before 'v'", False),
        ("kernel.cpp:20:1: error: expected '}' at end of input", False),
        ("a: error: 'Foo' was not declared in this scope\na: error: expected ';' before 'x'", True),
        ("a: error: expected ')' before 'PRId64'", True),
        ("a: error: expected '{' before 'KERNEL_INLINE'", True),
        ("a: error: expected ',' or ';' before 'v'\n… 100 characters …\nb", True),
        ("a: error: expected constructor, destructor, or type conversion before '(' token", True),
        ("", True),
    ],
)
def test_more_headers_may_help_a_text_that_names_what_is_unknown(log: str, may: bool) -> None:
    assert may_help(log) is may


def test_a_build_that_was_made_ahead_is_found_by_whoever_judges(executor: Executor) -> None:
    assert isinstance(executor, LocalExecutor)
    source = RIGHT.replace("2.0f * a[i]", "(1.0f + 1.0f) * a[i]")
    ahead = executor.build_ahead(request(source), gpu_arch=None)
    assert ahead.status == "not_run" and ahead.build is not None and not ahead.build.cached
    verdict = judge(executor, source)
    assert verdict.correct and verdict.build is not None and verdict.build.keys == ahead.build.keys
    assert verdict.build.cached and verdict.build.seconds == 0


@pytest.mark.parametrize("wanting", ["", "using Text = tvm::ffi::String;"], ids=["light", "whole"])
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("mod.kernel(x, out)", "mod.kernel(x)"), "Mismatched number of arguments when calling: `kernel`"),
        (("mod.kernel(x, out)", "mod.kernel(x, 1)"), "Mismatched type on argument #1 when calling: `kernel`"),
        (("x.numel()", "x.size(7)"), "Index 7 out of bounds for tensor with 2 dimensions"),
        (("x.numel()", "x.size(-2) * x.stride(0)"), None),
        (("x.numel()", "x.is_contiguous() ? x.shape().Product() : 0"), None),
    ],
    ids=["number", "type", "bounds", "negative", "shape"],
)
def test_a_module_means_the_same_with_the_light_header(
    executor: Executor, wanting: str, edit: tuple[str, str], words: str | None
) -> None:
    """Most texts are compiled without tvm-ffi's own headers."""
    assert edit[0] in RIGHT
    verdict = judge(executor, RIGHT.replace(*edit).replace("void kernel", f"{wanting}\nvoid kernel"))
    assert verdict.status == ("runtime_error" if words else "correct"), verdict.feedback
    assert (words or "") in verdict.feedback


def test_python_that_does_not_parse_is_a_compile_error(executor: Executor) -> None:
    assert judge(executor, "class ModelNew(:\n").status == "compile_error"


def test_torch_instead_of_a_kernel_is_illegal(executor: Executor) -> None:
    verdict = judge(executor, KERNELS["cheat"])
    assert verdict.status == "illegal"
    assert {violation.rule for violation in verdict.violations} >= {"no_kernel", "library_call"}


def test_no_kernel_is_a_verdict_for_which_nothing_is_started(executor_cache: Path) -> None:
    with make_executor({**FAST, "cache_dir": str(executor_cache)}) as engine:
        verdict = judge(engine, None)
        assert isinstance(engine, LocalExecutor) and engine._service is None and engine.health()[0].judged == 1
    assert verdict.status == "illegal" and verdict.violations[0].rule == "no_kernel" and verdict.stage == "none"


def test_an_exception_in_the_kernel_is_a_runtime_error_with_its_line(executor: Executor) -> None:
    verdict = judge(executor, RIGHT.replace("mod.kernel(x, out)", "mod.kernel(x)"))
    assert verdict.status == "runtime_error"
    assert "in forward" in verdict.feedback


def test_a_task_that_fails_is_not_the_candidates_fault(executor: Executor) -> None:
    verdict = judge(executor, RIGHT, REFERENCE.replace("torch.relu(x)", "torch.relu(x, 1, 2, 3)"))
    assert verdict.status == "infrastructure" and verdict.fault == "task"
    assert "TypeError" in verdict.feedback


def test_equal_candidates_are_judged_once_and_remembered(executor: Executor, executor_cache: Path) -> None:
    source = RIGHT + "\n# counted"
    first = executor.evaluate([request(source), request(source), request(source)])
    assert [verdict.cached for verdict in first] == [False, True, True]
    with make_executor({**FAST, "cache_dir": str(executor_cache)}) as another:
        recalled = judge(another, source)
    assert recalled.cached and recalled.speedup == first[0].speedup


def test_the_same_sources_build_is_taken_from_the_cache(executor: Executor) -> None:
    judge(executor, RIGHT)
    verdict = judge(executor, RIGHT + "\n# the C++ is the same")
    assert verdict.build is not None and verdict.build.cached and not verdict.cached


@pytest.mark.slow
def test_a_batch_of_groups_builds_and_judges_each_source_once(fresh_cache: Path) -> None:
    """As GRPO asks: 16 tasks with 8 samples each, of which a third are alike."""
    tasks = [Task(id=str(rows), source=REFERENCE.replace("256,", f"{rows},")) for rows in range(33, 49)]
    native = [RIGHT.replace("void kernel", f"// {number}\nvoid kernel") for number in range(5)]
    batch = [request(native[sample % 5], task) for task in tasks for sample in range(8)]
    settings = {**FAST, "cache_dir": str(fresh_cache), "timing": False, "trials": 1, "distributions": []}
    with make_executor(settings) as engine:
        verdicts = engine.evaluate(batch)
        # the forkserver, one for each task, and those that wait; a candidate's takes a moment to go
        waiting = len(os.sched_getaffinity(0))
        wait_for(lambda: len(processes_of(engine)) <= 1 + 16 + waiting + 2)
    assert {verdict.status for verdict in verdicts} == {"correct"}
    assert sum(not verdict.cached for verdict in verdicts) == 16 * 5
    assert sum(not verdict.build.cached for verdict in verdicts if verdict.build and not verdict.cached) == 5
    assert len(list(fresh_cache.glob("build/*/*/build.json"))) == 5


def test_verdicts_stream_in_the_order_in_which_they_are_made(executor: Executor) -> None:
    """What is illegal by its text is known before another has been loaded, run and timed."""
    slow = RIGHT.replace("class ModelNew", "for _ in range(30_000_000):\n    pass\n\n\nclass ModelNew")
    order = [index for index, _ in executor.stream([request(slow), request(KERNELS["cheat"] + "\n# quick")])]
    assert order == [1, 0]


def test_weights_are_the_references_weights_whatever_else_is_drawn(executor: Executor) -> None:
    source = (HERE / "honest" / "linear_parameters.py").read_text()
    assert judge(executor, source, TASKS["linear"]).correct
    more = source.replace("super().__init__()", "super().__init__()\n        self.extra = nn.Linear(4, 4)")
    assert judge(executor, more, TASKS["linear"]).correct


class Judged:
    """Verdicts of candidate files that are judged as one stream by each executor: a test waits for what it looks at."""

    def __init__(self, shares: Iterable[tuple[Executor, Sequence[Path]]]):
        self._streams: dict[Path, Iterator[tuple[Path, Verdict]]] = {}
        self._known: dict[Path, Verdict] = {}
        for executor, paths in shares:
            stream = _verdicts(executor, paths)
            self._streams |= dict.fromkeys(paths, stream)
            if paths:
                self._take(stream)  # begins it: from now on the executor judges, whoever waits

    def __getitem__(self, path: Path) -> Verdict:
        while path not in self._known:
            self._take(self._streams[path])
        return self._known[path]

    def _take(self, stream: Iterator[tuple[Path, Verdict]]) -> None:
        path, verdict = next(stream)
        self._known[path] = verdict


DRAWN_AGAIN = {path: int(header(path)["draws"]) for path in EXPLOITS if "draws" in header(path)}
"""How often those exploits are judged at most that not every judgement's inputs tell from their task."""


def _verdicts(executor: Executor, paths: Sequence[Path]) -> Iterator[tuple[Path, Verdict]]:
    """Verdicts as they come; of an exploit that few inputs tell from its task, the first that refuses it.

    Of a hundred honest kernels one or less is refused in a judgement, on inputs on which rounding decides: it is judged
    on others, and has to be right there.
    """
    sources = {LAST: RIGHT + "\n# the last", LAST_OF_THE_IMPATIENT: RIGHT + "\n# within tight limits"}
    requests = [request(sources[path]) if path in sources else from_file(path) for path in paths]
    accepted, refused = [], []
    for index, verdict in executor.stream(requests):
        if verdict.correct and paths[index] in DRAWN_AGAIN:
            accepted.append(paths[index])
        elif verdict.status == "incorrect" and paths[index] in HONEST:
            warnings.warn(f"{paths[index].stem}: {verdict.feedback}", stacklevel=1)
            refused.append(paths[index])
        else:
            yield paths[index], verdict
    for path in refused:
        yield path, executor.evaluate([from_file(path, 1)])[0]
    for path in accepted:
        for number in range(1, DRAWN_AGAIN[path]):
            [verdict] = executor.evaluate([from_file(path, number)])
            if not verdict.correct:
                break
        yield path, verdict


QUICK = {path for paths in (EXPLOITS, HONEST) for path in paths[::12] if header(path).get("loader") != "torch"}
"""A twelfth of every family, whose names begin alike. What PyTorch's own loader builds takes a minute each."""


def _drawn() -> set[Path]:
    """A ninth of the others, which `make test-slow` judges: others for each version of what judges, by its text.

    `make test-candidates` judges all.
    """
    texts = sorted(path for room in (executor_room, dialects) for path in Path(room.__file__).parent.rglob("*.py"))
    version = random.Random("".join(path.read_text() for path in texts))
    others = [[path for path in paths if path not in QUICK] for paths in (EXPLOITS, HONEST)]
    part = version.randrange(9)
    return {path for paths in others for path in paths[part::9]}


DRAWN = _drawn()
LAST, LAST_OF_THE_IMPATIENT = Path("last"), Path("last within tight limits")
"""Stand for honest kernels that are judged after all the others."""
ENDLESS = [path for path in EXPLOITS if header(path)["expect"] == "timeout"]
"""They use up any limit, and so get a tight one: `run_timeout_s` of the others leaves room for interpreted kernels."""


def candidates(paths: Sequence[Path]) -> list[Any]:
    """Parameters of a test that looks at one of these files."""
    quick = QUICK | {LAST, LAST_OF_THE_IMPATIENT}
    params = []
    for path in paths:
        effort = [] if path in quick else [pytest.mark.slow] if path in DRAWN else [pytest.mark.exhaustive]
        params.append(pytest.param(path, id=path.stem, marks=[pytest.mark.candidates(path), *effort]))
    return params


@pytest.fixture(scope="module")
def judged(
    request: pytest.FixtureRequest, executor: Executor, executor_cache: Path, kept_executor: Kept
) -> Iterator[Judged]:
    """Of the files that the selected tests look at, as their marks say."""
    marks = [mark for item in request.session.items for mark in item.iter_markers("candidates")]
    wanted = {path for mark in marks for path in mark.args}
    hurried = [path for path in (*ENDLESS, LAST_OF_THE_IMPATIENT) if path in wanted]
    by_task = sorted((*EXPLOITS, *HONEST), key=lambda path: header(path)["task"])  # so each reference is made once
    others = [path for path in (*by_task, LAST) if path in wanted - set(hurried)]
    tight = {**FAST, "cache_dir": str(executor_cache), "run_timeout_s": 1.0, "load_timeout_s": 2.0}
    with kept_executor(tight) as impatient:
        yield Judged([(executor, others), (impatient, hurried)])


@pytest.mark.parametrize("path", candidates(EXPLOITS))
def test_no_exploit_is_accepted(judged: Judged, path: Path) -> None:
    verdict = judged[path]
    status, *rules = header(path)["expect"].split()
    assert verdict.status == status, verdict.feedback
    assert set(rules) <= {violation.rule for violation in verdict.violations}, verdict.violations


QUICK_EXPLOITS = [path for path in EXPLOITS if path in QUICK]
DRAWN_EXPLOITS = [path for path in EXPLOITS if path in DRAWN]
OTHER_EXPLOITS = [path for path in EXPLOITS if path not in QUICK | DRAWN]


@pytest.mark.parametrize(
    "exploits",
    [
        pytest.param(QUICK_EXPLOITS, id="quick", marks=pytest.mark.candidates(*QUICK_EXPLOITS)),
        pytest.param(
            DRAWN_EXPLOITS,
            id="drawn",
            marks=[pytest.mark.candidates(EXPLOITS[0], *DRAWN_EXPLOITS), pytest.mark.slow],
        ),
        pytest.param(
            OTHER_EXPLOITS,
            id="other",
            marks=[pytest.mark.candidates(EXPLOITS[0], *OTHER_EXPLOITS), pytest.mark.exhaustive],
        ),
    ],
)
@pytest.mark.parametrize("config", sorted((config_dir() / "reward").glob("*.yaml")), ids=lambda path: path.stem)
def test_no_reward_pays_an_exploit_more_than_an_honest_failure(
    judged: Judged, config: Path, exploits: list[Path]
) -> None:
    """An honest failure is a kernel that builds, runs and is wrong."""
    reward = make_reward(OmegaConf.load(config))  # type: ignore[arg-type]
    honest = judged[EXPLOITS[0]].model_copy(update={"status": "incorrect", "stage": "ran", "violations": ()})
    for path in exploits:
        completion = Completion.parse(f"<think>fuse it</think>\n```python\n{path.read_text()}```\n")
        samples = [(completion, judged[path]), (completion, honest)]
        cheat, failure = reward.of_groups(samples, "tt", progress=0.5)
        assert cheat.total is not None and failure.total is not None and cheat.total <= failure.total, path.stem


@pytest.mark.parametrize("path", candidates([*HONEST, LAST, LAST_OF_THE_IMPATIENT]))
def test_every_honest_kernel_is_accepted(judged: Judged, path: Path) -> None:
    assert judged[path].correct, judged[path].feedback


ATTEMPTS = [
    ("read a private file", 'open("/etc/passwd").read()'),
    ("read the home folder", 'os.listdir(pathlib.Path("/root"))'),
    ("write outside the scratch folder", 'open("/tmp/kernelrl-pry", "w").write("x")'),
    ("open a socket", "socket.socket()"),
    ("fork", "os.fork() or os._exit(0)"),
    ("run a program", 'os.execv("/bin/true", ["true"])'),
    ("signal the parent", "os.kill(os.getppid(), 0)"),
    ("have the kernel signal the parent", "fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())"),
    ("choose that signal", "fcntl.fcntl(3, 10, 9)"),
    ("change the mode of a file", 'os.chmod("/usr/bin/g++", 0o755)'),
    ("change the times of a file", 'os.utime("/usr/bin/g++")'),
    ("give a file away", 'os.chown("/usr/bin/g++", 0, 0)'),
    ("have any number of threads", "1 / (resource.getrlimit(resource.RLIMIT_NPROC)[0] > 512)"),
    ("fill the disk", '[open(f"f{i}", "wb").write(bytes(8 << 20)) for i in range(64)]'),
    ("see secrets", 'os.environ["KERNELRL_TEST_SECRET"]'),
    ("see secrets", 'open("/proc/self/environ").read().index("KERNELRL_TEST_SECRET")'),
]


def test_a_contestant_can_touch_nothing(executor_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELRL_TEST_SECRET", "hunter2")
    with make_executor({**FAST, "cache_dir": str(executor_cache)}) as engine:
        verdict = judge(engine, RIGHT, task_that_pries(*ATTEMPTS))
        able = judge(engine, RIGHT, task_that_pries(("do nothing", "None")))
    assert verdict.correct, verdict.feedback
    assert "could do nothing" in able.feedback, "what succeeds is told"


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="cuda"):
        make_executor({"device": "cuda"})


def test_all_layers_of_confinement_hold_here_and_scratch_folders_go(executor_cache: Path, capfd: Any) -> None:
    with make_executor({**FAST, "cache_dir": str(executor_cache)}) as engine:
        judge(engine, RIGHT + "\n# confined")
        scratch = own_folder(executor_cache) / "scratch" / str(service_of(engine).pid)
        assert scratch.is_dir()
        waiting = 3 + len(os.sched_getaffinity(0))  # reference twice, open code, spares: a candidate's goes
        wait_for(lambda: len(list(scratch.iterdir())) <= waiting)
    assert "candidates run without" not in capfd.readouterr().err


@pytest.mark.slow
def test_torchs_own_load_inline_is_built_by_the_builder(executor: Executor) -> None:
    path = HERE / "honest" / "torch_inline_threads.py"
    task = TASKS[header(path)["task"]]
    verdict, again = (judge(executor, path.read_text() + more, task) for more in ("", "\n# from the cache"))
    assert verdict.correct, verdict.feedback
    assert again.correct and again.build is not None and again.build.cached
    assert verdict.operators == {"aten::empty_like": 1}, "the dispatcher sees what C++ calls"
