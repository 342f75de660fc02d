"""Which uses are allowed where: a library's names, attributes of what, calls of what."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.definitions import Use
from kernelrl.dialects.language.flow import CALLABLE, Kind, Value
from kernelrl.dialects.language.meaning import Meaning
from kernelrl.dialects.language.names import violation
from kernelrl.dialects.language.syntax import is_type_of
from kernelrl.verdict import Violation


def find_uses(meaning: Meaning, may_compute: bool) -> Iterator[Violation]:
    """Uses that are not allowed.

    Args:
        meaning: what the candidate uses.
        may_compute: whether the library's operators and layers are allowed (dialect `python`).
    """
    for use in meaning.libraries:
        yield from _check_library(use, may_compute)
    is_native = compiles(meaning)
    for use in meaning.attributes:
        yield from _check_attribute(use, meaning, may_compute)
        if is_native and use.name == "data_ptr":
            yield from _check_address(use, meaning)
    for use in meaning.calls:
        yield from _check_call(use, meaning, may_compute)
    for use, value in meaning.ties:
        yield from _check_tie(use, value, meaning)


def _check_address(use: Use, meaning: Meaning) -> Iterator[Violation]:
    """Native code chooses where tensors lie, and so could tell Python numbers by it."""
    assert use.value is not None
    called = meaning.addresses.get(id(use.node))
    is_own = meaning.flow.kinds(use.value.own) in (Kind.OBJECT, Kind.NATIVE)
    if use.unit.context != "dead" and not is_own and (called is None or meaning.flow.kinds(called.own) != Kind.NATIVE):
        evidence = (
            "….data_ptr: an address is given to a compiled function, as kernel(x.data_ptr()), and to nothing else; "
            "how it is aligned C++ can tell"
        )
        yield violation("outside_language", use.node, evidence)


def _check_tie(use: Use, value: Value, meaning: Meaning) -> Iterator[Violation]:
    """A layer of the library's may be given another parameter in `__init__`, and nothing that could be called."""
    assert use.value is not None
    kinds = meaning.flow.kinds
    context, given = use.unit.context, kinds(value.own) | kinds(value.held)
    if context != "dead" and (context, kinds(use.value.own), given) != ("init", Kind.LAYER, Kind.DATA):
        evidence = f"assignment to ….{use.name}: in __init__ a layer gets another one's, or an nn.Parameter"
        yield violation("patched_library", use.node, evidence)


def _check_library(use: Use, may_compute: bool) -> Iterator[Violation]:
    module, name, rest = _split(use.name)
    if (
        any(part.startswith("_") for part in use.name.split("."))
        and name not in vocabulary.PRIVATE
        and module != "__future__"
    ):
        yield violation("private_attribute", use.node, use.name)
    elif not name:
        yield violation(
            "library_call", use.node, f"{use.name} as a value: a module stands before a dot, and nowhere else"
        )
    elif rest and use.unit.context != "dead" and not (name in vocabulary.DTYPES and rest in vocabulary.DATA):
        hint = vocabulary.INSTEAD.get(f"{module}.{name}", f"nothing may be taken from {module}.{name}")
        yield violation("library_call", use.node, f"{use.name}: {hint}")
    elif name not in vocabulary.FORWARD.get(module, ()):
        yield from _check_computing_name(use, module, name, may_compute)
    elif (name == "load_inline" or use.name in _BY_NAME) and not (use.called or use.as_type):
        yield violation("library_call", use.node, f"{use.name} as a value: call it by its name")


_BY_NAME = frozenset({"itertools.product", *vocabulary.KEYWORDS})
"""What is called where it is named, and never kept."""


def _check_computing_name(use: Use, module: str, name: str, may_compute: bool) -> Iterator[Violation]:
    if use.unit.context == "dead":
        return
    if use.as_type and module == "torch.nn" and name in vocabulary.LAYERS:
        return
    computes = name in vocabulary.operators().get(module, ())
    if may_compute and computes:
        return
    if use.unit.context == "init" and (computes or name in vocabulary.INIT.get(module, ())):
        if not use.called:
            yield violation("library_call", use.node, f"{use.name} as a value: call it by its name")
        return
    yield violation("library_call", use.node, _instead(use.name, module, name))


