"""The plain form of a candidate's file. It is what the rules read, and what runs.

What has no effect where a candidate is judged is left out, and forms that people use for the sake of training, or of
other machines, stand for what they do here: an `autograd.Function` is a function, an import that is tried is made,
`ModelNew = Net` is a class.
"""

from __future__ import annotations

import ast
from collections.abc import Set
from typing import TypeVar

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects.language.definitions import bound_in_class, keys_of_layers
from kernelrl.dialects.language.names import Names, imports_of

_Node = TypeVar("_Node", bound=ast.AST)
_FUNCTION = ("torch.autograd.Function", "torch.autograd.function.Function")
_OF_TRAINING = frozenset({"backward", "setup_context", "jvp", "vmap"})
_KEPT_FOR_BACKWARD = frozenset(
    {"save_for_backward", "save_for_forward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"}
)
_SETTINGS = frozenset({"torch.set_float32_matmul_precision", "torch.set_num_threads", "torch.set_grad_enabled"})
"""Functions that steer operators which a candidate does not have, or what the executor decides."""
_WORDS = frozenset(
    "warnings.warn warnings.filterwarnings warnings.simplefilter logging.basicConfig logging.debug logging.info "
    "logging.warning logging.error logging.exception os.environ.setdefault sys.stdout.flush "
    "sys.stderr.flush".split()
)
"""Functions that tell people something, or other programs."""
_STREAMS = frozenset({"sys.stdout", "sys.stderr"})
_OF_LOGGERS = frozenset("debug info warning error exception setLevel addHandler".split())
_DECORATORS = frozenset(
    "torch.compiler.disable torch._dynamo.disable torch.jit.ignore torch.jit.unused torch.amp.custom_fwd "
    "torch.cuda.amp.custom_fwd typing.override typing.final".split()
)
"""What these do is done by compilers, or where types are cast automatically."""
_MISSING = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
_OF_NUMBERS = frozenset("prod ceil floor sqrt exp log log2 log10 pi e inf".split())
"""Names of NumPy's that `math` has for numbers."""


def plain(tree: ast.Module) -> ast.Module:
    """The plain form of a file, whose syntax is changed for it."""
    names = imports_of(tree)
    body: list[ast.stmt] = []
    for node in tree.body:
        body += _imports_of_attempt(node) or [node]
    tuples = {name for node in body if (name := _named_tuple_in(node, names)) is not None}
    body = [_class_of(node, tuples) for node in body]
    functions = {each.name: each for node in body if (each := _function_of(node, names)) is not None}
    tree.body = [functions.get(node.name, node) if isinstance(node, ast.ClassDef) else node for node in body]
    loggers = {name for node in tree.body if (name := _logger_in(node, names)) is not None}
    tree.body = [node for node in tree.body if not _is_idle(node) and _logger_in(node, names) is None]
    plainer = _Plainer(names, frozenset(functions), loggers, _keys_of_layers(tree, names))
    plainer.visit(tree)
    needed = ["math"] * plainer.needs_math + ["typing"] * bool(tuples)
    for module in needed:
        if module not in names.imports:
            tree.body.insert(0, ast.copy_location(ast.Import([ast.alias(module)]), tree.body[0]))
    return ast.fix_missing_locations(tree)


def _class_of(node: ast.stmt, tuples: Set[str]) -> ast.stmt:
    """`ModelNew = Net` as a class that is derived from the other one, and a named tuple as a class with fields; other
    statements stay.

    Args:
        node: a statement of the file.
        tuples: names of named tuples.
    """
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() as other) if name == ENTRY_POINT:
            return _placed(ast.ClassDef(name, [other], [], [ast.Pass()], []), node)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[_, fields])) if name in tuples:
            base = ast.Attribute(ast.Name("typing", ast.Load()), "NamedTuple", ast.Load())
            held: list[ast.stmt] = [
                ast.AnnAssign(ast.Name(field, ast.Store()), ast.Name("int", ast.Load()), simple=1)
                for field in _texts_in(fields)
            ]
            return _placed(ast.ClassDef(name, [base], [], held, []), node)
    return node


