"""The engine on a real Ray cluster, whose nodes all are this machine."""

from __future__ import annotations

import contextlib
import json
import platform
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import kernelrl
from conftest import KERNELS, RIGHT
from executor_cases import FAST, PATIENCE_S, request, task_that_pries, wait_for
from kernelrl.errors import UserError
from kernelrl.executor import Request, make_executor
from kernelrl.verdict import Verdict
from warm import Server

ray = pytest.importorskip("ray")
from ray._private import services  # noqa: E402
from ray.autoscaler.v2.sdk import get_cluster_resource_state  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = pytest.mark.cluster

QUICK = {"trials": 1, "distributions": [], "timing": False, "verdict_cache": False, "run_timeout_s": 20.0}


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Ray gives a node 30 seconds to start: here each of its questions for the node waits for longer."""
    ask = services.get_node

    def ask_until_it_is_there(*arguments: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask(*arguments)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "get_node", ask_until_it_is_there)
        yield


def start_cluster(**node: Any) -> Cluster:
    """A head that judges nothing; nodes are added to it."""
    return Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **node})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes, and later those that tests add."""
    cluster = start_cluster()
    for _ in range(2):
        cluster.add_node(num_cpus=2)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def settings(executor_cache: Path, cluster: Cluster) -> dict[str, Any]:
    return on(cluster, executor_cache)


def on(cluster: Cluster, cache: Path, **where: Any) -> dict[str, Any]:
    where = {"address": cluster.address, "wait_s": PATIENCE_S, **where}
    return {**FAST, "cache_dir": str(cache), "verdict_cache": False, "engine": "ray", "cluster": where}


def essence(verdict: Verdict) -> tuple[Any, ...]:
    """What must be the same wherever it is judged."""
    rules = sorted({violation.rule for violation in verdict.violations})
    errors = [(error.trial, error.kind, error.inputs, error.max_abs) for error in verdict.errors]
    trials = None if verdict.speedup else verdict.trials  # how many timed calls there are is left to chance
    return verdict.status, verdict.fault, verdict.stage, rules, errors, trials


def workers() -> list[psutil.Process]:
    """Actors, their services and forkservers, on all nodes."""
    return processes("ray::Node", "executor", "forkserver", "contestant")


