"""TritonBench (arXiv 2502.14752; github.com/thunlp/TritonBench): files of code, a line of 146 `#`, and its test.

The test is one function whose cases read `results["test_case_1"] = operator(x, …)` after lines that make `x`. In
channel T the code is a PyTorch function: each case becomes a task whose `get_inputs()` are the lines that it needs,
without their device. A case whose tensors are all written out gets draws of the same shape and dtype instead
(`data/fresh.py`), since a kernel is tried on fresh inputs. The tasks of a file differ in `get_inputs()` and
`get_init_inputs()` alone, so that one kernel can serve them all: what is a tensor in any case is an input of `forward`,
every other argument one of the constructor. Where the cases do not fit one signature, each stands alone. Not covered:
channel G, whose code is itself a Triton kernel, with a text as the question.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from omegaconf import DictConfig

from kernelrl.data.fresh import DrawFresh
from kernelrl.data.licences import find_licence
from kernelrl.data.sources import Gathering, TaskSplit, find_folder
from kernelrl.task import Task

SEPARATOR = "#" * 146
_DRAWS = {"rand", "randn", "randint", "rand_like", "randn_like", "randperm", "uniform_", "normal_", "random_"}


class NoTask(Exception):
    """Why a file or a case cannot become a task: a reason to be counted."""


def load(cfg: DictConfig) -> TaskSplit:
    """One task per case of every test; those of one file stay in the same split.

    Args:
        cfg: `path` (a checkout, its folder `data`, or the folder of the files), `channel` (`T` or `G`), `licence`
            (null: read from the licence file), and the settings of a `Gathering`.

    Raises:
        UserError: nothing there.
    """
    root = find_folder(cfg.path, f"a checkout of TritonBench, or its folder TritonBench_{cfg.channel}_v1/")
    name = f"TritonBench_{cfg.channel}_v1"
    folder = next((path for path in (root / "data" / name, root / name) if path.is_dir()), root)
    found = Gathering(cfg)
    licence = cfg.licence or find_licence(root, root)
    origin = f"tritonbench-{cfg.channel.lower()}"
    for file in sorted(folder.glob("*.py")):
        try:
            cases, unread = _read(file.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError):
            found.skip("not_text", str(file))
            continue
        except NoTask as reason:
            found.skip(str(reason), str(file))
            continue
        for name in unread:
            found.skip("case_is_no_call", f"{file}: {name}")
        prepared = []
        for case in cases:
            try:
                prepared.append(case.prepare())
            except NoTask as reason:
                found.skip(str(reason), f"{file}: {case.name}")
        signature = _Signature.of(prepared)
        for call in prepared:
            task = Task(
                id=f"{origin}/{file.stem}/{call.case.name}",
                source=call.to_source(signature),
                origin=origin,
                licence=licence,
                case_of=None if signature is None or len(prepared) == 1 else f"{origin}/{file.stem}",
            )
            found.add(task, program=file.stem)
    return found.split()


@dataclass(frozen=True)
class _Case:
    """A call of the operator in a test, and the lines before it."""

    name: str
    code: str
    operator: ast.FunctionDef
    imports: list[ast.stmt]
    before: list[ast.stmt]
    call: ast.Call

    def prepare(self) -> _Prepared:
        """The lines that make its inputs, and the call with what is written out in place.

        Raises:
            NoTask: nothing in its inputs can be drawn, or it has none.
        """
        lines = _needed(self.before, _names(self.call))
        constants = _constants(lines)
        call = _Inliner(constants).visit(self.call)
        made = {name for line in lines for name in _stored(line)} - set(constants)
        inputs = [name for name in dict.fromkeys(_names(call)) if name in made]
        if not inputs:
            raise NoTask("no_inputs")
        makers = [line for line in _needed(lines, inputs) if not isinstance(line, ast.Import | ast.ImportFrom)]
        if not _any_draw(makers):
            makers = [DrawFresh().visit(deepcopy(line)) for line in makers]  # other cases have the same lines
        if not _any_draw(makers):
            raise NoTask("fixed_inputs")
        return _Prepared(self, call, inputs, makers)


@dataclass(frozen=True)
class _Prepared:
    """A case whose call says all but its inputs."""

    case: _Case
    call: ast.Call
    inputs: list[str]
    """Variables that the call reads."""
    makers: list[ast.stmt]
    """Lines that make them."""

    def bind(self) -> dict[str, ast.expr] | None:
        """The arguments by the operator's parameters; None: they cannot be told apart, or hold several tensors."""
        arguments = self.case.operator.args
        names = [parameter.arg for parameter in arguments.args]
        if arguments.posonlyargs or arguments.vararg or len(self.call.args) > len(names):
            return None
        given = [*zip(names, self.call.args, strict=False), *((word.arg, word.value) for word in self.call.keywords)]
        bound: dict[str, ast.expr] = {}
        for name, value in given:
            several = isinstance(value, ast.List | ast.Tuple | ast.Dict | ast.Starred) and self.is_made(value)
            if name is None or name not in [*names, *(parameter.arg for parameter in arguments.kwonlyargs)] or several:
                return None
            bound[name] = value
        return bound

    def is_made(self, value: ast.expr) -> bool:
        """Whether it is made of the inputs, or where it stands, such as `torch.rand(3)`."""
        return not set(_names(value)).isdisjoint(self.inputs) or any(isinstance(it, ast.Call) for it in ast.walk(value))

    def to_source(self, signature: _Signature | None) -> str:
        """The case in KernelBench's format, with the arguments of the signature if there is one."""
        if signature is None:
            model = f"    def forward(self, {', '.join(self.inputs)}):\n        return {ast.unparse(self.call)}\n"
            inputs, arguments = self.inputs, []
        else:
            model = signature.model
            bound = signature.defaults | (self.bind() or {})
            inputs, arguments = ([ast.unparse(bound[name]) for name in names] for names in signature.names)
        body = "\n".join("    " + line for maker in self.makers for line in ast.unparse(maker).splitlines())
        imports = [line for line in map(ast.unparse, self.case.imports) if line not in self.case.code]
        return (
            "\n".join([*imports, "import torch.nn", self.case.code.strip()])
            + f"\n\n\nclass Model(torch.nn.Module):\n{model}\n\n"
            + f"def get_inputs():\n{body}\n    return [{', '.join(inputs)}]\n\n\n"
            + f"def get_init_inputs():\n    return [{', '.join(arguments)}]\n"
        )


