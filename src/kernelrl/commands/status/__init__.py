"""`kernelrl status RUN`: which stages are done, how fast the others go, and what is wrong, on one page."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.live import Live

from kernelrl.commands.arguments import Parser
from kernelrl.commands.status import page, read
from kernelrl.console import make_console, set_up_logging
from kernelrl.records import write_atomically
from kernelrl.stage_folder import require_writable

USAGE = "kernelrl status RUN [--html FILE] [--watch]"
EPILOG = """\
RUN is the output_dir of a run. A stage is `running` while a process holds its lock or, on another machine, reports;
`stopped` when it has begun, has not finished, and nobody works on it: the same command resumes it.

examples:
  kernelrl status outputs/toy
  kernelrl status outputs/toy --watch
  kernelrl status outputs/toy --html outputs/toy/status.html --watch"""
EVERY_S = 5.0
"""Time between two readings with `--watch` (in seconds)."""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    run, html = Path(options.run), None if options.html is None else Path(options.html)
    console = make_console()
    if html is not None:
        require_writable(html.parent, "name another file for --html")
    status = read.read(run)
    _write(status, html, options.watch)
    if not options.watch:
        console.print(page.show(status))
        return 0
    with Live(page.show(status), console=console, auto_refresh=False) as live:
        while any(stage.state != "done" for stage in status.stages):
            time.sleep(EVERY_S)
            status = read.read(run)
            _write(status, html, watch=True)
            live.update(page.show(status), refresh=True)
    _write(status, html, watch=False)
    return 0


def _write(status: read.RunStatus, html: Path | None, watch: bool) -> None:
    if html is not None:
        write_atomically(html, page.render(status, EVERY_S if watch else None))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl status",
        usage=USAGE,
        description="How a run is doing: stages, rates, time left, the executor's nodes, last errors, logs and jobs.",
        epilog=EPILOG,
    )
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    parser.add_argument("--html", metavar="FILE", help="write the page as one HTML file too")
    parser.add_argument("--watch", action="store_true", help=f"again every {EVERY_S:g} s, until all stages are done")
    return parser.parse_args(arguments)
