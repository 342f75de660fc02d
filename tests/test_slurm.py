"""The same commands on a cluster: a real Slurm with three nodes, on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelrl
import slurm
from conftest import TOY
from kernelrl.records import Ledger
from slurm import Slurm, wait_for
from warm import Server

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not slurm.is_here(), reason="needs root, and apt-get install slurm-wlm munge"),
]
SMALL = (
    *(*TOY, "sft.trainer.max_steps=4", "grpo.trainer.per_device_train_batch_size=8"),
    *("grpo.trainer.max_completion_length=64", "eval.max_new_tokens=64"),
)
BATCH, STEPS = 8, 6
"""Completions of a step of GRPO, and the steps of a run that something happens to."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Slurm]:
    with Slurm(tmp_path_factory.mktemp("slurm"), {"node1": [], "node2": [], "node3": []}, server) as running:
        yield running


def submit(cluster: Slurm, *words: object) -> str:
    """Launch a command on the cluster. Returns the job's number."""
    done = cluster.kernelrl("launch", words[0], *SMALL, "launcher=slurm", *words[1:])
    assert done.returncode == 0, done.stderr
    return re.search(r"job (\d+)", done.stdout)[1]


def check_records(folder: Path, steps: int) -> None:
    """No record is lost, none is doubled."""
    ids = [record.id for record in Ledger(folder / "records")]
    assert sorted(ids) == sorted(f"grpo/{step}/{index}" for step in range(steps) for index in range(BATCH))
    lines = (folder / "log.jsonl").read_text().splitlines()
    logged = [entry["step"] for entry in map(json.loads, lines) if "reward" in entry]
    assert logged == list(range(1, steps + 1))


def output(folder: Path, job: str) -> str:
    return (folder / "logs" / f"{job}.log").read_text()


def test_the_pipeline_runs_on_two_nodes(cluster: Slurm, tmp_path: Path) -> None:
    """With the model shared out; the other jobs here leave it whole on both."""
    words = [f"output_dir={tmp_path}", "parallel=zero2", "nodes=2"]
    job = submit(cluster, "pipeline", *words)
    state = cluster.finish(job)
    assert state["JobState"] == "COMPLETED", output(tmp_path, job)
    assert list(json.loads((tmp_path / "results.json").read_text())["policies"]) == ["base", "sft", "grpo"]
    assert (tmp_path / "report.html").exists()
    check_records(tmp_path / "grpo", steps=3)
    assert {path.name for path in (tmp_path / "logs" / "latest").iterdir()} == {"sft-rank1.log", "grpo-rank1.log"}
    for stage in ("sft", "grpo"):
        (meeting,) = (tmp_path / "launch" / "nodes").glob(f"*.{stage}")
        nodes = {json.loads(path.read_text())["node"] for path in meeting.iterdir()}
        assert len(nodes) == 2


def test_a_preempted_job_resumes(cluster: Slurm, toy: Path, tmp_path: Path) -> None:
    steps = 3 * STEPS  # Slurm needs some seconds to begin: the run must not have ended by then
    job = submit(cluster, "grpo", *grpo(toy, tmp_path, steps), "nodes=2")
    wait_for(lambda: "grpo/0/0" in written(tmp_path))
    cluster.run("sbatch", "--partition=urgent", "--exclusive", "--nodes=3", "--output=/dev/null", "--wrap=srun sleep 1")
    wait_for(lambda: cluster.state(job)["Restarts"] == "1")
    assert "stopped by SIGTERM" in output(tmp_path, job)
    assert cluster.finish(job)["JobState"] == "COMPLETED", output(tmp_path, job)
    check_records(tmp_path / "grpo", steps)
    assert not (tmp_path / "grpo" / "records" / "superseded").exists(), "it saved a checkpoint before it stopped"
    assert not (tmp_path / "launch" / "failures").exists()


def test_a_job_whose_node_dies_goes_on_on_the_others(cluster: Slurm, toy: Path, tmp_path: Path) -> None:
    job = submit(cluster, "grpo", *grpo(toy, tmp_path), "nodes=2")
    wait_for(lambda: "grpo/1/0" in written(tmp_path))
    (meeting,) = (tmp_path / "launch" / "nodes").iterdir()
    dead = json.loads((meeting / "1.json").read_text())["node"]
    cluster.kill(dead)
    try:
        state = cluster.finish(job)
        assert state["JobState"] == "COMPLETED", output(tmp_path, job)
        assert int(state["Restarts"]) >= 1
        assert dead not in cluster.run("scontrol", "show", "hostnames", state["NodeList"]).split()
        check_records(tmp_path / "grpo", steps=STEPS)
    finally:
        cluster.start_node(dead)
        cluster.wait_until_idle()