def _instead(full: str, module: str, name: str) -> str:
    if full in vocabulary.INSTEAD:
        return f"{full}: {vocabulary.INSTEAD[full]}"
    if name in ("pad", "cat", "concat", "stack"):
        return f"{full}: the kernel writes where its output belongs, or torch.empty(…)[part].copy_(…) does"
    if name in vocabulary.INIT.get(module, ()):
        return f"{full}: allowed in __init__ alone; what forward computes is your kernel's work"
    if module in ("torch", "torch.nn.functional") or name in vocabulary.LAYERS:
        return f"{full}: the kernel computes; torch allocates, views and copies, and computes in __init__ alone"
    return f"{full} is not among what may be used of {module}"


def _split(full: str) -> tuple[str, str, str]:
    """Module, name in it, and what follows the name, of a full dotted name."""
    parts = full.split(".")
    known = vocabulary.modules()
    length = max((k for k in range(1, len(parts) + 1) if ".".join(parts[:k]) in known), default=1)
    module = ".".join(parts[:length])
    return module, ".".join(parts[length : length + 1]), ".".join(parts[length + 1 :])


def may_be_named(full: str) -> bool:
    """Whether the language has a full dotted name anywhere, in whatever context."""
    module, name, rest = _split(full)
    tables = (vocabulary.FORWARD, vocabulary.INIT, vocabulary.DEVICE, vocabulary.operators())
    known = any(name in table.get(module, ()) for table in tables)
    known |= full in vocabulary.CACHES or full == vocabulary.NAMED_TUPLE
    return known and all(part in vocabulary.DATA for part in rest.split(".") if part)


def _check_attribute(use: Use, meaning: Meaning, may_compute: bool) -> Iterator[Violation]:
    assert use.value is not None
    name, kinds = use.name, meaning.flow.kinds(use.value.own) or Kind.DATA
    if name == "__name__" and isinstance(use.node, ast.Attribute) and is_type_of(use.node.value):
        return
    if name.startswith("_") and (name.startswith("__") or not _is_own(name, kinds, meaning)):
        yield violation("private_attribute", use.node, f"….{name}")
        return
    if use.unit.context == "dead":
        return
    if kinds & (Kind.KERNEL | Kind.FUNCTION) and not kinds & ~(Kind.KERNEL | Kind.FUNCTION | Kind.MAPPING):
        yield violation("outside_language", use.node, f"….{name} of a function: functions are called")
        return
    is_own = _is_own(name, kinds, meaning) and _is_safe(use)
    is_key = name in meaning.keys_of_layers and kinds & Kind.MAPPING and not kinds & ~(Kind.MAPPING | Kind.DATA)
    if is_own or is_key or kinds == Kind.NATIVE or _is_of_record(name, kinds, meaning):
        return
    if kinds & Kind.CLASS:
        yield violation(
            "outside_language", use.node, f"….{name} of a class: call it on self, or make it a staticmethod"
        )
    elif not _is_of_data(use, kinds, may_compute):
        yield _refuse_attribute(use, kinds)


def _is_own(name: str, kinds: Kind, meaning: Meaning) -> bool:
    if kinds == Kind.CLASS:
        return name in meaning.of_classes and not meaning.is_method(name)
    return kinds == Kind.OBJECT and name in meaning.own_attributes


def _is_safe(use: Use) -> bool:
    """Whether an own attribute cannot be taken for one of a tensor, an array or the like, whatever it is taken from."""
    if use.name not in vocabulary.FOREIGN:
        return True
    taken_from = use.node.args[0] if isinstance(use.node, ast.Call) else getattr(use.node, "value", None)
    return isinstance(taken_from, ast.Name) and taken_from.id == "self"


