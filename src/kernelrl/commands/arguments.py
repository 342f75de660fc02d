"""The argument parser of the commands that are no Hydra stages."""

from __future__ import annotations

import argparse
from typing import NoReturn

from kernelrl.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and name its own `--help`."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str):
        raw = argparse.RawDescriptionHelpFormatter
        super().__init__(prog=prog, usage=usage, description=description, epilog=epilog, formatter_class=raw)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")