@dataclass(frozen=True)
class _Signature:
    """What all cases of a file can be called with."""

    operator: str
    inputs: list[str]
    """Parameters of the operator that are made of inputs in some case."""
    arguments: list[str]
    """The other parameters that some case gives."""
    defaults: dict[str, ast.expr]

    @property
    def names(self) -> tuple[list[str], list[str]]:
        return self.inputs, self.arguments

    @property
    def model(self) -> str:
        """The body of the class `Model`."""
        given = [f"{name}={name}" for name in self.inputs]
        constructor = ""
        if self.arguments:
            kept = ", ".join(f"{name!r}: {name}" for name in self.arguments)
            constructor = (
                f"    def __init__(self, {', '.join(self.arguments)}):\n        super().__init__()\n"
                f"        self.arguments = {{{kept}}}\n\n"
            )
            given.append("**self.arguments")
        return (
            f"{constructor}    def forward(self, {', '.join(self.inputs)}):\n"
            f"        return {self.operator}({', '.join(given)})\n"
        )

    @classmethod
    def of(cls, cases: Sequence[_Prepared]) -> _Signature | None:
        """None: there are no cases, or one signature does not fit them."""
        bound = [case.bind() for case in cases]
        if not cases or None in bound or len({case.case.operator.name for case in cases}) > 1:
            return None
        operator = cases[0].case.operator
        parameters = [*operator.args.args, *operator.args.kwonlyargs]
        given = {name for found in bound for name in found or ()}
        made = {
            name
            for case, found in zip(cases, bound, strict=True)
            for name, value in (found or {}).items()
            if case.is_made(value)
        }
        values = [*operator.args.defaults, *operator.args.kw_defaults]
        with_default = parameters[len(operator.args.args) - len(operator.args.defaults) :]
        defaults = {it.arg: value for it, value in zip(with_default, values, strict=True) if value is not None}
        if any(given - defaults.keys() - (found or {}).keys() for found in bound):
            return None
        inputs = [parameter.arg for parameter in parameters if parameter.arg in made]
        arguments = [parameter.arg for parameter in parameters if parameter.arg in given - made]
        return cls(operator.name, inputs, arguments, defaults)


