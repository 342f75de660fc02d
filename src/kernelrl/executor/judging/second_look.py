"""The second look at a kernel that is right: for memory that is not its own, and for threads that race."""

from __future__ import annotations

import re
import traceback
from dataclasses import replace

from kernelrl.executor.api import Layer
from kernelrl.executor.confinement.sandbox import MAX_THREADS
from kernelrl.executor.judging.candidate_process import CandidateProcess
from kernelrl.executor.judging.endings import Ended
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.judging.hidden_parameters import HiddenParameters
from kernelrl.executor.judging.loading import load
from kernelrl.executor.judging.match import Match
from kernelrl.executor.judging.outputs import Outputs
from kernelrl.executor.judging.sanitizing import SLOWER, MemoryMistake, look_for_memory_errors
from kernelrl.executor.judging.trials import run_trials
from kernelrl.executor.legality.reading import READING_S
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import CANDIDATE_MESSAGE_BYTES
from kernelrl.executor.quota import num_cores

MANY_THREADS, LEAST_THREADS = 4, 17
"""Threads per core of a run in which there are more of them than cores, and how many there are at least."""
_OPENMP = re.compile(r"#\s*pragma\s+omp|\bomp_")


def look_again(match: Match) -> None:
    """Look for mistakes of a right kernel. One that cannot be looked at stays right, without the check.

    Raises:
        MemoryMistake, Ended: there is one.
    """
    for look in (look_for_memory_errors, _run_with_other_threads):
        try:
            look(match)
        except (MemoryMistake, Ended):
            raise
        except Exception as error:  # of the machine's, the reference's or the candidate's making
            traceback.print_exception(error)  # on the service's own log


def _run_with_other_threads(match: Match) -> None:
    """Check a native kernel with few and many threads that give way to each other at any access to memory.

    Raises:
        Ended: its outputs are wrong then. What else may befall it there is no judgement.
    """
    candidate, settings, cores = match.candidate, match.settings, match.cores
    if candidate.dialect != "cpp" or not _OPENMP.search(candidate.source):
        return
    open_libraries: tuple[Layer, ...] = (*settings.allow_missing, "pages")  # nothing but a mistake is believed here
    slowly = settings.model_copy(
        update={"timing": False, "run_timeout_s": SLOWER * settings.run_timeout_s, "allow_missing": open_libraries}
    )
    for number in (1, 2, min(max(MANY_THREADS * num_cores(), LEAST_THREADS), MAX_THREADS // 2)):
        seen = Findings()
        process = match.start("nothing")
        process.max_message_bytes = CANDIDATE_MESSAGE_BYTES
        try:
            builder = match.builder.checking("threads")
            slow = replace(match, settings=slowly, builder=builder, found=seen, dialect="cpp", may_learn=False)
            own = CandidateProcess(slow, process)
            outputs = Outputs(own)
            with cores.preparing():
                process.settings = cores.ask(process, {"do": "threads", "number": number}, READING_S)["settings"]
                load(own)
                run_trials(own, outputs, HiddenParameters(own, outputs))
        except (Ended, ProcessFailure):
            if wrong := [error for error in seen.errors if error.kind != "exception"]:
                match.found.errors += wrong
                raise Ended(
                    "incorrect",
                    f"Wrong output with {number} threads that pause between accesses to memory, as on a busy "
                    f"machine: {wrong[0].message}. Threads may touch each other's memory (a race).",
                ) from None
            return
        finally:
            cores.close_later(process)
    match.found.checks.append("threads")
