"""What a file defines: its functions, classes and attributes, with cells for their values; and where each code runs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.flow import Flow, Kind, Value
from kernelrl.dialects.language.names import Names, Scope, all_arguments, violation
from kernelrl.dialects.language.vocabulary import Context
from kernelrl.verdict import Violation

MOST_NUMBERED = 64
"""Buffers or parameters that are registered under one name with a number behind it."""


@dataclass(eq=False)
class Unit:
    """Code that runs as one: the file, a function, a lambda."""

    name: str
    mentions: set[tuple[str, bool]] = field(default_factory=set)
    """Names that it reads, and whether it calls them."""
    lambdas: list[Unit] = field(default_factory=list)
    context: Context = "dead"


@dataclass(eq=False)
class Entry:
    """Where the arguments of calls arrive: by place, by name, or anywhere (`*`). Methods of one name share one."""

    returned: Value
    slots: dict[int | str, Value] = field(default_factory=dict)


@dataclass(eq=False)
class Routine:
    """A function, method or lambda of the file."""

    node: ast.FunctionDef | ast.Lambda
    arguments: dict[str, Value]
    entry: Entry
    unit: Unit
    owner: ast.ClassDef | None
    is_static: bool


@dataclass(frozen=True)
class Use:
    """A use of something at a place.

    Attributes:
        node: the place.
        unit: the code around it.
        name: of a library's name in full, of an attribute by itself; of a call, what is called as it is written.
        value: what the attribute is taken from, what is called; None for a library's name.
        called: whether what is used is called here.
        as_type: whether it stands in an annotation or for a type in `isinstance`.
    """

    node: ast.expr
    unit: Unit
    name: str
    value: Value | None = None
    called: bool = False
    as_type: bool = False


_DICTS = ("torch.nn.ModuleDict", "torch.nn.ParameterDict")
_HAS_FORWARD = Kind.OBJECT | Kind.SEQUENCE
_NO_FIELD = {"ClassVar", "InitVar", "KW_ONLY"}
"""Annotations of what takes no argument of a record's, or another one than its place says."""