def _read(text: str) -> tuple[list[_Case], list[str]]:
    """The cases of a file, and the names of its other results, which are no plain calls of the code: in a `try`, say.

    Raises:
        NoTask: the file has none that call its code.
    """
    code, separator, test = text.partition(SEPARATOR)
    if not separator:
        raise NoTask("no_test")
    try:
        tree, tests = ast.parse(code), ast.parse(test.lstrip("#"))
    except (SyntaxError, ValueError):
        raise NoTask("does_not_parse") from None
    if any(name.partition(".")[0] == "triton" for name in _imported(tree)):
        raise NoTask("reference_in_triton")
    operators = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    function = next((node for node in reversed(tests.body) if isinstance(node, ast.FunctionDef)), None)
    imports: list[ast.stmt] = [node for node in tests.body if isinstance(node, ast.Import | ast.ImportFrom)]
    cases = []
    body = [_OnNoDevice().visit(node) for node in function.body] if function else []
    for index, node in enumerate(body):
        match node:
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str(name)))], value=ast.Call() as call):
                if isinstance(call.func, ast.Name) and call.func.id in operators:
                    cases.append(_Case(name, code, operators[call.func.id], imports, body[:index], call))
    if not cases:
        raise NoTask("no_case_calls_the_operator")
    named = [_name_of_result(node) for node in ast.walk(ast.Module(body, []))]
    known = {case.name for case in cases}
    return cases, list(dict.fromkeys(name for name in named if name is not None and name not in known))


def _name_of_result(node: ast.AST) -> str | None:
    """`a` of `results["a"] = …`."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id="results"), slice=ast.Constant(value=str(name)))]):
            return name
    return None


def _imported(tree: ast.Module) -> list[str]:
    named = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return named + [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def _needed(lines: Sequence[ast.stmt], names: Sequence[str]) -> list[ast.stmt]:
    """The lines that say what the names are, in order: what is done to one of them, and what that needs in turn."""
    local = {name for line in lines for name in _stored(line)}
    wanted, kept = local & set(names), list[ast.stmt]()
    for line in reversed(lines):
        touched = [_root(line.value)] if isinstance(line, ast.Expr) else _stored(line)
        if wanted & set(touched):
            if isinstance(line, ast.Assign) and all(isinstance(target, ast.Name) for target in line.targets):
                wanted -= set(touched)  # whatever they were before
                reads: ast.AST = line.value
            else:
                reads = line
            wanted |= local & set(_names(reads))
            kept.insert(0, line)
    return kept


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _stored(line: ast.stmt) -> list[str]:
    """Variables that a line sets, or a part of them: `x`, `x[0]`, `x.grad`."""
    nodes = [node for node in ast.walk(line) if isinstance(getattr(node, "ctx", None), ast.Store)]
    return [_root(node) for node in nodes if isinstance(node, ast.expr)]


def _root(node: ast.expr) -> str:
    """The variable that an expression begins with: `x` of `x.abs().fill_(y)`."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _constants(lines: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """The variables that are written out, such as `alpha = 2`, in the end."""
    constants: dict[str, ast.expr] = {}
    for line in lines:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_literal(value):
                constants[name] = value
            case _:
                for name in _stored(line):
                    constants.pop(name, None)
    return constants


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _any_draw(lines: Sequence[ast.stmt]) -> bool:
    attributes = [node.attr for line in lines for node in ast.walk(line) if isinstance(node, ast.Attribute)]
    return not _DRAWS.isdisjoint(attributes)


class _Inliner(ast.NodeTransformer):
    def __init__(self, constants: dict[str, ast.expr]):
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._constants.get(node.id, node)


class _OnNoDevice(ast.NodeTransformer):
    """Takes `device=…`, `.cuda()` and `.to("cuda")` out: tasks make their inputs on the CPU."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "device"]
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="cuda")):
                return value
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[]) if not node.keywords:
                return value
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[argument]) if _is_device(argument):
                return value
        return node


def _is_device(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith(("'cuda", "'cpu", "torch.device(")) or text == "device"