def test_a_sweep_is_one_job_for_each_combination(cluster: Slurm, toy: Path, tmp_path: Path) -> None:
    words = [f"output_dir={tmp_path}", f"curate.folder={toy}/data", "sft.trainer.max_steps=2", "seed=0,1"]
    launcher = ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=work", "hydra.launcher.cpus_per_task=1"]
    command = [sys.executable, "-m", "kernelrl.cli", "sft", "-m", *SMALL, *words, *launcher]  # submitit pickles it
    done = subprocess.run(command, capture_output=True, text=True, env=cluster.environment, timeout=600)
    assert done.returncode == 0, done.stderr
    assert sorted(path.parent.parent.name for path in tmp_path.glob("*/sft/done.json")) == [
        f"seed={n}" for n in range(2)
    ]

    def completed() -> int:
        jobs = cluster.run("scontrol", "show", "job", "--oneliner").splitlines()
        return sum("ArrayTaskId=" in job and "JobState=COMPLETED" in job for job in jobs)

    wait_for(lambda: completed() >= 2)


def test_an_evaluation_is_shared_out_as_an_array(cluster: Slurm, toy: Path, tmp_path: Path) -> None:
    words = [f"output_dir={tmp_path}", f"curate.folder={toy}/data", f"sft.folder={toy}/sft", "~eval.policies.grpo"]
    job = submit(cluster, "eval", *words, "launcher.array=2", "eval.batch_size=2")
    assert cluster.finish(job)["JobState"] == "COMPLETED"
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results["policies"]) == ["base", "sft"]
    for policy in ("base", "sft"):
        records = list(Ledger(tmp_path / "eval" / policy / "records"))
        assert len(records) == len({record.id for record in records}) == 12
        assert len(list((tmp_path / "eval" / policy / "records").glob("part*"))) == 2
        assert results["policies"][policy]["num_resumed"] == 12, "the job that compares samples nothing"


def test_a_curation_is_shared_out_as_shards(cluster: Slurm, tmp_path: Path) -> None:
    words = [f"output_dir={tmp_path}", "tasks.num_train=4", "tasks.num_heldout=2", "curate.num_triples=4"]
    job = submit(cluster, "curate", *words, "curate.num_heldout_triples=2", "launcher.array=2")
    assert cluster.finish(job)["JobState"] == "COMPLETED", output(tmp_path, job)
    summary = json.loads((tmp_path / "data" / "summary.json").read_text())
    assert summary["shards"] == 2 and summary["proposals_by_status"].keys() == {"correct"}
    assert all((tmp_path / "verified" / f"shard-{number}-of-2" / "done.json").exists() for number in (1, 2))


def test_the_executors_node_judges_what_another_writes(cluster: Slurm, toy: Path, tmp_path: Path) -> None:
    words = ["nodes=1", "launcher.executors=1", "executor=ray", "executor.timing=false"]
    job = submit(cluster, "grpo", *grpo(toy, tmp_path), *words, "grpo.trainer.max_steps=3")
    state = cluster.finish(job)
    assert state["JobState"] == "COMPLETED" and state["NumNodes"] == "2", output(tmp_path, job)
    check_records(tmp_path / "grpo", steps=3)
    (judge,) = json.loads((tmp_path / "grpo" / "health" / "rank0.json").read_text())["nodes"]
    assert judge["judged"] > 0, "the node that trains has no CPUs for Ray"


def grpo(toy: Path, folder: Path, steps: int = STEPS) -> list[str]:
    inputs = [f"output_dir={folder}", f"curate.folder={toy}/data", f"sft.folder={toy}/sft"]
    return [*inputs, f"grpo.trainer.max_steps={steps}", "grpo.trainer.save_steps=3"]


def written(folder: Path) -> str:
    ledger = folder / "grpo" / "records" / "rank0.jsonl"
    return ledger.read_text() if ledger.exists() else ""


