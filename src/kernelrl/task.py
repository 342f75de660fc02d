"""`Task`: a PyTorch program to replace, in KernelBench's format.

The format is a Python file that defines `Model` (an `nn.Module`), `get_inputs()` (the arguments of `forward`) and
`get_init_inputs()` (the arguments of `Model.__init__`). A task whose kernel must work in other sizes too says so:
`SHAPE_RANGES = {"rows": (1, 300)}` names module-level constants that `get_inputs()` uses, with the smallest and the
largest value that they may take. This file checks the text only; the executor runs it.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from kernelrl.errors import TaskError
from kernelrl.syntax import parse

REQUIRED_NAMES = ("Model", "get_inputs", "get_init_inputs")
SHAPE_RANGES = "SHAPE_RANGES"


class Given(BaseModel):
    """A kernel for a task in another dialect, to be translated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: str
    source: str
    status: str
    """Of its verdict: `correct`, or `not_run` where it was compiled and there was no GPU to run it."""


class Task(BaseModel):
    """One program to replace. Frozen: the ledger holds it as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Unique within a data set."""
    source: str
    """Python source text in KernelBench's format."""
    category: str = "unknown"
    """Kind of work, e.g. `elementwise`, `softmax`, `matmul`."""
    level: int | None = None
    """KernelBench level (1 single operator, 2 fusion, 3 architecture), None where the origin has none."""
    origin: str = "user"
    """Where the task comes from, e.g. `synthetic`, `kernelbench`."""
    licence: str | None = None
    """SPDX identifier of the licence under which the origin publishes it, e.g. `MIT`; None: not known."""
    revision: str | None = None
    """Commit of the origin that the task was read from; None: not known, or it was made here."""
    ops: tuple[str, ...] = ()
    """Operators in order of application, where known; the unit by which train and held-out sets are split."""
    case_of: str | None = None
    """Tasks with the same one are cases of one program, with other arguments: their benchmark asks for one kernel that
    serves them all. None: the task stands alone."""
    given: Given | None = None
    """Where the task is to translate a kernel: that kernel. It decides what is asked, not what is right."""
    rtol: float | None = None
    """Relative tolerance; None: the executor's default for the output's dtype."""
    atol: float | None = None
    """Absolute tolerance; None: the executor's default for the output's dtype."""

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of all that decides a verdict: the source and the tolerances."""
        return hashlib.sha256(repr((self.source, self.rtol, self.atol)).encode()).hexdigest()

    @cached_property
    def shape_ranges(self) -> dict[str, tuple[int, int]]:
        """Module-level constants that may take other values, with the smallest and the largest; mostly empty.

        Raises:
            TaskError: `SHAPE_RANGES` is not such a literal.
        """
        tree = parse(self.source)
        for node in tree.body:
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [SHAPE_RANGES]:
                return self._read_ranges(node, _assigned(tree))
        return {}

    def _read_ranges(self, node: ast.Assign, constants: set[str]) -> dict[str, tuple[int, int]]:
        try:
            ranges = {str(name): (int(low), int(high)) for name, (low, high) in ast.literal_eval(node.value).items()}
        except (ValueError, TypeError, AttributeError):
            raise TaskError(
                f'task {self.id}: {SHAPE_RANGES} on line {node.lineno} is not a literal like {{"rows": (1, 300)}}'
            ) from None
        for name, (low, high) in ranges.items():
            if name not in constants:
                raise TaskError(f"task {self.id}: {SHAPE_RANGES} names {name!r}, which is no module-level constant")
            if not 0 <= low <= high:
                raise TaskError(f"task {self.id}: {SHAPE_RANGES}[{name!r}] is ({low}, {high}), an empty range")
        return ranges

    @classmethod
    def from_file(cls, path: str | Path, **fields: object) -> Task:
        """Read a KernelBench-format file.

        Raises:
            TaskError: the file is missing, is not text, does not parse, or lacks one of the required names.
        """
        path = Path(path)
        try:
            source = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise TaskError(f"task file {path}: no such file") from None
        except IsADirectoryError:
            raise TaskError(f"task file {path}: it is a folder; give one of its files") from None
        except UnicodeDecodeError:
            raise TaskError(f"task file {path}: not a text file; a task is Python source") from None
        except OSError as error:
            raise TaskError(f"task file {path}: {error.strerror}") from None
        task = cls.model_validate({"id": path.stem, "source": source, **fields})
        task.check_source(name=str(path))
        return task

    def check_source(self, name: str | None = None) -> None:
        """Check the format without running anything.

        Raises:
            TaskError: names the task, the line or the missing names.
        """
        name = name or f"task {self.id}"
        try:
            tree = parse(self.source)
        except SyntaxError as error:
            raise TaskError(f"{name}: syntax error on line {error.lineno}: {error.msg}") from None
        except ValueError as error:
            raise TaskError(f"{name}: {error}") from None
        except (RecursionError, MemoryError):
            raise TaskError(f"{name}: the source is nested too deeply to parse") from None
        defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        missing = [required for required in REQUIRED_NAMES if required not in defined]
        if missing:
            raise TaskError(
                f"{name}: does not define {', '.join(missing)}; "
                "a task needs class Model, get_inputs() and get_init_inputs()"
            )
        _ = self.shape_ranges


def _assigned(tree: ast.Module) -> set[str]:
    """Names of the module's constants."""
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
