"""What the rules infer of a candidate's text holds when it runs, or the text fails."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kernelrl.executor.contest.guards import Native
from kernelrl.executor.contest.operator_record import OperatorRecord
from kernelrl.executor.contest.text_module import import_text
from kernelrl.executor.processes.note import Note


class Compiled(Native):
    _secret = 1

    def scale(self) -> str:
        return "scaled"


TEXT = '''
import math
import torch
from torch import nn

if __name__ == "__main__":
    import numpy as thing


class Config:
    """Of a kernel."""

    block = 16

    def __init__(self):
        self.numpy = 3

    def read(self):
        """What it is."""
        return self.numpy

    @staticmethod
    def twice(number):
        return 2 * number


class Larger(Config):
    def read(self):
        return self.numpy + self.block


class Layer(nn.Module):
    @torch.no_grad()
    def forward(self, thing):
        return thing.shape


config = Larger()


def numpy_of(thing):
    return thing.numpy


def numpy_by_name(thing):
    return getattr(thing, "numpy", None)


def frame_of(thing):
    return thing.gi_frame


def scale_of(thing):
    return thing.scale()


def secret_of(thing):
    return thing._secret


def say(text, *given):
    words = text.format
    return words(*given)


def generate():
    yield 1
'''


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return import_text(TEXT, Path(tmp_path_factory.mktemp("text")), ())


def test_what_the_file_gives_its_objects_is_there(text: ModuleType) -> None:
    assert text.config.read() == 19 and text.Config.twice(4) == 8 and text.numpy_of(text.config) == 3
    assert text.Layer()(torch.zeros(2, 3)) == (2, 3)
    assert text.scale_of(Compiled()) == "scaled"
    assert text.say("{} of {:>4}", 1, "two") == "1 of  two"


def test_a_method_is_called_on_objects_of_its_class_alone(text: ModuleType) -> None:
    assert text.Config.read(text.config) == 3
    for other in (torch.zeros(2), text.Layer(), 3):
        with pytest.raises(TypeError, match="has no such method"):
            text.Larger.read(other)


def test_an_attribute_is_taken_of_what_may_give_it(text: ModuleType) -> None:
    """A name that the block for `__main__` imports is no import of what runs."""
    tensor = torch.zeros(2)
    for read in (text.numpy_of, text.numpy_by_name):
        with pytest.raises(TypeError, match="numpy of a Tensor"):
            read(tensor)
    with pytest.raises(TypeError, match="gi_frame of a generator"):
        text.frame_of(text.generate())
    with pytest.raises(TypeError, match="_secret of a Compiled"):
        text.secret_of(Compiled())


def test_fields_of_a_format_are_plain(text: ModuleType) -> None:
    for template in ("{0.shape}", "{0[0]}", "{:{0.shape}}"):
        with pytest.raises(ValueError, match="of a format"):
            text.say(template, torch.zeros(2))


def test_a_trusted_text_runs_as_it_stands(tmp_path: Path) -> None:
    trusted = import_text(TEXT, tmp_path)
    assert trusted.numpy_of(torch.zeros(2))() is not None


def test_what_the_rules_have_not_looked_at_finds_nothing_to_begin_with(tmp_path: Path) -> None:
    refused = (
        "exec('')", "__import__('ctypes')", "__import__('subprocess')", "open('/etc/passwd')", "from . import math",
        "from torch import *", "object", "type('Own', (), {})", "type(3)",
        "type(3)()"
    )  # fmt: skip
    for text in refused:
        with pytest.raises((NameError, ImportError, TypeError)):
            import_text(text, tmp_path, ())
    left_over = import_text(
        "import os, subprocess, torch._C as core\nimport numpy.linalg as np\nfrom os import path, system\n"
        "from torch import jit, Tensor\nimport torch.fx\nos.environ['CXX'] = 'g++'",
        tmp_path,
        (),
    )
    for name in ("os", "subprocess", "core", "np", "path", "system", "jit"):
        assert type(vars(left_over)[name]) is ModuleType and vars(left_over)[name].environ in ({}, {"CXX": "g++"})
        assert [each for each in dir(vars(left_over)[name]) if not each.startswith("__")] == ["environ"]
    assert left_over.torch is torch and left_over.Tensor is torch.Tensor
    used = import_text(
        "import torch.nn.functional as F\nfrom torch.utils.cpp_extension import load_inline", tmp_path, ()
    )
    assert used.F is torch.nn.functional


def test_a_name_of_a_library_is_one_of_the_languages(tmp_path: Path) -> None:
    """Also where the rules do not look: they have not read this text."""
    for text in ("import torch\ntorch.os.getpid()", "from torch.utils import cpp_extension\ncpp_extension.sys.modules"):
        with pytest.raises(TypeError, match="the language has no such name"):
            import_text(text, tmp_path, ())
    assert import_text("import torch\nwidth = torch.float32.itemsize", tmp_path, ()).width == 4


CALLS = """
import torch
from dataclasses import dataclass, field
from torch import nn


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.append = self.act = None

    def forward(self, x=3):
        return x

    def kept(self, x):
        return self.append(x), self.act(x)

    @torch.no_grad()
    def decorated(self, x):
        return x


