"""Static rules that hold in every dialect, on Python's `ast`.

They are allow-lists where that is possible: a candidate may import little, may touch few of torch's names, and outside
`__init__` only those that allocate, view and copy. What static rules cannot see (operators on tensors, calls made by
native code) the executor's record of operators sees while the candidate runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Set
from importlib import import_module
from types import ModuleType

import torch

from kernelrl.candidate import ENTRY_POINT
from kernelrl.verdict import Violation

ALLOWED_IMPORTS = frozenset(
    "torch torch.nn torch.nn.functional torch.utils.cpp_extension tvm_ffi tvm_ffi.cpp triton triton.language "
    "math typing dataclasses enum __future__".split()
)

FORBIDDEN_NAMES = frozenset(
    "eval exec compile __import__ open getattr setattr delattr globals locals vars dir breakpoint "
    "memoryview __builtins__ __loader__ __spec__".split()
)

_DTYPES = "float64 double float32 float float16 half bfloat16 int64 long int32 int int16 short int8 uint8 bool"
_ALLOCATE = (
    "empty empty_like empty_strided zeros zeros_like ones ones_like full full_like tensor as_tensor scalar_tensor"
)
_TYPES = "Tensor dtype device Size Generator memory_format contiguous_format channels_last preserve_format strided"
_CONTEXT = "no_grad inference_mode is_tensor is_floating_point promote_types result_type broadcast_shapes"
TORCH_IN_FORWARD = frozenset(f"{_DTYPES} {_ALLOCATE} {_TYPES} {_CONTEXT}".split())
"""Names of `torch` that code outside `__init__` may use."""

_PARAMETERS = "rand randn randint arange linspace eye cat stack manual_seed normal sqrt exp log rsqrt from_numpy"
TORCH_IN_INIT = TORCH_IN_FORWARD | frozenset(_PARAMETERS.split())
"""Names of `torch` that `__init__` may use as well, to make and pack parameters."""

NN_IN_FORWARD = frozenset(["Module", "Parameter", "ParameterList", "Buffer"])

TENSOR_METHODS = frozenset(
    # shape, type and place
    "size shape dim ndim numel nelement stride storage_offset element_size nbytes dtype device layout data_ptr "
    "is_contiguous is_cuda is_cpu is_floating_point is_complex requires_grad type names get_device itemsize values "
    # views
    "view view_as reshape expand expand_as permute transpose t T mT squeeze unsqueeze flatten unflatten narrow select "
    "split chunk unbind as_strided detach movedim swapaxes unfold diagonal ravel "
    # allocation, copies and conversions
    "new_empty new_zeros new_ones new_full new_empty_strided zero_ fill_ clone contiguous copy_ to type_as float "
    "double half bfloat16 int long short bool cpu cuda item requires_grad_ data".split()
)

_COMPUTING_METHODS = frozenset(name for name in dir(torch.Tensor) if not name.startswith("_")) - TENSOR_METHODS
_HARMLESS_DUNDERS = frozenset({"__init__", "__name__", "__class__", "__future__"})


def find_violations(
    tree: ast.Module, modules: set[str], device_functions: set[str], imports: frozenset[str] = ALLOWED_IMPORTS
) -> list[Violation]:
    """Violations of the rules common to all dialects.

    Args:
        tree: the candidate.
        modules: names (`mod`, `self.mod`) bound to the candidate's own native modules.
        device_functions: names of functions that are compiled for the device; their bodies are the kernel.
        imports: modules that may be imported.
    """
    aliases = _torch_aliases(tree)
    violations = [*_check_imports(tree, imports), *_check_names(tree), *_check_offered(tree)]
    for scope, node in _walk_with_scope(tree, device_functions):
        violations += _check_torch_names(node, scope, aliases)
        if scope != "init":
            violations += _check_computation(node, modules, aliases)
    if not any(isinstance(node, ast.ClassDef) and node.name == ENTRY_POINT for node in tree.body):
        violations.append(Violation(rule="no_kernel", evidence=f"there is no class {ENTRY_POINT} at the top level"))
    return sorted(set(violations), key=lambda violation: (violation.line or 0, violation.rule))


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of a chain of attributes, or None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _root(node: ast.AST) -> str:
    return (dotted(node) or "").split(".")[0]


def _violation(rule: str, node: ast.AST, evidence: str) -> Violation:
    return Violation(rule=rule, evidence=evidence[:200], line=getattr(node, "lineno", None))


def _check_imports(tree: ast.Module, imports: frozenset[str]) -> Iterator[Violation]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name not in imports]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            full = [(alias.name, f"{base}.{alias.name}") for alias in node.names]
            names = [name for short, name in full if node.level or not _may_import(base, short, imports)]
        for name in names:
            yield _violation("forbidden_import", node, f"import of {name}")


def _may_import(base: str, name: str, imports: frozenset[str]) -> bool:
    if base not in imports or name == "*":
        return False
    if f"{base}.{name}" in imports:
        return True
    if base == "torch":
        return name in TORCH_IN_INIT
    if base == "torch.nn":
        return name in NN_IN_FORWARD | _modules_of_nn() | {"init"}
    return _is_offered(f"{base}.{name}")


OFFERED = {
    "tvm_ffi": frozenset({"cpp"}),
    "tvm_ffi.cpp": frozenset({"load_inline"}),
    "torch.utils.cpp_extension": frozenset({"load_inline"}),
    "triton": frozenset("jit autotune heuristics Config cdiv next_power_of_2 language".split()),
}
"""By module: the only names that may be used of it. Of other modules that may be imported: whatever is not a module."""


def _is_offered(name: str) -> bool:
    """Whether a dotted name leads, through modules that may be imported, to something of theirs that may be used."""
    parts = name.split(".")
    length = max((k for k in range(1, len(parts) + 1) if ".".join(parts[:k]) in ALLOWED_IMPORTS), default=0)
    if not length:
        return False
    module = ".".join(parts[:length])
    if length == len(parts):
        return True
    if module in OFFERED:
        return parts[length] in OFFERED[module]
    found: object = import_module(module)
    for part in parts[length:]:
        found = getattr(found, part, None)
        if found is None or part.startswith("_"):
            return False
        if isinstance(found, ModuleType) and not found.__name__.startswith("triton.language"):
            return False
        if not isinstance(found, ModuleType):
            return True
    return True


def _check_offered(tree: ast.Module) -> Iterator[Violation]:
    """What is used of modules beside torch's operators; in kernels too, which Triton's interpreter runs as they are."""
    aliases = _aliases(tree, lambda module: True)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner:
            continue
        head, _, rest = (dotted(node) or "").partition(".")
        if head not in aliases:
            continue
        full = f"{aliases[head]}.{rest}".rstrip(".")
        if full in ALLOWED_IMPORTS or full == "torch.utils":
            yield _violation("library_call", node, f"{full} as a value")
        elif (full.split(".")[0] != "torch" or full.startswith("torch.utils")) and not _is_offered(full):
            yield _violation("library_call", node, full)


def _modules_of_nn() -> set[str]:
    return {name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type)}


def _check_names(tree: ast.Module) -> Iterator[Violation]:
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield _violation("forbidden_name", node, node.id)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not _is_own(node):
            yield _violation("private_attribute", node, dotted(node) or f"….{node.attr}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in ("__del__", "__getattr__"):
            yield _violation("forbidden_name", node, node.name)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and _root(node) in imported:
            yield _violation("patched_library", node, f"assignment to {dotted(node)}")
        elif isinstance(node, ast.MatchClass) and node.kwd_attrs:
            yield _violation("private_attribute", node, f"class pattern that reads {node.kwd_attrs[0]}")
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Yield | ast.YieldFrom):
            yield _violation("deferred_work", node, type(node).__name__)


def _is_own(node: ast.Attribute) -> bool:
    """`super().__init__`, and single-underscore attributes of `self`."""
    if node.attr in _HARMLESS_DUNDERS and node.attr != "__class__":
        return True
    return isinstance(node.value, ast.Name) and node.value.id == "self" and not node.attr.startswith("__")


def _torch_aliases(tree: ast.Module) -> dict[str, str]:
    return _aliases(tree, lambda module: module.split(".")[0] == "torch")


def _aliases(tree: ast.Module, wanted: Callable[[str], bool]) -> dict[str, str]:
    """Local name -> full dotted name, for everything imported from modules that are wanted."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if wanted(alias.name):
                    head = alias.name.split(".")[0]
                    aliases[alias.asname or head] = alias.name if alias.asname else head
        elif isinstance(node, ast.ImportFrom) and wanted(node.module or ""):
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return aliases


