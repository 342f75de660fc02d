"""Judges requests with the reference's own error taken as zero, as if this processor computed it exactly.

Settings and requests come as JSON on standard input; a line `status: feedback` for each goes to standard output.
"""

from __future__ import annotations

import json
import os
import sys

from kernelrl.executor import ExecutorSettings, Request
from kernelrl.executor.engines.service import Service
from kernelrl.executor.judging import compare
from kernelrl.executor.processes.warming import forkserver_environment, start_forkserver


def main() -> None:
    told = json.load(sys.stdin)
    settings = ExecutorSettings.model_validate(told["settings"] | {"verdict_cache": False})
    around = compare.Expected.around

    def exactly(exact, native, *rest, **more):  # type: ignore[no-untyped-def]
        return around(exact, exact.to(native.dtype), *rest, **more)

    compare.Expected.around = exactly  # type: ignore[method-assign]
    service = Service(settings, start_forkserver(forkserver_environment(settings)))
    for request in told["requests"]:
        verdict = service.verdict(Request.model_validate(request), arrived=0.0)
        print(f"{verdict.status}: {verdict.feedback}", flush=True)
    os._exit(0)  # with every process that the service has started


if __name__ == "__main__":
    main()
