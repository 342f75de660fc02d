"""Loading a candidate: its import, the native modules that it asks for, and its model's construction."""

from __future__ import annotations

from typing import Any

from kernelrl.executor.api import DEFAULT_ARCH, MAX_BUILDS
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.building.units import BadUnit
from kernelrl.executor.contest.builds import ALL
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.endings import Ended, broke_off
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.verdict import Construction, GpuBuild, Violation


def load(own: CandidateProcess) -> None:
    """Import the candidate and construct its model, serving the builds that it asks for."""
    match, found, timeout = own.match, own.found, own.settings.load_timeout_s
    may_build = match.dialect != "triton"  # whose kernels are Triton's: beside C++ they would be for show
    must_build = own.settings.static_rules and match.dialect in ("cpp", "cuda")
    try:
        own.attach(timeout)
        loading, building_s = own.cores.stopwatch(), 0.0
        nonce = own.process.post(match.load_question | own.reference.init)
        while "build" in (message := own.cores.next_message(own.process, nonce, timeout)):
            if message["build"] == ALL and own.offers is not None:
                own.process.reply({"paths": own.process.offer_modules(own.offers)})
                own.offers = None
                continue
            if own.offers is None:  # native code may have made the text of it
                raise own.violation("build_request", "a native module after others were loaded")
            if not may_build:
                raise own.violation("build_request", "a native module beside Triton's kernels")
            if len(found.builds) >= MAX_BUILDS:
                raise own.violation("build_request", f"more than {MAX_BUILDS} native modules")
            building = own.cores.stopwatch()
            _serve_build(own, message["build"])
            building_s += building()
    except ProcessFailure as error:
        raise broke_off(error, "while it was loaded", timeout, found, own.process) from None
    seconds = max(loading() - building_s, 0.0)
    found.construction = Construction(candidate_ms=seconds * 1e3, reference_ms=own.reference.construction_s * 1e3)
    failed_builds = [built for built in found.builds if not built.ok]
    if "failed" in message:
        if failed_builds:
            raise Ended("compile_error", f"The C++ source does not compile:\n{failed_builds[0].log}")
        if message["failed"] in ("SyntaxError", "IndentationError"):
            raise Ended("compile_error", f"The Python source does not compile: {message.get('message', '')}")
        raise Ended("runtime_error", f"Loading failed: {message.get('message', '')}")
    if must_build and not found.builds:
        raise own.violation("no_kernel", "nothing was compiled: call load_inline at module level or in __init__")
    own.report = message.get("parameters")
    if own.reference.has_parameters and not own.reference.parameters_vary:
        found.parameters = "same_seed"
    own.note_state()
    found.stage = "compiled"


def _serve_build(own: CandidateProcess, unit: Any) -> None:
    unit = unit if isinstance(unit, dict) else {}
    builder = own.match.builder
    try:
        if unit.get("cuda") and own.settings.device == "cpu":
            _compile_only(own, unit, builder)
        with own.cores.off_device():
            built = builder.build(unit)
    except BadUnit as refusal:
        own.found.violations.append(Violation(rule=refusal.rule, evidence=refusal.evidence))
        raise Ended("illegal", f"The build was refused: {refusal.evidence}.") from None
    own.found.builds.append(built)
    own.found.final &= built.final
    in_vain_s = sum(each.seconds for each in own.found.builds if not each.ok and not each.cached)
    if built.out_of_time or in_vain_s > own.settings.build_timeout_s:
        # a candidate that asks for one after the other would keep the compilers for ever
        if not built.out_of_time:  # the sum is of time on the clock, which a busy machine makes longer
            own.found.final = False
        raise Ended("compile_error", f"The C++ source does not compile: {built.log}")
    if own.settings.static_rules and built.violations:
        own.found.violations += [Violation(rule=rule, evidence=evidence) for rule, evidence in built.violations[:20]]
        raise Ended("illegal", "The native code does what no kernel needs.")
    if built.path is None:
        own.process.reply({"ok": False, "log": built.log})
    else:
        assert own.offers is not None
        own.offers.append((built.path, unit["name"]))
        own.process.reply({"ok": True, "log": ""})


def _compile_only(own: CandidateProcess, unit: dict[str, Any], builder: Builder) -> None:
    """CUDA without a GPU: that it compiles is all that can be found out."""
    arch = own.settings.gpu_arch or DEFAULT_ARCH
    ok, log, kernels = builder.compile_cuda(unit, arch)
    if not ok:
        raise Ended("compile_error", f"The CUDA source does not compile for {arch}:\n{log}")
    own.found.gpu_builds = [GpuBuild(**kernel) for kernel in kernels]
    own.found.stage = "compiled"
    raise Ended("not_run", f"Compiled for {arch} and not run: there is no GPU here.")