def _named_tuple_in(node: ast.stmt, names: Names) -> str | None:
    """The name of a named tuple that a statement makes by `collections.namedtuple`."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=function, args=[ast.Constant(value=own), fields], keywords=[]),
        ):
            is_made = own == name and names.library(function) == "collections.namedtuple" and _texts_in(fields)
            return name if is_made and names.imports.get("typing", "typing") == "typing" else None
    return None


def _texts_in(node: ast.expr) -> list[str]:
    """The fields of a named tuple, as a text or several say them; empty: something else is given."""
    match node:
        case ast.Constant(value=str(text)):
            return text.replace(",", " ").split()
        case ast.List(elts=items) | ast.Tuple(elts=items):
            texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return texts if len(texts) == len(items) else []
    return []


def _placed(new: _Node, node: ast.AST) -> _Node:
    """A piece of syntax that stands where another one stood, with all that is in it."""
    for each in ast.walk(new):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, node)
    return new


def _is_idle(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`, a text such as `__all__`, or a setting of PyTorch's operators."""
    match node:
        case ast.If(test=test, orelse=[]):
            return ast.unparse(test) == "__name__ == '__main__'"
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=texts) | ast.Tuple(elts=texts)):
            return all(isinstance(text, ast.Constant) for text in texts)
        case ast.Assign(targets=[ast.Name(id="__version__" | "__author__")], value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Attribute() as setting], value=ast.Constant()):
            return ast.unparse(setting).startswith("torch.backends.")
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function, args=[ast.Constant()], keywords=[])):
            return ast.unparse(function) in _SETTINGS
    return False