def processes(*names: str) -> list[psutil.Process]:
    """Processes of these tests' clusters whose names begin so."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name().startswith(names):
                found.append(process)
    return found


def test_verdicts_are_those_of_the_local_engine(settings: dict[str, Any]) -> None:
    requests = [request(source) for source in (*KERNELS.values(), None)]
    requests.append(request(RIGHT, dialect="cpp"))
    with make_executor({**settings, "engine": "local"}) as local:
        expected = [essence(verdict) for verdict in local.evaluate(requests)]
    settings["cluster"]["min_nodes"] = 2
    with make_executor(settings) as engine:
        verdicts = engine.evaluate(requests)
        assert [essence(verdict) for verdict in verdicts] == expected
        assert verdicts[0].speedup is not None
        health = engine.health()
    assert len(health) == 2 and all(node.alive for node in health)
    assert sum(node.judged for node in health) == len(requests) - 1, "equal requests are judged once"


KINDS = (*KERNELS.values(), KERNELS["cheat"].replace("relu", "tanh"), "class ModelNew(:")


def variants(number: int) -> list[Request]:
    """Distinct candidates of which many share a build."""
    return [request(KINDS[index % len(KINDS)] + f"\n# {index}") for index in range(number)]


def test_dozens_of_candidates_have_one_verdict_each_whatever_dies(executor_cache: Path) -> None:
    requests = variants(60)
    to_kill = ["ray::Node", "executor", "forkserver"]
    with make_executor({**FAST, **QUICK, "cache_dir": str(executor_cache)}) as local:
        expected = [essence(verdict) for verdict in local.evaluate([request(kind) for kind in KINDS])]
    cluster = start_cluster()
    try:
        nodes = [cluster.add_node(num_cpus=2) for _ in range(3)]
        with make_executor({**on(cluster, executor_cache, min_nodes=3), **QUICK}) as engine:
            luck = random.Random(0)
            verdicts = []
            for answer in engine.stream(requests):
                verdicts.append(answer)
                if len(verdicts) == 24:
                    cluster.remove_node(nodes[0], allow_graceful=False)
                elif len(verdicts) in (12, 36, 48):
                    name = to_kill.pop()
                    luck.choice(wait_for(lambda name=name: processes(name))).kill()
            health = engine.health()
    finally:
        cluster.shutdown()
    assert sorted(index for index, _ in verdicts) == list(range(60)), "exactly one verdict each"
    different = [index for index, verdict in verdicts if essence(verdict) != expected[index % len(KINDS)]]
    assert not different, Counter(dict(verdicts)[index].feedback for index in different)
    for index, verdict in verdicts:
        candidate = requests[index].candidate
        assert candidate is not None and verdict.candidate == candidate.digest
    assert not to_kill
    assert sum(node.retried for node in health) > 0


def test_a_node_that_joins_gets_work_and_a_silent_one_is_given_up(cluster: Cluster, settings: dict[str, Any]) -> None:
    settings |= QUICK
    settings["cluster"] |= {"min_nodes": 2, "silent_s": 30.0, "in_flight": 1}
    with make_executor(settings) as engine:
        engine.evaluate(variants(12))
        actors = {p for p in workers() if p.name().startswith("ray::Node")}
        node = cluster.add_node(num_cpus=2)
        wait_until(lambda: sum(each.alive for each in engine.health()) == 3)
        [new] = {p for p in workers() if p.name().startswith("ray::Node")} - actors
        requests = [request(RIGHT + f"\n# joined {index}") for index in range(40)]
        stream = engine.stream(requests)
        verdicts = dict([next(stream)])
        new.suspend()
        verdicts |= dict(stream)
        assert {verdict.status for verdict in verdicts.values()} == {"correct"} and len(verdicts) == 40
        silent = [each for each in engine.health() if "no sign of life" in each.last_error]
        assert len(silent) == 1 and silent[0].retried == 1
        cluster.remove_node(node, allow_graceful=False)
        wait_until(lambda: sum(each.alive for each in engine.health()) == 2)
        assert engine.evaluate(requests[:3])


def test_an_actor_that_gives_no_verdict_is_replaced(settings: dict[str, Any]) -> None:
    settings["cluster"] |= {"max_actors": 1}
    with make_executor(settings | QUICK) as engine, ThreadPoolExecutor(1) as pool:
        engine.evaluate([request(RIGHT)])
        before = [process for process in workers() if process.name() == "executor"]
        assert before
        for process in before:
            process.suspend()
        staff = engine._backend._pool._staff  # type: ignore[attr-defined]
        patience, staff._limit_s = staff._limit_s, 10.0
        answer = pool.submit(engine.evaluate, [request(RIGHT + "\n# another")])
        wait_until(lambda: "no verdict for 10 s" in [node.last_error for node in engine.health()])
        staff._limit_s = patience  # the one that takes its place may need long to start
        [verdict] = answer.result()
        assert verdict.status == "correct"
    for process in before:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


def test_work_that_no_node_finishes_gets_an_infrastructure_verdict(settings: dict[str, Any]) -> None:
    settings |= QUICK
    settings["cluster"] |= {"max_actors": 1}
    with make_executor(settings) as engine:
        done = threading.Event()

        def kill_all() -> None:
            while not done.wait(0.2):  # each time that an actor has work: who dies before waits longer and longer
                for process in workers() if processes("executor") else ():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()

        killer = threading.Thread(target=kill_all)
        killer.start()
        verdicts = engine.evaluate([request(RIGHT), request(KERNELS["wrong"])])
        done.set()
        killer.join()
        assert [(verdict.status, verdict.fault) for verdict in verdicts] == [("infrastructure", "executor")] * 2

        def judges_again() -> bool:  # on a busy machine not at once: then too few nodes are ready
            with contextlib.suppress(UserError):
                return engine.evaluate([request(RIGHT)])[0].correct
            return False

        wait_for(judges_again)


def test_another_version_is_refused_before_work_starts(executor_cache: Path, tmp_path: Path) -> None:
    source = Path(kernelrl.__file__).parent
    shutil.copytree(source, tmp_path / "kernelrl")
    init = tmp_path / "kernelrl" / "__init__.py"
    init.write_text(init.read_text() + "\n__version__ = '0.0.7'\n")
    cluster = start_cluster()
    try:
        cluster.add_node(num_cpus=2, env_vars={"PYTHONPATH": str(tmp_path)})
        with pytest.raises(UserError) as refusal:
            make_executor(on(cluster, executor_cache))
        name = f"node {platform.node()}:"
        for part in (name, "kernelrl 0.0.7 there", f"{kernelrl.__version__} here", "install the same one on all nodes"):
            assert part in str(refusal.value)
    finally:
        cluster.shutdown()


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"min_nodes": 9}, r"min_nodes=9: \d of \d nodes of the Ray cluster are ready to judge after wait_s=4"),
        ({"judges": "quiet"}, "no node offers the resource 'quiet'"),
        ({"device": "cuda"}, "executor.device=cuda: none of the \\d nodes of the Ray cluster has a GPU"),
        ({"address": "127.0.0.1:9"}, "executor.cluster.address=127.0.0.1:9: no Ray cluster answers there"),
        ({"service": "nobody"}, "no shared executor of that name on this cluster; start one with"),
    ],
)
def test_what_is_not_there_is_named(settings: dict[str, Any], settings_: dict[str, Any], message: str) -> None:
    if "device" in settings_:
        settings |= settings_
        settings_ = {}
    settings["cluster"] |= {"wait_s": 4.0, **settings_}
    with pytest.raises(UserError, match=message):
        make_executor(settings)


@pytest.fixture
def served(
    cluster: Cluster, settings: dict[str, Any], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[dict[str, Any], str]]:
    """The settings with which a run attaches to a shared executor, and the address of its page."""
    monkeypatch.setenv("KERNELRL_EXECUTOR_TOKEN", "hunter2")
    settings |= QUICK
    settings["cluster"]["service"] = "judges"
    where = f"executor.cluster.address={cluster.address}"
    told = {key: value for key, value in settings.items() if key not in ("engine", "cluster")}
    overrides = [f"executor.{key}={str(value).replace(' ', '')}" for key, value in told.items()]
    options = ("executor.cluster.min_nodes=2", "--quota", 4, "--port", 0, "--lease", 30)
    result = server.run("executor", "serve", "judges", where, *overrides, *options, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "nodes are ready to judge" in result.stdout
    yield settings, result.stdout.partition("its page: ")[2].split()[0]
    stopped = server.run("executor", "stop", "judges", where, folder=tmp_path)
    assert stopped.returncode == 0 and "stopped" in stopped.stdout, stopped.stderr


CLIENT = """
import sys
sys.path.insert(0, {tests!r})
from test_ray import RIGHT, make_executor, request
with make_executor({settings!r}) as engine:
    stream = engine.stream([request(RIGHT + f"# {{index}}") for index in range(3000)])
    next(stream)
    print("judged", flush=True)
    list(stream)