def _is_of_record(name: str, kinds: Kind, meaning: Meaning) -> bool:
    """Whether an attribute is taken from an object or compiled module that lay in a record beside data.

    Data and modules of PyTorch's have no such attribute.
    """
    if kinds & ~_IN_RECORDS or name in vocabulary.OF_ANY_DATA:
        return False
    return bool(kinds & Kind.NATIVE) or bool(kinds & Kind.OBJECT and name in meaning.own_attributes)


_IN_RECORDS = Kind.DATA | Kind.MAPPING | Kind.OBJECT | Kind.NATIVE


def _is_of_data(use: Use, kinds: Kind, may_compute: bool) -> bool:
    name, in_init = use.name, use.unit.context == "init"
    if name in vocabulary.PARTS and kinds & Kind.LAYER and not use.called:
        return True
    if name in vocabulary.DATA or (kinds == Kind.OBJECT and name in vocabulary.OF_MODULES and _is_of_module(use)):
        return True
    if in_init and name in vocabulary.PACKING:
        return True
    if (may_compute or in_init) and (name in vocabulary.tensor_operators() or name == "@"):
        return may_compute or use.called or not callable(getattr(torch.Tensor, name, None))
    return name in vocabulary.NUMBERS_OF_DTYPE and _is_of_dtype(use.node)


def _is_of_module(use: Use) -> bool:
    """Whether something of `nn.Module` is data, or called where it is named."""
    return use.called or not callable(getattr(torch.nn.Module, use.name, None))


def _is_of_dtype(node: ast.expr) -> bool:
    """Whether an attribute is taken from what `torch.finfo` or `torch.iinfo` has just returned."""
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="finfo" | "iinfo"))):
            return True
    return False


def _refuse_attribute(use: Use, kinds: Kind) -> Violation:
    name = use.name
    if name == "@":
        return violation("library_call", use.node, "the @ operator: the kernel multiplies")
    if kinds == Kind.OBJECT and name in vocabulary.FOREIGN:
        evidence = f"….{name} of an object of this file: arrays and tensors have that too; give yours another name"
        return violation("outside_language", use.node, evidence)
    if kinds == Kind.OBJECT and name not in vocabulary.LAYER_LISTS:
        return violation("outside_language", use.node, f"self.{name}: nothing in this file assigns it")
    if name in vocabulary.OF_LAYERS_TOO:
        return violation("library_call", use.node, f"….{name}: {vocabulary.OF_LAYERS_TOO[name]}")
    if name in vocabulary.tensor_operators() or name in vocabulary.PACKING:
        evidence = f"tensor method .{name}: the kernel computes; views, copies and conversions are allowed"
        return violation("library_call", use.node, evidence)
    return violation("outside_language", use.node, f"….{name} is no attribute of the language")


def _check_call(use: Use, meaning: Meaning, may_compute: bool) -> Iterator[Violation]:
    assert use.value is not None
    if use.unit.context == "dead":
        return
    kinds, held = meaning.flow.kinds(use.value.own), meaning.flow.kinds(use.value.held)
    if (kinds & Kind.LAYER or (kinds & Kind.SEQUENCE and held & Kind.LAYER)) and not may_compute:
        evidence = f"{use.name}(…) may run a layer of torch.nn: give its weight and bias to your kernel"
        yield violation("library_call", use.node, evidence)
    elif not kinds & (CALLABLE | Kind.LAYER) and not _is_method_of_data(use):
        evidence = f"{use.name}(…): what is called is not known to be a function of this file; call it by its name"
        yield violation("outside_language", use.node, evidence)


def _is_method_of_data(use: Use) -> bool:
    """Whether a call is that of an attribute, which has been checked as such."""
    return isinstance(use.node, ast.Call) and isinstance(use.node.func, ast.Attribute)


def calls_kernel(meaning: Meaning) -> bool:
    """Whether code that `forward` can reach calls a compiled function or a Triton kernel."""
    return any(
        use.unit.context == "forward"
        and use.value is not None
        and meaning.flow.kinds(use.value.own) & (Kind.NATIVE | Kind.KERNEL)
        for use in meaning.calls
    )


def compiles(meaning: Meaning) -> bool:
    """Whether the file compiles native code."""
    return any(use.name.endswith(".load_inline") and use.called for use in meaning.libraries)