class Definitions:
    """The walk's memory: what is defined, what was used, and where the walk is.

    Attributes:
        flow: the kinds of all values.
        names: what the file's names stand for.
        libraries, attributes, calls: uses.
        own_attributes: names that `self` and classes have by this file.
        keys_of_layers: names that dictionaries of layers have.
        of_classes: those of them that a class has without an instance.
        has_odd_weights: whether any begins as a recurrent layer's weights do, and goes on otherwise.
        classes: the file's classes, by name.
        kernels: Triton kernels.
        violations: what the walk itself refuses.
    """

    def __init__(self, tree: ast.Module, names: Names):
        self.flow = Flow()
        self.names = names
        self.libraries: list[Use] = []
        self.attributes: list[Use] = []
        self.calls: list[Use] = []
        self.ties: list[tuple[Use, Value]] = []
        """Attributes of others than `self` that are assigned, and to what."""
        self.addresses: dict[int, Value] = {}
        """By node of `x.data_ptr`, what is called with the address alone or in a list."""
        self.kernels: list[ast.FunctionDef] = []
        self.violations: list[Violation] = []
        self.classes: dict[str, ast.ClassDef] = {
            node.name: node for node in tree.body if isinstance(node, ast.ClassDef)
        }
        self.routines: dict[ast.AST, Routine] = {}
        self.by_name: dict[str, list[Routine]] = defaultdict(list)
        self._methods: dict[str, Entry] = defaultdict(lambda: Entry(self.flow.value()))
        self._assigned: set[str] = set()  # names of attributes that are not, or not only, methods
        self._records: dict[ast.ClassDef, Entry] = {}
        self._escaped: set[Entry] = set()
        self._variables: dict[tuple[Scope, str], Value] = {}
        self._functions: dict[tuple[Scope, str], Routine] = {}
        self._fields: dict[str, Value] = {}
        self.own_attributes: set[str] = set()
        self.keys_of_layers = keys_of_layers(tree, names)
        self.of_classes: set[str] = set()
        self._given = self.flow.value(Kind.DATA | Kind.LAYER | Kind.OBJECT, Kind.DATA | Kind.LAYER | Kind.OBJECT)
        self._taken = self.flow.value()
        self._scope = names.scopes[tree]
        self._texts = _texts_by_name(tree)
        self._plain_formats: dict[str, bool] = {}
        self._unit = self.file = Unit("")
        self._routine: Routine | None = None
        self._declare(tree)

    def _declare(self, tree: ast.Module) -> None:
        owners: dict[ast.AST, ast.ClassDef] = {
            statement: node for node in self.classes.values() for statement in node.body
            if isinstance(statement, ast.FunctionDef)
        }  # fmt: skip
        for node in self.names.scopes:
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                self._declare_routine(node, owners.get(node))
        for node in self.classes.values():
            if self._is_record(node):
                self._records[node] = self._record(node)
            for base in node.bases:
                if isinstance(base, ast.Name) and (of := self.classes.get(base.id)) and self._is_record(of):
                    self._refuse("outside_language", node, f"class {node.name} derived from a record; write its fields")
            for statement in node.body:
                for name in bound_in_class(statement):
                    self.own_attributes.add(name)
                    self.of_classes.add(name)
                    self._assigned.add(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self._assigned.add(node.attr)
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    self.own_attributes.add(name)
                case ast.Call() if registered := registered_names(node):
                    for name in registered:
                        if name.startswith("__") or name in vocabulary.RESERVED:
                            self._refuse("patched_library", node, f"{name!r} registered; give it a name of its own")
                        self.own_attributes.add(name)
                        self._assigned.add(name)
                        self.flow.assign(self.flow.data(), self._field(name))
                case ast.Call(func=ast.Attribute(attr="register_buffer" | "register_parameter")):
                    self._refuse("outside_language", node, vocabulary.NAMED_BY_CONSTANT)
        for name in self.own_attributes & vocabulary.OF_TUPLES:
            self._refuse("patched_library", tree, f"{name} of named tuples; give it another name")
        self.has_odd_weights = any(
            name.startswith(vocabulary.WEIGHTS_BY_NUMBER) and name not in vocabulary.DATA
            for name in self.own_attributes
        )

    def _declare_routine(self, node: ast.FunctionDef | ast.Lambda, owner: ast.ClassDef | None) -> None:
        static = isinstance(node, ast.FunctionDef) and any(
            getattr(each, "id", "") == "staticmethod" for each in node.decorator_list
        )
        name = node.name if isinstance(node, ast.FunctionDef) else ""
        arguments = {argument.arg: self.flow.value() for argument in all_arguments(node.args)}
        entry = self._methods[name] if owner else Entry(self.flow.value())
        routine = self.routines[node] = Routine(node, arguments, entry, Unit(name), owner, static)
        self._connect(routine)
        scope = self.names.scopes[node]
        self._variables.update({(scope, argument): value for argument, value in arguments.items()})
        if not isinstance(node, ast.FunctionDef):
            return
        self.by_name[name].append(routine)
        if owner is not None:
            self.own_attributes.add(name)
            if static:
                self.of_classes.add(name)
            elif "self" in arguments:
                self.flow.assign(self.flow.value(Kind.OBJECT), arguments["self"])
            if name == "forward" or (owner.name == ENTRY_POINT and name == "__init__"):
                self._receive_data(routine)
            self.flow.assign(self.flow.value(Kind.FUNCTION), self._field(name))
        elif scope.parent is not None and scope.parent.bound[name] == 1:
            self._functions[scope.parent, name] = routine
        else:
            self._escape(entry)

    def _connect(self, routine: Routine) -> None:
        """Let what arrives at a routine's entry flow to its parameters."""
        parameters, slots = routine.node.args, routine.entry.slots
        positional = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
        if routine.owner is not None and not routine.is_static:
            positional = positional[1:]
        slots.setdefault("*", self.flow.value())
        for place, name in enumerate(positional):
            self.flow.assign(slots.setdefault(place, self.flow.value()), routine.arguments[name])
        for name, value in routine.arguments.items():
            if name != "self":
                self.flow.assign(slots.setdefault(name, self.flow.value()), value)
                self.flow.assign(slots["*"], value)
        for rest in (parameters.vararg, parameters.kwarg):
            if rest:
                self.flow.put(slots["*"], routine.arguments[rest.arg])
                self.flow.assign(self.flow.value(Kind.DATA | Kind.MAPPING), routine.arguments[rest.arg])

    def _receive_data(self, routine: Routine) -> None:
        for name, value in routine.arguments.items():
            if name != "self":
                self.flow.assign(self.flow.data(), value)

    def _record(self, node: ast.ClassDef) -> Entry:
        """Where the arguments of a dataclass or of a named tuple arrive."""
        entry = Entry(self.flow.value(), {"*": self.flow.value()})
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and any(name in ast.unparse(each.annotation) for name in _NO_FIELD):
                self._refuse(
                    "outside_language", each, f"{ast.unparse(each.annotation)[:60]} in a record; give it a type"
                )
        for place, name in enumerate(fields_of(node)):
            entry.slots[place] = entry.slots[name] = self._field(name)
            self.flow.assign(entry.slots["*"], self._field(name))
        return entry

    def _is_record(self, node: ast.ClassDef) -> bool:
        return bool(node.decorator_list) or self._is_named_tuple(node)

    def _is_named_tuple(self, node: ast.ClassDef) -> bool:
        return any(self.names.library(base) == vocabulary.NAMED_TUPLE for base in node.bases)

    def is_method(self, name: str) -> bool:
        """Whether any class has a method of that name, which its objects alone have."""
        return any(each.owner is not None and not each.is_static for each in self.by_name.get(name, ()))

    def _field(self, name: str) -> Value:
        return self._fields.setdefault(name, self.flow.value())

    def _variable(self, scope: Scope, name: str) -> Value:
        if (scope, name) not in self._variables:
            self._variables[scope, name] = self.flow.value()
        return self._variables[scope, name]

    def _refuse(self, rule: str, node: ast.AST, evidence: str) -> None:
        self.violations.append(violation(rule, node, evidence))

    @contextmanager
    def _inside(self, scope: Scope, routine: Routine | None = None) -> Iterator[None]:
        before = self._scope, self._unit, self._routine
        self._scope = scope
        if routine is not None:
            self._unit, self._routine = routine.unit, routine
        try:
            yield
        finally:
            self._scope, self._unit, self._routine = before

    def _escape(self, entry: Entry) -> None:
        """Somebody unknown may call what is entered here: with anything, for anything."""
        if entry not in self._escaped:
            self._escaped.add(entry)
            if "*" in entry.slots:
                self.flow.assign(self._given, entry.slots["*"])
            self.flow.assign(entry.returned, self._taken)

    def _find_contexts(self) -> None:
        """Set each unit's context by what mentions it: `forward` wins over `init`, and `init` over `dead`.

        A class that is given to a function (`self._make_layer(Block, …)`) is constructed where whatever may be a class
        is called: in constructors, or else anywhere. What is constructed for its parameters alone is never called.
        """
        classes_anywhere = objects = False
        while True:
            self._spread_contexts(classes_anywhere, objects)
            called = [(use.unit.context, self.flow.kinds(use.value.own)) for use in self.calls if use.value is not None]
            before = classes_anywhere, objects
            classes_anywhere |= any(context == "forward" and kinds & Kind.CLASS for context, kinds in called)
            objects |= any(context != "dead" and kinds & _HAS_FORWARD for context, kinds in called)
            if before == (classes_anywhere, objects):
                return

    def _spread_contexts(self, classes_anywhere: bool, objects: bool) -> None:
        """Find the contexts.

        Args:
            classes_anywhere: a class that is mentioned may be constructed in `forward`, and not where it is mentioned.
            objects: some are called, so that the `forward` of any class may run.
        """
        waiting: list[tuple[Unit, Context]] = [(self.file, "init")]
        seen: set[tuple[Unit, Context]] = set()
        waiting += self._of_class(ENTRY_POINT, "init", True)
        waiting += [(routine.unit, "forward") for routine in self.by_name["extra_repr"]]
        expanded: set[tuple[str, Context]] = set()
        while waiting:
            unit, context = waiting.pop()
            if (unit, context) in seen:
                continue
            seen.add((unit, context))
            if unit.context != "forward":
                unit.context = context
            waiting += [(each, "forward") for each in unit.lambdas]
            for name, called in unit.mentions:
                then: Context = context if called else "forward"
                if not called and name in self.classes:
                    then = "forward" if classes_anywhere else context
                if (name, then) not in expanded:
                    expanded.add((name, then))
                    if name not in ("__init__", "forward"):
                        waiting += [(routine.unit, _at_worst(routine, then)) for routine in self.by_name.get(name, [])]
                    waiting += self._of_class(name, then, objects)

    def _of_class(self, name: str, context: Context, is_called: bool) -> list[tuple[Unit, Context]]:
        """What runs where a class is called, of the classes that it is derived from too, and, where its objects are
        called, its `forward`, which may be theirs."""
        found, seen, is_overridden = list[tuple[Unit, Context]](), set[str](), False
        while name in self.classes and name not in seen:
            seen.add(name)
            node = self.classes[name]
            own = {each.name: self.routines[each].unit for each in node.body if isinstance(each, ast.FunctionDef)}
            if "__init__" in own:
                found.append((own["__init__"], context))
            if "forward" in own and not is_overridden:
                found += [(own["forward"], "forward")] * is_called
                is_overridden = True
            name = next((base.id for base in node.bases if isinstance(base, ast.Name)), "")
        return found


def _at_worst(routine: Routine, context: Context) -> Context:
    """Where a routine that is called in this context may run: Python and libraries call some methods by themselves, as
    `{**x}` calls `keys`, and whoever calls one of a tensor's may mean it."""
    is_of_others = routine.owner is not None and routine.unit.name in vocabulary.OF_ANY_DATA
    return "forward" if is_of_others else context


def keys_of_layers(tree: ast.Module, names: Names) -> frozenset[str]:
    """Keys that the file gives to `nn.ModuleDict`s, which have them as attributes, and which no data have."""
    keys = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[ast.Dict(keys=found)]) if names.library(function) in _DICTS:
                keys |= {each.value for each in found if isinstance(each, ast.Constant) and type(each.value) is str}
            case ast.Call(func=function, args=[ast.Call(func=ast.Name(id="dict"), args=[], keywords=named)]) if (
                names.library(function) in _DICTS
            ):
                keys |= {each.arg for each in named if each.arg is not None}
    return frozenset(key for key in keys if key.isidentifier() and not _is_of_others(key))


