"""A real Slurm on this machine: munge, a controller and several node daemons, all in one folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from executor_cases import PATIENCE_S
from warm import Server

NEEDED = ("slurmctld", "slurmd", "munged")
CONFIG = """\
ClusterName=test
SlurmctldHost={host}({address})
SlurmUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=20
KillWait=5
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
{nodes}
PartitionName=work Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=600
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
"""
MARK = "SLURM_TEST_NODE"
"""Variable of every process of a node daemon."""


class Slurm:
    """Start it as a context manager.

    Args:
        folder: gets its state and logs.
        nodes: name -> the words that start its daemon, e.g. `unshare --mount`; empty: as it is.
        server: starts the commands of `kernelrl` on its login node.
        addresses: of the nodes, where they have their own.
    """

    def __init__(
        self,
        folder: Path,
        nodes: dict[str, Sequence[str]],
        server: Server,
        addresses: dict[str, str] | None = None,
        host: str = "127.0.0.1",
    ):
        self.folder, self.nodes, self._server = folder, nodes, server
        (folder / "state").mkdir(parents=True)
        lines = [
            f"NodeName={name} NodeHostname=localhost NodeAddr={(addresses or {}).get(name, '127.0.0.1')} "
            f"Port={_free_port()} CPUs=2 RealMemory=1000 State=UNKNOWN"
            for name in nodes
        ]
        self.config = folder / "slurm.conf"
        text = CONFIG.format(
            host=socket.gethostname(), address=host, port=_free_port(), folder=folder, nodes="\n".join(lines)
        )
        self.config.write_text(text)
        self.environment = os.environ | {"SLURM_CONF": str(self.config)}

    def __enter__(self) -> Slurm:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
        options = [f"--{name}={self.folder / file}" for name, file in names.items()]
        subprocess.run(["munged", "--force", f"--seed-file={self.folder / 'seed'}", *options], check=True)
        self._start("slurmctld", ["slurmctld", "-D", "-f", str(self.config)])
        for name in self.nodes:
            self.start_node(name)
        try:
            self.wait_until_idle()
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.run("scancel", "--user=root", check=False)
        time.sleep(1)
        for name in [*self.nodes, "slurmctld"]:
            self.kill(name)
        os.kill(int((self.folder / "munge.pid").read_text()), signal.SIGTERM)

    def kernelrl(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a command on the login node."""
        return self._server.run(*words, folder=self.folder, environment=self.environment)

    def wait_until_idle(self) -> None:
        """Wait until all nodes are there and do nothing."""
        wait_for(lambda: self.run("sinfo", "-hN", "-p", "work", "-o", "%T").split() == ["idle"] * len(self.nodes))

    def start_node(self, name: str) -> None:
        self._start(name, [*self.nodes[name], "slurmd", "-D", "-N", name, "-f", str(self.config)])

    def kill(self, name: str) -> None:
        """Kill a node with all that runs on it, as when its power fails."""
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except psutil.Error:
                continue
            ours = environment.get("SLURM_CONF") == str(self.config)
            if ours and name in (environment.get(MARK), environment.get("SLURMD_NODENAME")):
                process.kill()

    def run(self, *command: str, check: bool = True) -> str:
        """What a program of this Slurm prints."""
        done = subprocess.run(command, env=self.environment, check=check, capture_output=True, text=True)
        return done.stdout

    def state(self, job: str) -> dict[str, str]:
        """`scontrol show job`, e.g. `JobState`, `Restarts`, `NodeList`, `ExitCode`."""
        words = self.run("scontrol", "show", "job", job, "--oneliner").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def finish(self, job: str) -> dict[str, str]:
        """Wait for a job's end; how it ended. A job that waits to be queued again does not have to wait for long."""

        def ended() -> bool:
            state = self.state(job)
            if state["JobState"] == "PENDING" and state["Reason"] == "BeginTime":
                self.run("scontrol", "update", f"jobid={job}", "StartTime=now", check=False)
            return state["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED")

        wait_for(ended)
        return self.state(job)

    def _start(self, name: str, command: list[str]) -> None:
        environment = self.environment | {MARK: name}
        with open(self.folder / f"{name}.out", "a") as log:
            subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def is_here() -> bool:
    """Whether Slurm is installed, and may be started."""
    return os.getuid() == 0 and all(shutil.which(program) for program in NEEDED)


def has_namespaces() -> bool:
    """Whether this process may make network namespaces."""
    if shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", "krl-probe"], capture_output=True).returncode == 0
    return made and subprocess.run(["ip", "netns", "delete", "krl-probe"]).returncode == 0


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"waited {PATIENCE_S:g} s in vain"
        time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