@pytest.mark.parametrize(
    "words, message",
    [
        (["nodes=9"], "the job needs 9 nodes, and partition work has 3; lower nodes"),
        (["launcher.partition=wrok"], "launcher.partition=wrok: Slurm has no such partition; did you mean 'work'?"),
        (["launcher.partition=gpu"], "launcher.partition=gpu: Slurm has no such partition; there are work, urgent"),
        (["+launcher.options.reservation=none"], "error: sbatch: "),
        (["launcher.generators=1"], "launcher.generators=1: vLLM is not installed; pip install 'kernelrl[vllm]'"),
        (["launcher.array=2"], "launcher.array=2: only curate and eval can be shared out as an array, not sft"),
    ],
)
def test_what_slurm_cannot_do_is_one_line_before_anything_runs(
    cluster: Slurm, toy: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    given = [f"output_dir={tmp_path}", f"curate.folder={toy}/data", "launcher=slurm", *words]
    done = cluster.kernelrl("launch", "sft", *SMALL, *given)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_without_slurm_the_way_out_is_said(server: Server, toy: Path, tmp_path: Path) -> None:
    given = [f"output_dir={tmp_path}", f"curate.folder={toy}/data", "launcher=slurm"]
    environment = os.environ | {"PATH": str(Path(sys.executable).parent)}
    done = server.run("sft", *SMALL, *given, folder=tmp_path, environment=environment)
    assert done.returncode == 2
    assert "no Slurm here (sbatch is not on PATH); use a login node, or launcher=local" in done.stderr


@pytest.fixture(scope="module")
def odd_cluster(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[tuple[Slurm, Path]]:
    """On node2 is another version of kernelrl, and node3 does not share the folder that comes with the cluster."""
    folder = tmp_path_factory.mktemp("odd")
    private, other = folder / "private", folder / "other.py"
    private.mkdir()
    installed = Path(kernelrl.__file__)
    other.write_text('__version__ = "0.0.1"\n')
    mounts = {
        "node2": f"mount --bind {other} {installed}",
        "node3": f"mount -t tmpfs none {private}",
    }
    nodes = {name: ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"] for name, mount in mounts.items()}
    with Slurm(folder / "slurm", {"node1": [], **nodes}, server) as running:
        yield running, private


@pytest.mark.parametrize(
    "node, message",
    [
        ("node2", r"node2 has kernelrl 0\.0\.1 instead of .*; install on every node what launched the run"),
        ("node3", r"node3: .*/config\.yaml is not there; output_dir has to be on a file system that all nodes share"),
    ],
)
def test_a_node_that_cannot_take_part_says_so_before_the_training(
    odd_cluster: tuple[Slurm, Path], toy: Path, node: str, message: str
) -> None:
    cluster, private = odd_cluster
    folder = private / node
    words = [
        f"output_dir={folder}",
        f"curate.folder={toy}/data",
        "nodes=2",
        f"+launcher.options.nodelist='node1,{node}'",
    ]
    job = submit(cluster, "sft", *words)
    state = cluster.finish(job)
    assert state["JobState"] == "FAILED" and state["ExitCode"] == "2:0" and state["Restarts"] == "0"
    assert re.search(message, output(folder, job))
    assert not (folder / "sft" / "log.jsonl").exists()


@pytest.fixture
def hosts(server: Server) -> Iterator[Slurm]:
    """Two hosts with addresses of their own, in network namespaces on one bridge."""
    folder = Path(tempfile.mkdtemp(prefix="krl-"))  # Slurm makes a socket in it, whose path may have 108 letters

    def ip(words: str) -> None:
        subprocess.run(["ip", *words.split()], check=True)

    addresses = {"node1": "10.77.0.11", "node2": "10.77.0.12"}
    try:
        ip("link add krl-bridge type bridge")
        ip("addr add 10.77.0.1/24 dev krl-bridge")
        ip("link set krl-bridge up")
        for name, address in addresses.items():
            ip(f"netns add krl-{name}")
            ip(f"link add krl-{name} type veth peer name eth0 netns krl-{name}")
            ip(f"link set krl-{name} master krl-bridge up")
            ip(f"-n krl-{name} addr add {address}/24 dev eth0")
            ip(f"-n krl-{name} link set eth0 up")
            ip(f"-n krl-{name} link set lo up")
        nodes = {name: ["nsenter", f"--net=/run/netns/krl-{name}"] for name in addresses}
        with Slurm(folder, nodes, server, addresses, "10.77.0.1") as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # munge is still taking its own files away
        for name in addresses:
            subprocess.run(["ip", "netns", "delete", f"krl-{name}"])
        subprocess.run(["ip", "link", "delete", "krl-bridge"])


@pytest.mark.skipif(not slurm.has_namespaces(), reason="needs network namespaces: apt-get install iproute2, and root")
def test_hosts_that_were_cut_apart_go_on_when_they_are_joined(hosts: Slurm, toy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job = submit(hosts, "grpo", *grpo(toy, folder), "nodes=2", "launcher.setup=['export GLOO_SOCKET_IFNAME=eth0']")
    wait_for(lambda: "grpo/1/0" in written(folder))
    other = next(name for name in hosts.nodes if name != hosts.state(job)["BatchHost"])
    subprocess.run(["ip", "link", "set", f"krl-{other}", "down"], check=True)
    wait_for(lambda: int(hosts.state(job)["Restarts"]) >= 1)
    subprocess.run(["ip", "link", "set", f"krl-{other}", "up"], check=True)
    assert hosts.finish(job)["JobState"] == "COMPLETED", output(folder, job)
    check_records(folder / "grpo", steps=STEPS)