def _is_of_others(name: str) -> bool:
    kinds = (torch.Tensor, torch.nn.ModuleDict(), torch.nn.RNN, list, dict, str)
    return name.startswith("_") or any(hasattr(kind, name) for kind in kinds)


def registered_names(node: ast.Call) -> list[str]:
    """Under which names a call may register a buffer or a parameter; none: it does not, or under others than constants
    and those with a number (`f"weight_{i}"`).

    What else that number may be, `nn.Module` registers nothing in the place of something that is there.
    """
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in ("register_buffer", "register_parameter")):
        return []
    match [*node.args, *node.keywords]:
        case [ast.keyword(arg="name", value=ast.Constant(value=str(name))), *_] | [ast.Constant(value=str(name)), *_]:
            return [name]
        case [ast.keyword(arg="name", value=text), *_] | [ast.JoinedStr() as text, *_]:
            return numbered_names(text)
    return []


def numbered_names(node: ast.expr) -> list[str]:
    """The names that begin as a text does, and end in a number: `f"weight_{i}"`; none: it is no such text."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), ast.FormattedValue(format_spec=None)]) if (
            start.isidentifier() and start.isascii() and not start.startswith("_")
        ):
            return [f"{start}{number}" for number in range(MOST_NUMBERED)]
    return []


def fields_of(node: ast.ClassDef) -> list[str]:
    """Names of a record's fields, in the order of its arguments: what has a type."""
    return [
        name for statement in node.body if isinstance(statement, ast.AnnAssign) for name in bound_in_class(statement)
    ]


def bound_in_class(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    single = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [target.id for target in single if isinstance(target, ast.Name)]


def _texts_by_name(tree: ast.Module) -> dict[str, list[ast.expr | None]]:
    """By name: all that the file binds to it; None for what is no plain assignment."""
    found: dict[str, list[ast.expr | None]] = defaultdict(list)
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    plain.add(target)
                    found[target.id].append(node.value)
        elif isinstance(node, ast.arg):
            found[node.arg].append(None)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node not in plain:
            found[node.id].append(None)
    return found