def call(function, *given):
    return function(*given)


def mapped(function, given):
    return list(map(function, given))


def ordered(function, given):
    return sorted(given, key=function), max(given, key=function)


def made(function):
    @dataclass
    class Record:
        part: list = field(default_factory=function)

    return Record().part


def begun(function):
    return iter(function, None)


def compile_of(thing):
    return thing.compile(), str("compile")


def told(thing):
    return thing.format_map({})


class Text:
    @staticmethod
    def of(*, self):
        return self.format


def format_of(text):
    return Text.of(self=text)
"""


def test_what_is_called_is_a_function_of_the_file_or_of_the_language(tmp_path: Path) -> None:
    text = import_text(CALLS, tmp_path, ())
    own = text.Own()
    assert text.call(text.call, text.call, len, "ab") == 2
    assert text.call(own, 3) == text.call(own.forward, 3) == text.call(own.decorated, 3) == 3
    assert text.call(Compiled().scale) == "scaled" and isinstance(text.call(text.Own), text.Own)
    assert text.call([].append, 3) is None and text.call(torch.zeros(2).view, 1, 2).shape == (1, 2)
    assert text.mapped(own, [1]) == [1] and text.ordered(own, [2, 1]) == ([1, 2], 2) and text.made(own) == 3
    for function in (exec, open, "".format, "".format_map, torch.zeros(2).numpy, torch.load, vars, of_another_file):
        for use in (
            lambda f: text.call(f, 3), lambda f: text.mapped(f, [3]), lambda f: text.ordered(f, [3]), text.made,
        ):  # fmt: skip
            with pytest.raises(TypeError, match="is called: it is not known"):
                use(function)
        own.append, own.act = function, text.call
        with pytest.raises(TypeError, match="is called: it is not known"):
            own.kept(3)
    with pytest.raises(TypeError):
        text.begun(own)


def of_another_file() -> None:
    """A function that stands in no candidate's file."""


def test_objects_of_the_file_have_what_the_file_gives_them(tmp_path: Path) -> None:
    text = import_text(CALLS, tmp_path, ())
    for thing in (text.Own(), text.Own):
        with pytest.raises(TypeError, match="compile of a"):
            text.compile_of(thing)
    with pytest.raises(TypeError, match="format_map of a str"):
        text.told("")
    assert text.format_of("{}")(3) == "3"
    with pytest.raises(ValueError, match="of a format"):
        text.format_of("{0.shape}")(torch.zeros(2))


LISTS = """
import torch
from torch import tensor

make = torch.FloatTensor

def made(values):
    return tensor(values)

def named(values):
    return torch.as_tensor(data=values)

def bound(values):
    return make(values)

def of_another(values):
    return torch.zeros(1).new_tensor(*[values])

def kept(values):
    new = torch.zeros(1).new_tensor
    return new(values)

def mapped(values):
    return list(map(torch.tensor, [values]))[0]
"""


def test_elements_of_tensors_in_a_list_count_as_those_that_are_asked_for(tmp_path: Path) -> None:
    text = import_text(LISTS, tmp_path, ())
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for make in (text.made, text.named, text.bound, text.of_another, text.kept, text.mapped):
        with contextlib.closing(Note()) as note:
            record = OperatorRecord(note)
            with record:
                assert make([[v for v in row] for row in x]).equal(x)
            assert record.counts["aten::_local_scalar_dense"] == 4
            with record:
                make([[1.0, 2.0], (3.0, 4.0)])
            assert record.counts["aten::_local_scalar_dense"] == 4
