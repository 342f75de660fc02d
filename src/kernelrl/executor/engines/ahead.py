"""Builds ahead: the native code of a candidate is compiled where it will not be judged.

The candidate is imported like one that is judged, and its builds are served, so that texts put together by Python are
built too. What a later import would ask for, or `ModelNew` with its arguments, is left to the machine that judges.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kernelrl.candidate import ENTRY_POINT, MAX_SOURCE_CHARS
from kernelrl.executor.api import MAX_BUILDS, ExecutorSettings, Request
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.building.units import BadUnit
from kernelrl.executor.contest.builds import ALL
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.legality.reading import READING_S
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import CANDIDATE_MESSAGE_BYTES, Needs, Process
from kernelrl.verdict import Verdict


def build_ahead(
    request: Request,
    settings: ExecutorSettings,
    start: Callable[[Needs], Process],
    builder: Builder,
    cores: Cores,
    gpu_arch: str | None,
) -> Verdict:
    """Make the builds of a candidate, into the build cache.

    Args:
        request: the candidate; its task is not looked at.
        settings: limits.
        start: starts a contestant process.
        builder: builds what the candidate asks for.
        cores: say when the process may run.
        gpu_arch: for which CUDA sources are built; None: they are not.

    Returns:
        A verdict `not_run`, whose `build` says what was built. Whatever is wrong with the candidate is found out
        where it is judged.

    Raises:
        InfrastructureError: the machine failed.
    """
    started = time.monotonic()
    found = Findings()
    if request.candidate is not None and len(request.candidate.source) <= MAX_SOURCE_CHARS:
        process = start("nothing")
        process.max_message_bytes = CANDIDATE_MESSAGE_BYTES
        try:
            with cores.preparing():
                question = {"do": "read", "source": request.candidate.source, "dialect": request.dialect}
                answer = cores.ask(process, question | {"static_rules": settings.static_rules}, READING_S)
                if answer.get("violations") != []:
                    raise BadUnit("illegal", "found out where it is judged")
                question = {"do": "load", "source": request.candidate.source, "unreached": answer["unreached"]}
                _serve_builds(process, question, settings, builder, cores, gpu_arch, found)
        except (ProcessFailure, BadUnit):
            pass
        finally:
            cores.close_later(process)
    return found.verdict(request, settings, "not_run", "Built ahead, not run.", time.monotonic() - started)


def _serve_builds(
    process: Process,
    question: dict[str, Any],
    settings: ExecutorSettings,
    builder: Builder,
    cores: Cores,
    gpu_arch: str | None,
    found: Findings,
) -> None:
    nonce = process.post(question | {"entry": ENTRY_POINT, "init": [], "init_tensors": [], "seed": 0})
    while "build" in (message := cores.next_message(process, nonce, settings.load_timeout_s)):
        if message["build"] == ALL:  # it wants to load them: there are no others
            return
        unit = message["build"] if isinstance(message["build"], dict) else {}
        if len(found.builds) >= MAX_BUILDS or (unit.get("cuda") and gpu_arch is None):
            return
        built = builder.build(unit, gpu_arch)
        found.builds.append(built)
        if built.path is None or built.violations:
            return
        process.reply({"ok": True, "log": ""})
