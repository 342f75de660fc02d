"""robust-kbench (arXiv 2509.14279): task folders in functional form, each with several configurations.

A folder holds `func_forward.py` (`forward_fn`, a `Model` whose `forward` calls it, and `get_inputs(…)`) and
`config_forward.json`, whose lists `single_*_configs` and `multi_*_configs` give arguments of `Model` (`init`), of
`get_inputs` (`input`), and of both (`shared`); and the same for `backward`. Every combination becomes one task. A
backward task returns the gradients of the inputs and of the parameters for a given gradient of the output.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.licences import find_licence
from kernelrl.data.rewriting import find_class, find_function, rename, replace_statement, to_positional
from kernelrl.data.sources import Gathering, TaskSplit, find_folder
from kernelrl.task import Task

_BACKWARD = """

class Model(Forward):
    def forward(self, *tensors):
        *inputs, grad_output = tensors
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
            output = super().forward(*inputs)
        wanted = [tensor for tensor in (*inputs, *self.parameters()) if tensor.requires_grad]
        gradients = torch.autograd.grad(output, wanted, grad_output, allow_unused=True)
        return tuple(gradient for gradient in gradients if gradient is not None)


def get_inputs():
    inputs = forward_inputs()
    with torch.no_grad():
        return [*inputs, torch.randn_like(Forward(*get_init_inputs())(*inputs))]
"""


def load(cfg: DictConfig) -> TaskSplit:
    """One task per folder, direction and configuration.

    Args:
        cfg: `path` (the folder of task folders, a checkout that has it in `tasks/`, or one task folder), `directions`
            (of `forward` and `backward`), `configs` (`single`: the shape that robust-kbench shows; `multi`: all),
            `licence` (null: read from the licence file), and the settings of a `Gathering`.

    Raises:
        UserError: nothing there.
    """
    root = find_folder(cfg.path, "a folder of task folders with func_forward.py and config_forward.json")
    found = Gathering(cfg)
    for direction in cfg.directions:
        for file in sorted(root.rglob(f"func_{direction}.py")):
            name = f"{file.parent.name}/{direction}"
            try:
                code = file.read_text(encoding="utf-8-sig")
                settings = _configurations(file.with_name(f"config_{direction}.json"), cfg.configs)
                sources = [_convert(code, direction, init, inputs) for init, inputs in settings]
            except (OSError, ValueError, SyntaxError, KeyError, TypeError, AttributeError) as error:
                found.skip("wrong_format", f"{file.parent}: {direction}: {type(error).__name__}: {error}")
                continue
            licence = cfg.licence or find_licence(file.parent, root)
            for number, source in enumerate(sources):
                if source is None:
                    found.skip("constructor_arguments", f"{name}/{number}")
                else:
                    id = f"robust_kbench/{name}/{number}"
                    case_of = f"robust_kbench/{name}"
                    task = Task(id=id, source=source, origin="robust_kbench", licence=licence, case_of=case_of)
                    found.add(task, program=file.parent.name)
    return found.split()


def _configurations(path: Path, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Arguments of `Model` and of `get_inputs`, combination by combination; shared ones override."""
    lists = json.loads(path.read_text())
    names = [f"{kind}_{part}_configs" for part in ("init", "input", "shared")]
    for init, inputs, shared in product(*(lists.get(name) or [{}] for name in names)):
        yield {**init, **shared}, {**inputs, **shared}


def _convert(code: str, direction: str, init: dict[str, Any], inputs: dict[str, Any]) -> str | None:
    """A configuration as a program in KernelBench's format; None: its constructor's arguments do not fit."""
    tree = ast.parse(code)
    model, get_inputs = find_class(tree, "Model"), find_function(tree.body, "get_inputs")
    if model is None or get_inputs is None:
        raise ValueError("defines no Model or no get_inputs()")
    constructor = find_function(model.body, "__init__")
    known = {arg.arg for arg in constructor.args.args} if constructor else set()
    arguments = to_positional(constructor, [], {key: _literal(value) for key, value in init.items() if key in known})
    if arguments is None:
        return None
    _set_defaults(get_inputs, inputs)
    code = replace_statement(code, get_inputs, ast.unparse(get_inputs))
    returned = ", ".join(map(ast.unparse, arguments))
    code = f"{code.rstrip()}\n\n\ndef get_init_inputs():\n    return [{returned}]\n"
    if direction == "backward":
        if hook := find_class(ast.parse(code), "AutogradFunction"):  # where the original hangs its kernel
            code = replace_statement(code, hook, "")
        code = rename(code, {"Model": "Forward", "get_inputs": "forward_inputs"}) + _BACKWARD
    return code


def _set_defaults(function: ast.FunctionDef, values: dict[str, Any]) -> None:
    """Make a call without arguments mean the configuration."""
    names = [arg.arg for arg in function.args.args]
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    given = {name: _literal(value) for name, value in values.items()}
    if missing := [name for name in names if name not in defaults and name not in given]:
        raise ValueError(f"no configuration gives get_inputs() its {missing[0]}")
    function.args.defaults = [given.get(name) or defaults[name] for name in names]


def _literal(value: Any) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body