def _logger_in(node: ast.stmt, names: Names) -> str | None:
    """The name of a logger that a statement makes."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function)):
            return name if names.library(function) == "logging.getLogger" else None
    return None


def _keys_of_layers(tree: ast.Module, names: Names) -> frozenset[str]:
    """Keys of `nn.ModuleDict`s that nothing else in the file has as an attribute: `blocks.mlp` is `blocks["mlp"]`."""
    others = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) | ast.FunctionDef(name=name):
                others.add(name)
            case ast.Call(func=ast.Attribute(), args=[ast.Constant(value=str(name)), *_]):  # maybe registered
                others.add(name)
            case ast.ClassDef(body=body):
                others |= {name for statement in body for name in bound_in_class(statement)}
    return keys_of_layers(tree, names) - others


def _imports_of_attempt(node: ast.stmt) -> list[ast.stmt]:
    """What a `try` does that has imports, and constants that say whether they were made; empty: it is none.

    An import of what the language lacks does not fail: nothing may use what it gives.
    """
    if not isinstance(node, ast.Try) or node.finalbody:
        return []
    types = [each for handler in node.handlers for each in _types_of(handler)]
    if not all(isinstance(each, ast.Name) and each.id in _MISSING for each in types):
        return []
    made = [*node.body, *node.orelse]
    return made if all(_is_import_or_flag(each) for each in made) else []


def _types_of(handler: ast.ExceptHandler) -> list[ast.expr]:
    if handler.type is None:
        return []
    return handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]


def _is_import_or_flag(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assign(targets=[ast.Name()], value=ast.Constant()):
            return True
    return False


def _function_of(node: ast.stmt, names: Names) -> ast.FunctionDef | None:
    """What the `apply` of an `autograd.Function` does where nothing is trained; None: it is none, or has more in it."""
    if not isinstance(node, ast.ClassDef) or node.keywords or node.decorator_list:
        return None
    if [names.library(base) in _FUNCTION for base in node.bases] != [True]:
        return None
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
    others = [each for each in node.body if not isinstance(each, ast.FunctionDef | ast.Pass) and not _is_text(each)]
    forward = methods.pop("forward", None)
    if others or forward is None or methods.keys() - _OF_TRAINING or not _is_static(forward, names):
        return None
    if "setup_context" not in methods:
        arguments = forward.args.posonlyargs or forward.args.args
        if not arguments:
            return None
        _Context(arguments.pop(0).arg).visit(forward)
    forward.name, forward.decorator_list = node.name, []
    return forward


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_scripts(node: ast.stmt) -> bool:
    """Whether it is `__constants__ = […]`, which TorchScript reads."""
    match node:
        case ast.Assign(targets=[ast.Name(id="__constants__")], value=value):
            return bool(_texts_in(value))
    return False


def _is_static(node: ast.FunctionDef, names: Names) -> bool:
    return [ast.unparse(each) for each in node.decorator_list if not _is_idle_decorator(each, names)] == [
        "staticmethod"
    ]


def _is_idle_decorator(node: ast.expr, names: Names) -> bool:
    return names.library(node.func if isinstance(node, ast.Call) else node) in _DECORATORS


class _Context(ast.NodeTransformer):
    """Leaves out what a function keeps for its `backward`; what it keeps as an attribute is a variable.

    Args:
        name: of the argument in which it keeps that.
    """

    def __init__(self, name: str):
        self._name = name

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match node.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if name == self._name and method in _KEPT_FOR_BACKWARD:
                    return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == self._name:
            return ast.copy_location(ast.Name(f"{self._name}_{node.attr}", node.ctx), node)
        return self.generic_visit(node)  # type: ignore[return-value]


class _Plainer(ast.NodeTransformer):
    """Makes expressions and statements plain, wherever they stand.

    Args:
        names: what the file imports.
        functions: names of what was an `autograd.Function`, whose `apply` is the function itself.
        loggers: names of what tells people something.
        keys: what is read as an attribute, and is an element.
    """

    def __init__(self, names: Names, functions: Set[str], loggers: Set[str], keys: Set[str]):
        self._names = names
        self._functions = functions
        self._loggers = loggers
        self._keys = keys
        self.needs_math = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.decorator_list = [each for each in node.decorator_list if not _is_idle_decorator(each, self._names)]
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            node.keywords = [each for each in node.keywords if self._names.library(each.value) not in _STREAMS]
        match node:
            case ast.Call(ast.Name("setattr"), [ast.Name("self") as owner, _, ast.Call(func=kind)], []):
                if self._names.library(kind) == "torch.nn.Parameter":
                    node.func = ast.copy_location(ast.Attribute(owner, "register_parameter", ast.Load()), node)
                    node.args = node.args[1:]
        if (plainer := self._plain_call(node)) is not None:
            return self.generic_visit(_placed(plainer, node))  # type: ignore[return-value]
        return self.generic_visit(node)  # type: ignore[return-value]

    def _plain_call(self, node: ast.Call) -> ast.expr | None:
        """What a function of `itertools` or `functools` gives, as a list or a product; None: it is none of these."""
        if node.keywords:
            return None
        lists = [
            ast.ListComp(each.elt, each.generators) if isinstance(each, ast.GeneratorExp) else each
            for each in node.args
        ]
        match self._names.library(node.func), lists:
            case "itertools.repeat", [one, count]:
                return ast.BinOp(ast.List([one], ast.Load()), ast.Mult(), count)
            case "itertools.chain", parts if not any(isinstance(part, ast.Starred) for part in parts):
                return ast.List([ast.Starred(part, ast.Load()) for part in parts], ast.Load())
            case "itertools.chain.from_iterable", [parts]:
                part, one = (ast.Name(name, ast.Load()) for name in ("part", "one"))
                loops = [(ast.Name("part", ast.Store()), parts), (ast.Name("one", ast.Store()), part)]
                return ast.ListComp(one, [ast.comprehension(target, each, [], 0) for target, each in loops])
            case "functools.reduce", [function, numbers, *first] if self._multiplies(function):
                if [each.value for each in first if isinstance(each, ast.Constant)] == [1] * len(first):
                    self.needs_math = True
                    return ast.Call(ast.Attribute(ast.Name("math", ast.Load()), "prod", ast.Load()), [numbers], [])
        return None

    def _multiplies(self, function: ast.expr) -> bool:
        """Whether a function gives the product of two numbers."""
        match function:
            case ast.Lambda(
                args=ast.arguments(args=[first, second]), body=ast.BinOp(ast.Name() as one, ast.Mult(), other)
            ):
                return isinstance(other, ast.Name) and [one.id, other.id] == [first.arg, second.arg]
        return self._names.library(function) == "operator.mul"

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        node.body = [each for each in node.body if not _is_for_scripts(each)] or [ast.copy_location(ast.Pass(), node)]
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if isinstance(node.value, ast.Call) and self._tells(node.value.func):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _tells(self, function: ast.expr) -> bool:
        match function:
            case ast.Attribute(value=ast.Name(id=name), attr=word) if name in self._loggers:
                return word in _OF_LOGGERS
        return self._names.library(function) in _WORDS

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr == "apply" and isinstance(node.value, ast.Name) and node.value.id in self._functions:
            return node.value
        if node.attr in self._keys and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) != "self":
            element = ast.Subscript(node.value, ast.Constant(node.attr), node.ctx)
            return self.generic_visit(ast.copy_location(element, node))  # type: ignore[return-value]
        package, _, name = (self._names.library(node) or "").rpartition(".")
        if package == "numpy" and name in _OF_NUMBERS and self._names.imports.get("math", "math") == "math":
            self.needs_math = True
            return ast.copy_location(ast.Attribute(ast.Name("math", ast.Load()), name, node.ctx), node)
        return self.generic_visit(node)  # type: ignore[return-value]
