"""`kernelrl executor serve NAME`: start, look at and stop a shared executor on a Ray cluster."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from kernelrl.commands.arguments import Parser
from kernelrl.configs import compose_config, read_node
from kernelrl.console import set_up_logging
from kernelrl.errors import UserError
from kernelrl.executor import ExecutorSettings
from kernelrl.executor.api import ClusterSettings

USAGE = """\
kernelrl executor serve NAME [key=value ...] [--quota N] [--port N]
       kernelrl executor health|stop NAME [executor.cluster.address=…]"""
DESCRIPTION = """\
A shared executor is an actor on a Ray cluster that owns its nodes and judges for several runs, which attach to it with
executor=ray executor.cluster.service=NAME. It outlives this command and every run."""
EPILOG = """\
Who attaches, looks or stops needs the token with which it was served: the variable KERNELRL_EXECUTOR_TOKEN, or
executor.cluster.token_file=FILE.

  serve    start it on the running cluster at executor.cluster.address (default: RAY_ADDRESS, else auto), and wait until
           executor.cluster.min_nodes nodes are ready. Runs that attach must have the same settings of the executor,
           but for those of where it runs
  health   what its nodes do, as JSON
  stop     end it; requests that it has get the status infrastructure

examples:
  kernelrl executor serve judges executor.cluster.min_nodes=4 --quota 64 --port 8470
  kernelrl grpo executor=ray executor.cluster.service=judges
  kernelrl executor stop judges"""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    cfg = compose_config("check", ["executor=ray", *options.overrides])
    set_up_logging()
    settings = read_node(ExecutorSettings, cfg.executor, "executor")
    cluster = settings.cluster or ClusterSettings()
    if cluster.address is None and not os.environ.get("RAY_ADDRESS"):  # a Ray of our own would end with this command
        cluster = cluster.model_copy(update={"address": "auto"})

    from kernelrl.executor.engines.ray_engine import attach, detach

    started_here = attach(cluster)
    try:
        if options.action == "serve":
            return _serve(options, settings.model_copy(update={"cluster": cluster}), cluster)
        return _look_or_stop(options, cluster)
    finally:
        detach(started_here)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="kernelrl executor", usage=USAGE, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("action", choices=("serve", "health", "stop"))
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--quota", type=int, help="requests of one run that may be with the nodes at a time")
    parser.add_argument("--port", type=int, help="of a page that says how it is doing; 0: any free one")
    parser.add_argument("--lease", type=float, default=60.0, help="a run silent for so many seconds is gone (60)")
    options = parser.parse_intermixed_args(arguments)
    if options.quota is not None and options.quota < 1:
        raise UserError(f"--quota {options.quota}: at least 1")
    return options


def _serve(options: argparse.Namespace, settings: ExecutorSettings, cluster: ClusterSettings) -> int:
    import ray

    from kernelrl.executor.engines import ray_service
    from kernelrl.executor.engines.cache_folder import read_secret

    token = ray_service.read_token(cluster)
    secret = read_secret(Path(settings.cache_dir).expanduser())
    service = ray_service.start_service(
        options.name, settings, secret, token, options.quota, options.lease, options.port
    )
    try:
        page = ray_service.ask(service, "wait_ready", token, timeout=cluster.wait_s + 60)
    except BaseException:
        ray.kill(service)
        raise
    health = ray_service.ask(service, "health", token, timeout=60)
    print(f"executor {options.name}: {sum(node.alive for node in health)} nodes are ready to judge")
    if page:
        print(f"its page: {page} and {page}health.json")
    print(f"attach with executor=ray executor.cluster.service={options.name}")
    return 0


def _look_or_stop(options: argparse.Namespace, cluster: ClusterSettings) -> int:
    import ray

    from kernelrl.executor.engines import ray_service

    service, token = ray_service.find_service(options.name), ray_service.read_token(cluster)
    if options.action == "stop":
        ray_service.ask(service, "stop", token, timeout=60)
        ray.kill(service)
        print(f"executor {options.name}: stopped")
        return 0
    health = ray_service.ask(service, "health", token, timeout=60)
    print(json.dumps([node.model_dump() for node in health], indent=2))
    return 0
