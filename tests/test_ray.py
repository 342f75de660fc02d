"""The engine on a real Ray cluster of three nodes, which all are this machine."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import KERNELS, RIGHT
from executor_cases import FAST, request
from kernelrl.executor import Executor, Request, make_executor
from kernelrl.verdict import Verdict

pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

QUICK = {"trials": 1, "distributions": [], "timing": False, "verdict_cache": False, "run_timeout_s": 20.0}


def start_cluster(**node: Any) -> Cluster:
    """A head that judges nothing; nodes are added to it."""
    return Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **node})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes, and later those that tests add."""
    cluster = start_cluster()
    for _ in range(3):
        cluster.add_node(num_cpus=2)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def settings(executor_cache: Path, cluster: Cluster) -> dict[str, Any]:
    return on(cluster, executor_cache)


def on(cluster: Cluster, cache: Path, **where: Any) -> dict[str, Any]:
    where = {"address": cluster.address, "wait_s": 120.0, **where}
    return {**FAST, "cache_dir": str(cache), "verdict_cache": False, "engine": "ray", "cluster": where}


def essence(verdict: Verdict) -> tuple[Any, ...]:
    """What must be the same wherever it is judged."""
    rules = sorted({violation.rule for violation in verdict.violations})
    errors = [(error.trial, error.kind, error.inputs, error.max_abs) for error in verdict.errors]
    return verdict.status, verdict.fault, verdict.stage, rules, errors, verdict.trials, verdict.candidate


def workers() -> list[psutil.Process]:
    """Actors, their services and forkservers, on all nodes."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if "ray::Node" in words or "kernelrl.executor.service" in words or "kernelrl.executor.forkserver" in words:
            found.append(process)
    return found


def test_verdicts_are_those_of_the_local_engine(settings: dict[str, Any]) -> None:
    requests = [request(source) for source in (*KERNELS.values(), None)]
    requests.append(request(RIGHT, dialect="cpp"))
    with make_executor({**settings, "engine": "local"}) as local:
        expected = [essence(verdict) for verdict in local.evaluate(requests)]
    settings["cluster"]["min_nodes"] = 3
    with make_executor(settings) as engine:
        verdicts = engine.evaluate(requests)
        assert [essence(verdict) for verdict in verdicts] == expected
        assert verdicts[0].speedup is not None
        health = engine.health()
    assert len(health) == 3 and all(node.alive for node in health)
    assert sum(node.judged for node in health) == len(requests) - 1, "equal requests are judged once"


def variants(number: int) -> list[Request]:
    """Distinct candidates of which many share a build."""
    kinds = [*KERNELS.values(), RIGHT.replace("2.0f * a[i]", "a[i] + a[i]")]
    return [request(kinds[index % len(kinds)] + f"\n# {index}") for index in range(number)]


def test_two_thousand_candidates_have_one_verdict_each_whatever_dies(executor_cache: Path) -> None:
    requests = variants(2000)
    with make_executor({**FAST, **QUICK, "cache_dir": str(executor_cache)}) as local:
        expected = [essence(verdict) for verdict in local.evaluate(requests)]
    cluster = start_cluster()
    try:
        nodes = [cluster.add_node(num_cpus=2) for _ in range(3)]
        with make_executor({**on(cluster, executor_cache, min_nodes=3), **QUICK}) as engine:
            ended = threading.Event()
            killed: Counter[str] = Counter()
            killer = threading.Thread(target=_kill_at_random, args=(cluster, nodes[0], ended, killed))
            killer.start()
            verdicts = list(engine.stream(requests))
            ended.set()
            killer.join()
            health = engine.health()
    finally:
        cluster.shutdown()
    assert sorted(index for index, _ in verdicts) == list(range(2000)), "exactly one verdict each"
    different = [index for index, verdict in verdicts if essence(verdict) != expected[index]]
    assert not different, Counter(dict(verdicts)[index].feedback for index in different)
    assert killed["node"] == 1 and sum(killed.values()) >= 13, killed
    assert sum(node.retried for node in health) > 0


def _kill_at_random(cluster: Cluster, node: Any, ended: threading.Event, killed: Counter[str]) -> None:
    luck = random.Random(0)
    for turn in range(13):
        if ended.wait(3.0):
            return
        if turn == 4:
            cluster.remove_node(node, allow_graceful=False)
            killed["node"] += 1
        elif alive := workers():
            process = luck.choice(alive)
            name = " ".join(process.cmdline()).rpartition("kernelrl.executor.")[2].split(" ")[0]
            process.kill()
            killed[name] += 1
