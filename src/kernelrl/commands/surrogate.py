"""`kernelrl surrogate RUN [RUN …]`: fit a surrogate on what runs have had judged, and say how far it can be trusted."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelrl.commands.arguments import Parser
from kernelrl.console import make_console, set_up_logging
from kernelrl.data.judged import read_examples
from kernelrl.records import write_json

USAGE = "kernelrl surrogate RUN [RUN …] [--out FOLDER] [--seed N]"
EPILOG = """\
It predicts from a candidate's text whether it compiles, is right, and how fast it is, before hardware is asked. The
folder gets surrogate.pickle (load only what you made: a pickle can run code), surrogate.json and surrogate.html, with a
reliability diagram and what it would cost as a filter. A search uses it:

  kernelrl search strategy=best_of_n search.filter=surrogate search.surrogate.folder=outputs/toy/surrogate

examples:
  kernelrl surrogate outputs/toy
  kernelrl surrogate outputs/a outputs/b --out outputs/surrogate"""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    from kernelrl.eval.surrogate import model, page, quality  # scikit-learn: seconds

    known = read_examples(options.runs)
    surrogate = model.fit(known, options.seed)
    found = {
        "runs": [str(run) for run in options.runs],
        "programs": len({example.text.program for example in known}),
        "dialects": sorted(surrogate.dialects),
        **quality.describe(surrogate.unseen),
    }
    folder: Path = options.out or options.runs[0] / "surrogate"
    surrogate.save(folder)
    write_json(folder / "surrogate.json", found)
    console = make_console()
    console.print(page.make_table(found))
    console.print(page.make_filter_table(found))
    print(page.write(folder, found))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl surrogate",
        usage=USAGE,
        description="Fit a surrogate of the executor on the ledgers of runs.",
        epilog=EPILOG,
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run, a stage or a ledger")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where it goes (default RUN/surrogate)")
    parser.add_argument("--seed", type=int, default=0, help="of the forests and of the split (default 0)")
    return parser.parse_args(arguments)
