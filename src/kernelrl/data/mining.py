"""Modules in somebody's code: every `nn.Module` of a file, with the imports and the definitions that it uses.

Nothing is run here: what a definition uses is read from its compiled code. Not covered: classes inside functions, and
imports within a package, which would need its other files.
"""

from __future__ import annotations

import ast
import builtins
import dis
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from kernelrl.data.program import imported_names
from kernelrl.data.rewriting import bound_names, find_function, rename

_RESERVED = ("Model", "get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class MinedModule:
    """A class that can be made a task of, as far as its text says.

    Attributes:
        source: what it uses in the order of the file, and the class itself under the name `Model`.
        definition: the class.
        init: its constructor or one that it inherits in the same file; None: that of a class of torch.
        forward: the same for `forward`, where the layers of torch take one input.
    """

    name: str
    line: int
    source: str
    definition: ast.ClassDef
    init: ast.FunctionDef | None
    forward: ast.FunctionDef


@dataclass(frozen=True)
class Unusable:
    """A class that cannot, and why; `detail` names the culprit."""

    name: str
    line: int
    reason: str
    detail: str = ""


def mine(code: str, packages: Collection[str]) -> Iterator[MinedModule | Unusable]:
    """Every class at the top of a file that is an `nn.Module`, by itself or through another of them.

    Args:
        packages: what a task may import beside the standard library.

    Raises:
        SyntaxError: the file does not parse.
    """
    file = _File(code, frozenset(packages) | sys.stdlib_module_names)
    for definition in file.classes.values():
        if file.is_module(definition):
            yield file.extract(definition)


class _File:
    def __init__(self, code: str, packages: frozenset[str]):
        self.packages = packages
        tree = ast.parse(code)
        self.lines = code.splitlines(keepends=True)
        self.body = tree.body
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.binders: dict[str, list[int]] = {}
        for index, node in enumerate(tree.body):
            for name in bound_names(node):
                self.binders.setdefault(name, []).append(index)
        self.origins = imported_names(tree)

    def is_module(self, definition: ast.ClassDef, seen: tuple[str, ...] = ()) -> bool:
        for base in definition.bases:
            if isinstance(base, ast.Name) and base.id in self.classes and base.id not in seen:
                if self.is_module(self.classes[base.id], (*seen, definition.name)):
                    return True
            elif self._dotted(base).startswith("torch.nn.") and self._dotted(base).rpartition(".")[2][:1].isupper():
                return True
        return False

    def extract(self, definition: ast.ClassDef) -> MinedModule | Unusable:
        name, line = definition.name, definition.lineno
        forward = self._method(definition, "forward") or self._forward_of_torch(definition)
        if forward is None:
            return Unusable(name, line, "no_forward")
        used, names = self._closure(definition)
        unknown = sorted(name for name in names if name not in self.binders and not hasattr(builtins, name))
        if unknown:
            return Unusable(name, line, "undefined_name", unknown[0])
        for index in used:
            if foreign := _foreign_import(self.body[index], self.packages):
                return Unusable(name, line, *foreign)
        bound = {bound for index in used for bound in bound_names(self.body[index])}
        if taken := sorted(bound & set(_RESERVED) - {name}):
            return Unusable(name, line, "name_taken", taken[0])
        text = self._text(used, names | {name})
        if "torch" not in bound:
            text = _after_future(text, "import torch\n")
        return MinedModule(
            name, line, rename(text, {name: "Model"}), definition, self._method(definition, "__init__"), forward
        )

    def _dotted(self, node: ast.expr) -> str:
        """`nn.Module` -> `torch.nn.Module`, as the file's imports say."""
        match node:
            case ast.Name(id=name):
                return self.origins.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self._dotted(value)}.{attr}"
        return ""

    def _method(self, definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """The method, or the one that the class inherits from another one of the file."""
        found = find_function(definition.body, name)
        bases = (base.id for base in definition.bases if isinstance(base, ast.Name) and base.id != definition.name)
        inherited = (self._method(self.classes[base], name) for base in bases if base in self.classes)
        return found or next((method for method in inherited if method), None)

    def _forward_of_torch(self, definition: ast.ClassDef) -> ast.FunctionDef | None:
        """That of `nn.Sequential`, `nn.Conv2d` and so on, if the class inherits one."""
        names = [base.id for base in definition.bases if isinstance(base, ast.Name) and base.id != definition.name]
        bases = [self.classes[name] for name in names if name in self.classes]
        dotted = [self._dotted(base) for base in definition.bases]
        if any(base.startswith("torch.nn.") and not base.endswith(".Module") for base in dotted):
            return find_function(ast.parse("def forward(self, input): ...").body, "forward")
        return next((found for base in bases if (found := self._forward_of_torch(base))), None)

    def _closure(self, definition: ast.ClassDef) -> tuple[list[int], set[str]]:
        """Indices of the statements that a class needs, itself among them, and the global names that these use."""
        queue, used, names = [self.body.index(definition)], set[int](), set[str]()
        while queue:
            index = queue.pop()
            if index not in used:
                used.add(index)
                fresh = _global_names(self.body[index]) - names
                names |= fresh
                queue += [binder for name in sorted(fresh) for binder in self.binders.get(name, [])]
        future = [index for index, node in enumerate(self.body) if _is_future(node)]
        return sorted({*used, *future}), names

    def _text(self, used: Sequence[int], names: set[str]) -> str:
        """The statements: imports first without what is not used, then the rest as it stands."""
        nodes = [self.body[index] for index in used]
        imports = [
            ast.unparse(_trimmed(node, names)) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        rest = [self._segment(node) for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom)]
        return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(rest) + "\n"

    def _segment(self, node: ast.stmt) -> str:
        decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        return "".join(self.lines[first - 1 : node.end_lineno]).rstrip()


def _global_names(node: ast.stmt) -> set[str]:
    """Names that a statement looks up in the file, also inside its functions."""
    queue: list[CodeType] = [compile(ast.Module([node], []), "mined", "exec")]
    names = set[str]()
    while queue:
        code = queue.pop()
        for step in dis.get_instructions(code):
            if step.opname.startswith("LOAD_") and ("GLOBAL" in step.opname or "NAME" in step.opname):
                names.add(str(step.argval))
        queue += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names - {"__name__", "__class__", "__file__"}


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _foreign_import(node: ast.stmt, packages: frozenset[str]) -> tuple[str, str] | None:
    """Why a statement's imports do not exist elsewhere, and which one it is."""
    for part in ast.walk(node):
        if isinstance(part, ast.ImportFrom) and part.level:
            return "imports_its_own_package", ast.unparse(part)
        modules = [alias.name for alias in part.names] if isinstance(part, ast.Import) else []
        modules += [part.module or ""] if isinstance(part, ast.ImportFrom) else []
        for module in modules:
            if module.partition(".")[0] not in packages:
                return "imports_other_packages", module
    return None


def _trimmed(node: ast.Import | ast.ImportFrom, names: set[str]) -> ast.Import | ast.ImportFrom:
    """An import of those names only that are used."""
    if _is_future(node):
        return node
    used = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in names]
    if isinstance(node, ast.Import):
        return ast.Import(used)
    return ast.ImportFrom(node.module, used, node.level)


def _after_future(text: str, line: str) -> str:
    head, separator, rest = text.rpartition("from __future__ import annotations\n")
    return head + separator + line + rest