"""


def test_a_shared_executor_serves_runs_by_turns_forgets_the_dead_and_comes_back_when_killed(
    served: tuple[dict[str, Any], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, page = served

    def summary() -> dict[str, Any]:
        with urllib.request.urlopen(page + "health.json") as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    text = CLIENT.format(tests=str(Path(__file__).parent), settings=settings)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as greedy:
        assert greedy.stdout is not None and greedy.stdout.readline() == "judged\n"
        with make_executor(settings) as engine:
            verdicts = engine.evaluate([request(source) for source in KERNELS.values()])
            statuses = [verdict.status for verdict in verdicts]
            assert statuses == ["correct", "incorrect", "compile_error", "illegal"]
            found = summary()
            assert len(found["clients"]) == 2 and found["queued"] > 2000, "not served after the greedy one"
            assert sum(node["queued"] + node["running"] for node in found["nodes"]) <= 4, "its quota"
            greedy.kill()
            wait_until(lambda: summary()["queued"] == 0)
            assert len(summary()["clients"]) == 1
            assert sum(node.judged for node in engine.health()) >= 5
    with urllib.request.urlopen(page) as answer:
        assert b"kernelrl executor judges" in answer.read()

    with pytest.raises(UserError, match="executor.trials is 1 there, 2 here"):
        make_executor({**settings, "trials": 2})
    monkeypatch.setenv("KERNELRL_EXECUTOR_TOKEN", "hunter3")
    with pytest.raises(UserError, match="the token is not the right one"):
        make_executor(settings)
    monkeypatch.delenv("KERNELRL_EXECUTOR_TOKEN")
    with pytest.raises(UserError, match="no token .* KERNELRL_EXECUTOR_TOKEN"):
        make_executor(settings)
    monkeypatch.setenv("KERNELRL_EXECUTOR_TOKEN", "hunter2")

    with make_executor(settings) as engine:
        stream = engine.stream(variants(24))
        verdicts = dict([next(stream)])
        [service] = processes("ray::SharedExecutor")
        service.kill()
        verdicts |= dict(stream)
    assert len(verdicts) == 24 and not [v for v in verdicts.values() if v.status == "infrastructure"]


def test_builds_are_made_ahead_and_shipped_where_no_folder_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = [tmp_path / name for name in ("driver", "builder", "judge")]
    monkeypatch.setenv("HOME", str(homes[0]))
    cluster = start_cluster()
    try:
        cluster.add_node(num_cpus=2, resources={"builds": 1}, env_vars={"HOME": str(homes[1])})
        cluster.add_node(num_cpus=2, env_vars={"HOME": str(homes[2])})
        settings = on(cluster, Path("~/cache"), builders="builds") | QUICK
        with make_executor(settings) as engine:
            wait_until(lambda: sum(node.alive for node in engine.health()) == 2)
            verdicts = engine.evaluate([request(source) for source in (*KERNELS.values(), None)])
        statuses = [verdict.status for verdict in verdicts]
        assert statuses == ["correct", "incorrect", "compile_error", "illegal", "illegal"]
        for verdict in verdicts[:3]:
            assert verdict.build is not None and verdict.build.cached and verdict.build.seconds == 0
        assert [list((home / "cache" / "hosts").glob("*/verdicts")) != [] for home in homes] == [False, True, True]
    finally:
        cluster.shutdown()


def test_an_autoscaler_sees_how_many_nodes_are_wanted(executor_cache: Path) -> None:
    cluster = start_cluster()
    try:
        cluster.add_node(num_cpus=2)
        with make_executor(on(cluster, executor_cache, max_actors=2) | QUICK) as engine:
            wait_until(lambda: demand() == [{"CPU": 2.0}])
            cluster.add_node(num_cpus=2)
            wait_until(lambda: [node.alive for node in engine.health()] == [True, True])
            wait_until(lambda: demand() == [])
            cluster.add_node(num_cpus=2)
            assert engine.evaluate([request(RIGHT)])[0].status == "correct"
            assert len(engine.health()) == 2 or not engine.health()[2].alive, "no more than max_actors"
    finally:
        cluster.shutdown()


def demand() -> list[dict[str, float]]:
    """What an autoscaler is asked for."""
    client = ray._raylet.GcsClient(address=ray.get_runtime_context().gcs_address)
    state = get_cluster_resource_state(client)
    return [dict(each.request.resources_bundle) for each in state.pending_resource_requests for _ in range(each.count)]


def test_a_contestant_on_a_node_reaches_nothing_of_rays(
    settings: dict[str, Any], cluster: Cluster, tmp_path: Path
) -> None:
    host, port = cluster.address.split(":")
    session = cluster.head_node.get_session_dir_path()
    token = tmp_path / "token"
    token.write_text("hunter2")
    file = next(path for path in Path(session).rglob("*") if path.is_file())
    attempts = [
        ("reach Ray", f"socket.create_connection(({host!r}, {port}), timeout=5)"),
        ("list Ray's sockets", f"os.listdir({session!r} + '/sockets')"),
        ("read Ray's session", f"open({str(file)!r}).read()"),
        ("see the object store", "1 / len(os.listdir('/dev/shm'))"),
        ("see the token", "os.environ['KERNELRL_EXECUTOR_TOKEN']"),
        ("see Ray's variables", "1 / len([name for name in os.environ if 'RAY' in name])"),
        ("see its parents' variables", "open(f'/proc/{os.getppid()}/environ').read()"),
        ("read the token's file", f"open({str(token)!r}).read()"),
    ]
    settings["cluster"]["max_actors"] = 1
    with make_executor(settings | QUICK) as engine:
        [verdict] = engine.evaluate([request(RIGHT, task_that_pries(*attempts))])
    assert verdict.correct, verdict.feedback


def test_ray_can_be_reached_as_a_client(settings: dict[str, Any], cluster: Cluster) -> None:
    port = free_port()
    command = [sys.executable, "-m", "ray.util.client.server", "--address", cluster.address]
    with subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port), "--mode", "proxy"]) as server:
        try:
            wait_until(lambda: is_listening(port))
            settings["cluster"] |= {"address": f"ray://127.0.0.1:{port}", "max_actors": 1}
            with make_executor(settings | QUICK) as engine:
                verdicts = engine.evaluate([request(source) for source in KERNELS.values()])
                assert engine.health()
            statuses = [verdict.status for verdict in verdicts]
            assert statuses == ["correct", "incorrect", "compile_error", "illegal"]
        finally:
            server.terminate()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def is_listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_figures_reach_prometheus(settings: dict[str, Any]) -> None:
    settings["cluster"]["max_actors"] = 1
    with make_executor(settings | QUICK) as engine:
        engine.evaluate([request(source) for source in KERNELS.values()])
        names = ("queued", "in_flight", "nodes", "verdicts", "judge_seconds")
        wanted = [*(f"ray_kernelrl_{name}" for name in names), 'status="illegal"']
        wait_until(lambda: all(each in figures() for each in wanted))


def figures() -> str:
    """What Prometheus would fetch from all nodes."""
    texts = []
    for node in ray.nodes():
        if node["Alive"] and node["MetricsExportPort"]:
            with contextlib.suppress(OSError):
                address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
                with urllib.request.urlopen(address, timeout=5) as answer:
                    texts.append(answer.read().decode())
    return "\n".join(texts)