def names_made_by(tree: ast.Module, makes: Callable[[ast.AST], bool]) -> set[str]:
    """Names (`mod`, `self.mod`, `build`) that hold what some expression makes, directly or through other such names.

    Args:
        makes: whether an expression is one that makes it.
    """
    names: set[str] = set()
    while True:
        before = len(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(makes(part) or _is_one_of(part, names) for part in ast.walk(node.value)):
                    names |= {name for target in targets for part in ast.walk(target) if (name := dotted(part))}
            elif isinstance(node, ast.FunctionDef) and node.name not in ("__init__", "forward"):
                returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value]
                if any(makes(part) or _is_one_of(part, names) for value in returned for part in ast.walk(value)):
                    names.add(node.name)
            elif isinstance(node, ast.ClassDef):
                own = {name for name in names if any(_binds(statement, name) for statement in node.body)}
                names |= {f"{owner}.{name}" for name in own for owner in ("self", node.name)}
        if len(names) == before:
            return names - {"self"}


def _binds(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(dotted(target) == name for target in statement.targets)


def _is_one_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and dotted(node) in names


def used_in_forward(tree: ast.Module, names: set[str], device_functions: set[str]) -> bool:
    """Whether code that `forward` can reach reads one of these names."""
    return any(
        scope == "forward" and _is_one_of(node, names) for scope, node in _walk_with_scope(tree, device_functions)
    )


def _init_helpers(tree: ast.Module) -> set[str]:
    """Functions that are called by module-level code and `__init__` alone, and mentioned nowhere else."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    helpers = functions.keys() - {"__init__", "forward"}
    while helpers:
        called: set[str] = set()
        elsewhere: set[str] = set()
        for scope, node in _walk_scopes(tree, set(), helpers):
            if isinstance(node, ast.Call) and scope == "init" and isinstance(node.func, ast.Name | ast.Attribute):
                called.add(_last(node.func))
            elif isinstance(node, ast.Name | ast.Attribute) and scope == "forward":
                elsewhere.add(_last(node))
        mentioned = _mentioned_without_call(tree)
        remaining = {name for name in helpers if name in called and name not in elsewhere | mentioned}
        if remaining == helpers:
            break
        helpers = remaining
    return helpers


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _mentioned_without_call(tree: ast.Module) -> set[str]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {
        _last(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called
    }


def _walk_with_scope(tree: ast.Module, device_functions: set[str]) -> Iterator[tuple[str, ast.AST]]:
    """Every node outside device functions, and where it runs: `init` (also module level) or `forward` (the rest)."""
    return _walk_scopes(tree, device_functions, _init_helpers(tree))


def _walk_scopes(
    tree: ast.Module, device_functions: set[str], init_functions: Set[str]
) -> Iterator[tuple[str, ast.AST]]:
    stack: list[tuple[str, ast.AST]] = [("init", node) for node in tree.body]
    while stack:
        scope, node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            if node.name in device_functions and node in tree.body:
                continue
            scope = "init" if node.name == "__init__" or node.name in init_functions else "forward"
        elif isinstance(node, ast.Lambda):
            scope = "forward"
        yield scope, node
        stack.extend((scope, child) for child in ast.iter_child_nodes(node))


def _check_torch_names(node: ast.AST, scope: str, aliases: dict[str, str]) -> Iterator[Violation]:
    if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
        name = dotted(node)
        if name is None or name.split(".")[0] not in aliases:
            return
        head, _, rest = name.partition(".")
        parts = f"{aliases[head]}.{rest}".rstrip(".").split(".")
        if len(parts) < 2 or parts[:3] == ["torch", "utils", "cpp_extension"] or parts == ["torch", "utils"]:
            return
        if parts[1] == "nn":
            allowed = len(parts) < 3 or parts[2] in NN_IN_FORWARD or parts == ["torch", "nn", "functional"]
            allowed = allowed or (scope == "init" and (parts[2] in _modules_of_nn() or parts[2] == "init"))
        else:
            allowed = parts[1] in (TORCH_IN_INIT if scope == "init" else TORCH_IN_FORWARD)
        if not allowed:
            yield _violation("library_call", node, ".".join(parts))


def _check_computation(node: ast.AST, modules: set[str], aliases: dict[str, str]) -> Iterator[Violation]:
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        yield _violation("library_call", node, "the @ operator")
    if isinstance(node, ast.Attribute) and node.attr in _COMPUTING_METHODS:
        receiver = dotted(node.value)
        head = (receiver or "").split(".")[0]
        if receiver not in modules | {"self"} and head not in aliases and head not in ("math", "tl", "triton"):
            yield _violation("library_call", node, f"tensor method .{node.attr}")
