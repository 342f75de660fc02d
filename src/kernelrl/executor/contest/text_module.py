"""The module of an untrusted text: imported from memory, and named in what its errors say."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

MODULE_NAME = "kernel_module"
MAX_TEXT = 4000


def import_text(source: str, folder: Path) -> ModuleType:
    """Import a text as if it were a file in a folder."""
    spec = importlib.util.spec_from_loader(MODULE_NAME, _Text(folder / f"{MODULE_NAME}.py", source))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    return module


class _Text(importlib.abc.ExecutionLoader):
    """Loads a module from text: a candidate has no file that it could write to.

    What runs, and what Triton reads again, is the text itself. Its bytes would be read by the encoding that they name
    themselves, which may make code of what the static rules have read as a comment.

    Args:
        path: of the file that error messages name; it is not there.
        source: the text.
    """

    def __init__(self, path: Path, source: str):
        self._path = str(path)
        self._source = source

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_source(self, fullname: str) -> str:
        return self._source


def explain(error: BaseException) -> str:
    """The error with the frames of the candidate's own file, shortened in the middle."""
    text = ""
    with contextlib.suppress(Exception):  # the error may be an object of the candidate's making
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(f"{MODULE_NAME}.py")]
        text = "".join(f"line {frame.lineno}, in {frame.name}: {frame.line}\n" for frame in frames[-5:])
        text += f"{type(error).__name__}: {error}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n…\n{text[-MAX_TEXT // 2 :]}"
