"""Inductor's C++ kernels as functions of a `load_inline` module, without ATen's headers."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from functools import cache
from pathlib import Path

from kernelrl.data.teachers.inductor.capture import NotConvertible
from kernelrl.data.teachers.inductor.wrapper import Launch, short_names

FLAGS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
"""As Inductor's own: no flag that lets equal expressions round differently, as a softmax over large values needs."""
HEADERS = "algorithm cmath cstdint cstring limits memory type_traits".split()
_SIGNATURE = re.compile(r'extern "C"\s+void\s+kernel\((.*?)\)\s*\{\n(.*)\n\}\s*$', re.DOTALL)
_LOOP = re.compile(r"for\(int64_t (\w+)=(.+?); \1<(.+?); \1\+=(.+?)\)$", re.MULTILINE)
_HELPER = re.compile(r"\bWelfordHelper<(\w+), \d+> (\w+)(?:\(.*\))?;")
_CASCADE = re.compile(r"\b(\w+) = cascade_sum_combine\((\w+), &\w+\);")
_ACCUMULATES = re.compile(r"\b(\w*acc\w*) = (?:\1 (\+) \w+|(max|min)_propagate_nan\(\1, \w+\));")
_CAST = "static_cast<int64_t>("
_FOREIGN = re.compile(r"\b(?:at|c10|torch)::\w+|\b(?:TORCH_CHECK|calc_\w+|\w+_cpu)\b")
HALVES = {"at::Half": "half", "at::BFloat16": "bfloat16"}


def launcher(kernels: dict[str, str]) -> Launch:
    """How a kernel is launched: as a function of the compiled module."""
    names = short_names(kernels, "cpp_")

    def launch(name: str, arguments: list[ast.expr]) -> str:
        return f"module.{names[name]}({', '.join(map(ast.unparse, arguments))})"

    return launch


def module_text(kernels: dict[str, str], library: dict[str, str]) -> str:
    """The part of the candidate above `ModelNew`: C++ text and its build.

    Args:
        kernels: Inductor's, by its names.
        library: text of the functions that stand in for library kernels, by name.

    Raises:
        NotConvertible: a kernel needs what only PyTorch's headers have.
    """
    names = short_names(kernels, "cpp_")
    functions = "\n".join([_function(names[name], text) for name, text in kernels.items()] + [*library.values()])
    needed = _helpers(functions)
    includes = "".join(f"#include <{header}>\n" for header in HEADERS)
    return f'''\
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
{includes}#include <omp.h>
{needed}{functions}"""
FUNCTIONS = {json.dumps([*names.values(), *library])}
FLAGS = {json.dumps(FLAGS)}
module = load_inline("kernels", cpp_sources=SOURCE, functions=FUNCTIONS, extra_cflags=FLAGS)
'''


def _function(name: str, text: str) -> str:
    for foreign, own in HALVES.items():
        text = text.replace(foreign, own)
    match = _SIGNATURE.search(text)
    if match is None:
        raise NotConvertible("kernel: no signature")
    parameters, pointers = [], []
    for parameter in (" ".join(part.split()) for part in match[1].split(",")):
        kind, _, variable = parameter.rpartition(" ")
        if kind.endswith("*"):
            parameters.append(f"TensorView {variable}_")
            pointers.append(f"  {kind} {variable} = static_cast<{kind}>({variable}_.data_ptr());\n")
        else:
            parameters.append(f"{kind.removeprefix('const ')} {variable}")
    body = _simplify(match[2])
    if needed := _FOREIGN.search(match[1] + body):
        raise NotConvertible(f"kernel: needs {needed[0]}")
    listed = textwrap.fill(", ".join(parameters), 116, initial_indent="    ", subsequent_indent="    ")
    return f"\nvoid {name}(\n{listed}) {{\n{''.join(pointers)}{body}}}\n"


def _simplify(body: str) -> str:
    lines = [line for line in body.splitlines() if line.strip() and "integer_div_error" not in line]
    text = "\n".join(line for line in lines if "TORCH_CHECK" not in line)
    text = text.replace("c10::div_floor_integer", "floor_div").replace("c10::convert<", "static_cast<")
    text = _in_double(_HELPER.sub(r"WelfordHelper<\1> \2;", text))
    text = re.sub(r"\b(\d{1,9})L\b", r"\1", _without_casts(text))
    text = _LOOP.sub(lambda it: f"for (int64_t {it[1]} = {it[2]}; {it[1]} < {it[3]}; {_step(it[1], it[4])})", text)
    return _indent(_vectorise(_without_bare_blocks(text.splitlines())))


def _step(variable: str, step: str) -> str:
    return f"++{variable}" if step == "1" else f"{variable} += {step}"


def _without_casts(text: str) -> str:
    """Indices and bounds are 64-bit already: their casts go, inside brackets and in loops."""
    start = 0
    while (start := text.find(_CAST, start)) >= 0:
        depth, end = 1, start + len(_CAST)
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        inner = text[start + len(_CAST) : end - 1]
        bare = text[start - 1] in "[=<" and text[end] in "];)"
        is_index = bare and (text[start - 1] != "=" or text[start - 2] != " ")
        if is_index:
            text = text[:start] + inner + text[end:]
        else:
            start = end if _CAST not in inner else start + len(_CAST)
    return text


def _without_bare_blocks(lines: list[str]) -> list[str]:
    """Blocks that hold one block and nothing else, without the outer braces."""
    lines = [line.strip() for line in lines]
    while True:
        closing = _match_braces(lines)
        double = [
            (start, end)
            for start, end in closing.items()
            if lines[start] == "{"
            and lines[end] == "}"
            and closing.get(start + 1) == end - 1
            and lines[start + 1] == "{"
        ]
        if not double:
            return lines
        start, end = double[0]
        lines = [line for index, line in enumerate(lines) if index not in (start, end)]


def _in_double(text: str) -> str:
    """Sums and variances in double precision, where Inductor cascades the long ones and leaves the others inexact."""
    text = re.sub(r"\b(Welford|WelfordHelper)<float>", r"\1<double>", text)
    kinds: dict[str, str] = {}

    def declare(match: re.Match[str]) -> str:
        name, rest = match.groups()
        if rest == "_arr[":  # one for each thread, of the kind of what they are brought together in
            return f"{kinds.get(name, 'float')} {name}{rest}"
        kinds[name] = "double" if rest == " = 0;" else "float"
        return f"{kinds[name]} {name}{rest}"

    text = re.sub(r"\bfloat (tmp_acc\w+?)(_arr\[| = 0;| = )", declare, text)
    text = re.sub(r".*(?:CascadeSumHelper|cascade_sum_final).*\n", "", text)
    return _CASCADE.sub(r"\1 = \1 + \2;", text)


def _vectorise(lines: list[str]) -> list[str]:
    """A pragma above each innermost loop that does nothing but sum up or find the largest."""
    closing = {start: lines[start + 1 : end] for start, end in _match_braces(lines).items()}
    result: list[str] = []
    for index, line in enumerate(lines):
        body = closing.get(index + 1 if lines[index + 1 : index + 2] == ["{"] else index, [])
        innermost = body and not any(part.startswith(("for ", "#pragma")) for part in body)
        if line.startswith("for ") and innermost and lines[index - 1] != "#pragma omp for":
            found = [_ACCUMULATES.search(part) for part in body if re.search(r"\bacc|_acc", part)]
            if found and all(found):
                named = [(match[1], match[2] or f"{match[3]}_nan") for match in found if match]
                clauses = " ".join(f"reduction({operator} : {name})" for name, operator in named)
                result.append(f"#pragma omp simd {clauses}")
        result.append(line)
    return result


def _match_braces(lines: list[str]) -> dict[int, int]:
    closing: dict[int, int] = {}
    opened: list[int] = []
    for index, line in enumerate(lines):
        if line.startswith("}") and opened:
            closing[opened.pop()] = index
        if line.endswith("{"):
            opened.append(index)
    return closing


def _indent(lines: list[str]) -> str:
    depth = 1
    indented: list[str] = []
    for line in lines:
        depth -= line.startswith("}")
        if line == "{" and indented and re.match(r"\s*for \(.*\)$", indented[-1]):
            indented[-1] += " {"
        else:
            indented.append("  " * depth + line)
        depth += line.endswith("{")
    return "".join(f"{line}\n" for line in indented)


def _helpers(text: str) -> str:
    """The parts of `kernels.h` that the text uses, directly or through another."""
    used: dict[str, str] = {}
    called = [name for name in VECTORISED if re.search(rf"\bstd::{name}\(", text)]
    if called:
        declared = "".join(f"#pragma omp declare simd notinbranch\nfloat {name}f(float) noexcept;\n" for name in called)
        used["vectorised"] = f'extern "C" {{\n{declared}}}\n'
    for names, helper in reversed(_parts()):
        if re.search(rf"\b(?:{names})\b", text + "".join(used.values())):
            used[names] = helper
    return "".join(f"\n{helper}" for helper in reversed(used.values()))


@cache
def _parts() -> list[tuple[str, str]]:
    """By the names that show the need (a pattern): the text."""
    _, *parts = re.split(r"^//: (.+)\n", Path(__file__).with_name("kernels.h").read_text(), flags=re.MULTILINE)
    return [(names, text.rstrip() + "\n") for names, text in zip(parts[::2], parts[1::2], strict=True)]


VECTORISED = "exp expm1 log log1p sin cos tanh erf".split()
"""Functions of one number that glibc 2.35 has for vectors."""
