"""What a candidate's expressions may be, and what it uses of modules, objects and functions.

One walk over the file makes cells and edges (`flow.py`) and writes down every use: of a library's name, of an
attribute, of a call. Which uses are allowed is said in `rules.py`, once all kinds are known.

Not followed: the bodies of Triton kernels (`kernels.py`), and what is computed with numbers and tensors.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.flow import EVERYTHING, Flow, Kind, Value
from kernelrl.dialects.language.names import Comprehension, Names, Scope, all_arguments, violation
from kernelrl.dialects.language.syntax import is_plain_format
from kernelrl.dialects.language.vocabulary import Context
from kernelrl.verdict import Violation


@dataclass(eq=False)
class Unit:
    """Code that runs as one: the file, a function, a lambda. `mentions`: names that it reads, and whether it calls them."""

    name: str
    mentions: set[tuple[str, bool]] = field(default_factory=set)
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


class Meaning:
    """The walk, and what it found. Attributes are complete after construction; kinds are in `flow`.

    Attributes:
        libraries, attributes, calls: uses.
        own_attributes: names that `self` and classes have by this file.
        of_classes: those of them that a class has without an instance.
        kernels: Triton kernels by name.
        violations: what the walk itself refuses.
    """

    def __init__(self, tree: ast.Module, names: Names):
        self.flow = Flow()
        self.names = names
        self.libraries: list[Use] = []
        self.attributes: list[Use] = []
        self.calls: list[Use] = []
        self.kernels: dict[str, ast.FunctionDef] = {}
        self.violations: list[Violation] = []
        self.classes: dict[str, ast.ClassDef] = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.routines: dict[ast.AST, Routine] = {}
        self.by_name: dict[str, list[Routine]] = defaultdict(list)
        self._methods: dict[str, Entry] = defaultdict(lambda: Entry(self.flow.value()))
        self._records: dict[ast.ClassDef, Entry] = {}
        self._escaped: set[Entry] = set()
        self._variables: dict[tuple[Scope, str], Value] = {}
        self._functions: dict[tuple[Scope, str], Routine] = {}
        self._fields: dict[str, Value] = {}
        self.own_attributes: set[str] = set()
        self.of_classes: set[str] = set()
        self._given = self.flow.value(Kind.DATA | Kind.LAYER | Kind.OBJECT, Kind.DATA | Kind.LAYER | Kind.OBJECT)
        self._taken = self.flow.value()
        self._scope = names.scopes[tree]
        self._texts = _texts_by_name(tree)
        self._unit = self.file = Unit("")
        self._routine: Routine | None = None
        self._declare(tree)
        for statement in tree.body:
            self._statement(statement)
        self.flow.settle()
        self._find_contexts()

    # what the file defines

    def _declare(self, tree: ast.Module) -> None:
        owners = {
            statement: node for node in self.classes.values() for statement in node.body
            if isinstance(statement, ast.FunctionDef)
        }  # fmt: skip
        for node in self.names.scopes:
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                self._declare_routine(node, owners.get(node))
        for node in self.classes.values():
            if node.decorator_list:
                self._records[node] = self._record(node)
            for statement in node.body:
                for name in _bound_in_class(statement):
                    self.own_attributes.add(name)
                    self.of_classes.add(name)
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    self.own_attributes.add(name)
                case ast.Call(
                    func=ast.Attribute(attr="register_buffer" | "register_parameter"), args=[ast.Constant(value=str(name)), *_]
                ):
                    if name.startswith("__") or name in vocabulary.RESERVED:
                        self._refuse("patched_library", node, f"{name!r} registered; give it a name of its own")
                    self.own_attributes.add(name)
                    self._field(name)
                    self.flow.assign(self.flow.data(), self._field(name))

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

    # statements

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef():
                self._define_function(node)
            case ast.ClassDef():
                self._define_class(node)
            case ast.Return():
                if node.value is not None:
                    value = self._value(node.value)
                    if self._routine is not None:
                        self.flow.assign(value, self._routine.entry.returned)
            case ast.Assign():
                if not self._sets_environment(node):
                    self._assign(node.targets, node.value)
            case ast.AnnAssign():
                self._type(node.annotation)
                if node.value is not None:
                    self._assign([node.target], node.value)
            case ast.AugAssign():
                value = self._value(ast.BinOp(node.target, node.op, node.value, lineno=node.lineno, col_offset=0))
                self._bind(node.target, value)
            case ast.For():
                for target, value in self._loop(node.target, node.iter):
                    self._bind(target, value)
                self._body([*node.body, *node.orelse])
            case ast.While() | ast.If():
                self._value(node.test)
                self._body([*node.body, *node.orelse])
            case ast.With():
                for item in node.items:
                    value = self._value(item.context_expr)
                    self._check_with(item.context_expr)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, value)
                self._body(node.body)
            case ast.Try():
                for handler in node.handlers:
                    if handler.name:
                        self.flow.assign(self.flow.data(), self._variable(self._scope, handler.name))
                    self._body(handler.body)
                self._body([*node.body, *node.orelse, *node.finalbody])
            case ast.Raise():
                for part in (node.exc, node.cause):
                    if part is not None:
                        self._value(part)
            case ast.Assert():
                self._value(node.test)
                if node.msg is not None:
                    self._value(node.msg)
            case ast.Expr():
                self._value(node.value)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Subscript):
                        self._value(target.value)
                        self._value(target.slice)

    def _body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _check_with(self, node: ast.expr) -> None:
        name = self.names.library(node.func) if isinstance(node, ast.Call) else None
        if name not in ("torch.no_grad", "torch.inference_mode", "torch.cuda.device"):
            self._refuse("outside_language", node, f"with {ast.unparse(node)[:60]}: only torch.no_grad() and kin")

    def _sets_environment(self, node: ast.Assign) -> bool:
        """Whether a statement sets a variable that steers a compiler, which has no effect here."""
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Attribute() as place, slice=ast.Constant(value=key))],
                value=ast.Constant(value=str()),
            ):
                return self.names.library(place) == "os.environ" and key in vocabulary.ENVIRONMENT
        return False

    def _define_function(self, node: ast.FunctionDef) -> None:
        routine = self.routines[node]
        decorators = [self.names.library(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list]
        for decorator in node.decorator_list:
            self._decorate(decorator, node)
        self._define_arguments(node)
        if "triton.jit" in decorators:
            if self._scope.parent is not None:
                self._refuse("outside_language", node, f"kernel {node.name} inside of something; write it at module level")
            self.kernels[node.name] = node
            self._functions.pop((self._scope, node.name), None)
            self.flow.assign(self.flow.value(Kind.KERNEL), self._variable(self._scope, node.name))
            return
        if routine.owner is None:
            self.flow.assign(self.flow.value(Kind.FUNCTION), self._variable(self._scope, node.name))
        with self._inside(self.names.scopes[node], routine):
            self._body(node.body)

    def _decorate(self, node: ast.expr, function: ast.FunctionDef) -> None:
        name = self.names.library(node.func if isinstance(node, ast.Call) else node)
        if name in ("triton.autotune", "triton.heuristics", "torch.no_grad", "torch.inference_mode") and isinstance(node, ast.Call):
            self._value(node)
        elif name == "triton.jit":
            for keyword in node.keywords if isinstance(node, ast.Call) else []:
                self._value(keyword.value)
        elif not (isinstance(node, ast.Name) and node.id == "staticmethod" and self._scope.find("staticmethod") == []):
            evidence = f"decorator {ast.unparse(node)[:60]}; there are triton.jit, autotune, heuristics, staticmethod, "
            self._refuse("outside_language", node, evidence + "torch.no_grad()")

    def _define_arguments(self, node: ast.FunctionDef | ast.Lambda) -> None:
        routine, arguments = self.routines[node], node.args
        for argument in all_arguments(arguments):
            if argument.annotation is not None:
                self._type(argument.annotation)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            self._type(node.returns)
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults + arguments.kw_defaults
        for argument, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True):
            if default is not None:
                self.flow.assign(self._value(default), routine.arguments[argument.arg])

    def _define_class(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self._unit.mentions.add((getattr(base, "id", ""), True))
            if not self._may_derive(node, base):
                name = self.names.library(base) or ast.unparse(base)[:60]
                evidence = f"class {node.name}({name}): classes are subclasses of nn.Module; write functions"
                if name == "torch.autograd.Function":
                    evidence = f"class {node.name}({name}): nothing is trained here; make its forward a function"
                self._refuse("library_call" if name.startswith("torch.") else "outside_language", base, evidence)
        for decorator in node.decorator_list:
            name = self.names.library(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name != "dataclasses.dataclass" or any(
                not isinstance(keyword.value, ast.Constant) for keyword in getattr(decorator, "keywords", [])
            ):
                self._refuse("outside_language", decorator, f"decorator {ast.unparse(decorator)[:60]} of a class")
        if self._scope.bound[node.name] > 1:
            self._refuse("outside_language", node, f"class {node.name} is bound more than once")
        scope = self.names.scopes[node]
        with self._inside(scope):
            self._body(node.body)
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                for name in _bound_in_class(statement):
                    value = self._variable(scope, name)
                    self.flow.assign(value, self._field(name))
                    if node.decorator_list:
                        self.flow.assign(self.flow.value(), value)

    def _may_derive(self, node: ast.ClassDef, base: ast.expr) -> bool:
        """`nn.Module`, a class of this file, or a layer of the library's whose `forward` the class replaces."""
        module, _, name = (self.names.library(base) or "").rpartition(".")
        if module != "torch.nn":
            return isinstance(base, ast.Name) and base.id in self.classes
        replaces = any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body)
        return name == "Module" or (replaces and name in vocabulary.LAYERS and name not in vocabulary.NOT_DERIVED)

    # assignments

    def _assign(self, targets: list[ast.expr], node: ast.expr) -> None:
        if isinstance(node, ast.Tuple | ast.List) and all(_pairs_with(target, node) for target in targets):
            values = [self._value(element) for element in node.elts]
            for target in targets:
                for element, value in zip(target.elts, values, strict=True):  # type: ignore[attr-defined]
                    self._bind(element, value)
            return
        value = self._value(node)
        for target in targets:
            self._bind(target, value)

    def _bind(self, target: ast.expr, value: Value, walrus: bool = False) -> None:
        match target:
            case ast.Name(id=name):
                here = self._scope.binds(walrus)
                declared = here.of_file | here.of_function
                scopes = here.find(name) if name in declared else [here]
                for scope in scopes:
                    self.flow.assign(value, self._variable(scope, name))
            case ast.Attribute(attr=name):
                self.flow.assign(value, self._field(name))
                self._check_own_name(target)
            case ast.Subscript():
                container = self._value(target.value)
                self._value(target.slice)
                self.flow.put(value, container)
            case ast.Starred():
                rest = self.flow.value(Kind.DATA)
                self.flow.share(value, rest)
                self._bind(target.value, rest)
            case ast.Tuple() | ast.List():
                for element in target.elts:
                    self._bind(element, value if isinstance(element, ast.Starred) else self.flow.iterated(value))

    def _check_own_name(self, node: ast.Attribute) -> None:
        if node.attr.startswith("__"):
            self._refuse("private_attribute", node, f"self.{node.attr}: names do not begin with two underscores")

    def _loop(self, target: ast.expr, iterable: ast.expr) -> list[tuple[ast.expr, Value]]:
        """What a loop over `iterable` binds to which target; `enumerate` and `zip` keep their parts apart."""
        match iterable, target:
            case (
                ast.Call(func=ast.Name(id="enumerate"), args=[inner], keywords=[]),
                ast.Tuple(elts=[index, element]),
            ) if not self._scope.find("enumerate"):
                return [(index, self.flow.data()), *self._loop(element, inner)]
            case ast.Call(func=ast.Name(id="zip"), args=inners, keywords=[]), ast.Tuple(elts=elements) if (
                len(inners) == len(elements) and not self._scope.find("zip")
            ):
                return [part for pair in zip(elements, inners, strict=True) for part in self._loop(*pair)]
            case _:
                return [(target, self.flow.iterated(self._value(iterable)))]

    # expressions

    def _value(self, node: ast.expr) -> Value:
        """Walk an expression; what it may be."""
        flow = self.flow
        match node:
            case ast.Constant():
                return flow.value() if node.value is None else flow.data()
            case ast.Name() | ast.Attribute():
                library = self.names.library(node)
                if library is not None:
                    return self._library(node, library)
                return self._read_name(node) if isinstance(node, ast.Name) else self._read_attribute(node)[1]
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                base = self._value(node.value)
                self._value(node.slice)
                value = flow.element(base)
                flow.edge(base.own, value.own, Kind.KERNEL)
                return value
            case ast.Tuple() | ast.List() | ast.Set():
                container = flow.value(Kind.DATA)
                for element in node.elts:
                    self._put(element, container)
                return container
            case ast.Dict():
                return self._dictionary(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.BoolOp():
                return self._either(node.values)
            case ast.IfExp():
                self._value(node.test)
                return self._either([node.body, node.orelse])
            case ast.NamedExpr():
                value = self._value(node.value)
                self._bind(node.target, value, walrus=True)
                return value
            case ast.Lambda():
                return self._lambda(node)
            case ast.Starred():
                return self._value(node.value)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._value(child)
                return flow.data()

    def _put(self, element: ast.expr, container: Value) -> None:
        value = self._value(element)
        if isinstance(element, ast.Starred):
            self.flow.put(self.flow.iterated(value), container)
        else:
            self.flow.put(value, container)

    def _dictionary(self, node: ast.Dict) -> Value:
        container = self.flow.value(Kind.DATA | Kind.MAPPING)
        for key, each in zip(node.keys, node.values, strict=True):
            value = self._value(each)
            if key is None:
                self.flow.share(value, container)
            else:
                keyed = self._value(key)
                if not isinstance(key, ast.Constant) and self.names.library(key) is None:
                    self.flow.put(keyed, container)
                self.flow.put(value, container)
        return container

    def _comprehension(self, node: Comprehension) -> Value:
        is_dictionary = isinstance(node, ast.DictComp)
        container = self.flow.value(Kind.DATA | Kind.MAPPING if is_dictionary else Kind.DATA)
        bound = self._loop(node.generators[0].target, node.generators[0].iter)
        with self._inside(self.names.scopes[node]):
            for generator in node.generators:
                if generator is not node.generators[0]:
                    bound = self._loop(generator.target, generator.iter)
                for target, value in bound:
                    self._bind(target, value)
                for condition in generator.ifs:
                    self._value(condition)
            if is_dictionary:
                self.flow.put(self._value(node.key), container)
                self.flow.put(self._value(node.value), container)
            else:
                self.flow.put(self._value(node.elt), container)
        return container

    def _binary(self, node: ast.BinOp) -> Value:
        value = self.flow.data()
        if isinstance(node.op, ast.MatMult):
            self.attributes.append(Use(node, self._unit, "@", self.flow.data()))
        for side in (node.left, node.right):
            part = self._value(side)
            self.flow.edge(part.own, value.own, Kind.SEQUENCE | Kind.MAPPING)
            if isinstance(node.op, ast.Add | ast.Mult | ast.BitOr):
                self.flow.share(part, value)
        return value

    def _either(self, nodes: list[ast.expr]) -> Value:
        value = self.flow.value()
        for node in nodes:
            self.flow.assign(self._value(node), value)
        return value

    def _lambda(self, node: ast.Lambda) -> Value:
        routine = self.routines[node]
        self._escape(routine.entry)
        self._define_arguments(node)
        self._unit.lambdas.append(routine.unit)
        with self._inside(self.names.scopes[node], routine):
            self.flow.assign(self._value(node.body), routine.entry.returned)
        return self.flow.value(Kind.FUNCTION)

    def _escape(self, entry: Entry) -> None:
        """Somebody unknown may call what is entered here: with anything, for anything."""
        if entry not in self._escaped:
            self._escaped.add(entry)
            if "*" in entry.slots:
                self.flow.assign(self._given, entry.slots["*"])
            self.flow.assign(entry.returned, self._taken)

    def _read_name(self, node: ast.Name, called: bool = False, as_type: bool = False) -> Value:
        name = node.id
        scopes = self._scope.find(name)
        if not scopes:
            self._check_builtin(node, called or as_type)
            return self.flow.value(Kind.FUNCTION)
        self._unit.mentions.add((name, called or as_type))
        value = self.flow.value()
        for scope in scopes:
            if (scope, name) in self._functions and not called:
                self._escape(self._functions[scope, name].entry)
            self.flow.assign(self._variable(scope, name), value)
            if name in self.classes and scope.parent is None:
                self.flow.assign(self.flow.value(Kind.CLASS), value)
                if not called and not as_type:
                    self._escape(self._methods["__init__"])
        return value

    def _check_builtin(self, node: ast.Name, called: bool) -> None:
        name = node.id
        if name in vocabulary.EXCEPTIONS:
            return
        if name not in vocabulary.BUILTINS:
            evidence = f"{name}: nothing in this file binds it, and it is no built-in function of the language"
            self._refuse("forbidden_name", node, evidence)
        elif not called and name not in _TYPES:
            self._refuse("forbidden_name", node, f"{name} as a value: call it where you need it")

    def _read_attribute(self, node: ast.Attribute, called: bool = False) -> tuple[Value, Value]:
        """What an attribute is taken from, and what it may be."""
        base = self._value(node.value)
        self.attributes.append(Use(node, self._unit, node.attr, base, called))
        self._unit.mentions.add((node.attr, called))
        value = self.flow.value()
        self.flow.edge(base.own, value.own, Kind.NATIVE)
        if node.attr in self.own_attributes:
            self.flow.assign_if(base, Kind.OBJECT | Kind.CLASS, self._field(node.attr), value)
            if not called and node.attr in self._methods:
                self._escape(self._methods[node.attr])
        if node.attr not in self.own_attributes or node.attr in vocabulary.DATA:
            self._be_data(base, value)
        return base, value

    def _be_data(self, base: Value, value: Value) -> None:
        """`value` may be data, if `base` is something that has data."""
        plain = Kind.DATA | Kind.LAYER | Kind.SEQUENCE | Kind.OBJECT
        self.flow.edge(base.own, value.own, plain, Kind.DATA)
        self.flow.edge(base.own, value.held, plain, Kind.DATA)

    def _library(self, node: ast.expr, name: str, called: bool = False, as_type: bool = False) -> Value:
        self.libraries.append(Use(node, self._unit, name, called=called, as_type=as_type))
        return self.flow.value(Kind.DATA | Kind.FUNCTION, Kind.DATA) if not called else self.flow.data()

    def _type(self, node: ast.expr) -> None:
        """Walk an annotation, or the types that `isinstance` is given."""
        library = self.names.library(node)
        if library is not None:
            self._library(node, library, as_type=True)
        elif isinstance(node, ast.Name):
            self._read_name(node, as_type=True)
        elif isinstance(node, ast.Subscript | ast.Tuple | ast.List | ast.BinOp):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._type(child)
        elif not isinstance(node, ast.Constant):
            self._value(node)

    # calls

    def _call(self, node: ast.Call) -> Value:
        function = node.func
        if self._is_super_init(node):
            return self._pass(node, self._methods["__init__"])
        library = self.names.library(function)
        if library is not None:
            return self._call_library(node, library)
        if isinstance(function, ast.Attribute):
            return self._call_method(node, function)
        if not isinstance(function, ast.Name):
            return self._call_value(node, self._value(function))
        scopes = self._scope.find(function.id)
        if not scopes:
            return self._call_builtin(node, function)
        called = self._read_name(function, called=True)
        place = (scopes[0], function.id)
        if len(scopes) == 1 and place in self._functions:
            return self._pass(node, self._functions[place].entry)
        if len(scopes) == 1 and scopes[0].parent is None and function.id in self.classes:
            return self._construct(node, self.classes[function.id])
        return self._call_value(node, called)

    def _is_super_init(self, node: ast.Call) -> bool:
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=arguments, keywords=[]), attr="__init__"):
                names = [each.id for each in arguments if isinstance(each, ast.Name)]
                owner = self._routine.owner if self._routine else None
                return owner is not None and names in ([], [owner.name, "self"]) and len(names) == len(arguments)
        return False

    def _arguments(self, node: ast.Call) -> list[tuple[str | None, Value]]:
        """Values of a call's arguments by name, None for those by place; of starred ones what these hold, as `*`."""
        found: list[tuple[str | None, Value]] = []
        for argument in node.args:
            value = self._value(argument)
            starred = isinstance(argument, ast.Starred)
            found.append(("*", self.flow.iterated(value)) if starred else (None, value))
        for keyword in node.keywords:
            value = self._value(keyword.value)
            found.append((keyword.arg, value) if keyword.arg else ("*", self.flow.element(value)))
        return found

    def _pass(self, node: ast.Call, entry: Entry) -> Value:
        self._give(self._arguments(node), entry)
        return entry.returned

    def _give(
        self,
        arguments: list[tuple[str | None, Value]],
        entry: Entry,
        gate: Value | None = None,
        has: Kind = EVERYTHING,
    ) -> None:
        """Let arguments flow to where they arrive, if what is called turns out to be of one of these kinds."""
        by_place_is_sure = True
        for place, (name, value) in enumerate(arguments):
            by_place_is_sure &= name != "*"
            slot: int | str = name if name is not None else place if by_place_is_sure else "*"
            target = entry.slots.get(slot, entry.slots.get("*"))
            if target is None:
                continue
            if gate is None:
                self.flow.assign(value, target)
            else:
                self.flow.assign_if(gate, has, value, target)

    def _construct(self, node: ast.Call, of: ast.ClassDef) -> Value:
        self._pass(node, self._records[of] if of.decorator_list else self._methods["__init__"])
        return self.flow.value(Kind.OBJECT)

    def _record(self, node: ast.ClassDef) -> Entry:
        """Where the arguments of a dataclass arrive."""
        entry = Entry(self.flow.value(), {"*": self.flow.value()})
        names = [name for statement in node.body for name in _bound_in_class(statement)]
        for place, name in enumerate(names):
            entry.slots[place] = entry.slots[name] = self._field(name)
            self.flow.assign(entry.slots["*"], self._field(name))
        return entry

    def _call_library(self, node: ast.Call, name: str) -> Value:
        flow = self.flow
        self.libraries.append(Use(node.func, self._unit, name, called=True))
        self._check_keywords(node, name)
        arguments = self._arguments(node)
        if name.endswith(".load_inline"):
            return flow.value(Kind.NATIVE)
        if name in vocabulary.HOLDERS:
            container = flow.value(Kind.SEQUENCE if name in vocabulary.SEQUENCES else Kind.DATA)
            for key, value in arguments:
                flow.put(value, container)
                flow.edge(value.own, container.own, Kind.MAPPING)
                if key not in (None, "*"):
                    flow.assign(flow.value(Kind.MAPPING), container)
            return container
        base, _, last = name.rpartition(".")
        if base == "torch.nn" and last in vocabulary.LAYERS and last not in vocabulary.LISTS_OF_PARAMETERS:
            return flow.value(Kind.LAYER, Kind.LAYER | Kind.DATA)
        if name == "dataclasses.field":
            result = flow.value()
            for _, value in arguments:
                flow.assign(value, result)
            return result
        return flow.data()

    def _check_keywords(self, node: ast.Call, name: str) -> None:
        if name not in vocabulary.KEYWORDS:
            return
        most, allowed = vocabulary.KEYWORDS[name]
        for keyword in node.keywords:
            if keyword.arg not in allowed:
                evidence = f"{name}({keyword.arg or '**'}=…): its arguments are {', '.join(sorted(allowed))}"
                self._refuse("outside_language", node, evidence)
        if len(node.args) > most or any(isinstance(argument, ast.Starred) for argument in node.args):
            self._refuse("outside_language", node, f"{name} with more than {most} arguments by place")

    def _call_builtin(self, node: ast.Call, function: ast.Name) -> Value:
        name, flow = function.id, self.flow
        self._read_name(function, called=True)
        allowed = vocabulary.BUILTINS.get(name, frozenset())
        for keyword in node.keywords:
            if "*" not in allowed and keyword.arg not in allowed:
                self._refuse("outside_language", node, f"{name}({keyword.arg or '**'}=…) is not part of the language")
        if name == "isinstance" and len(node.args) == 2:
            self._value(node.args[0])
            self._type(node.args[1])
            return flow.data()
        if name == "hasattr" and not (len(node.args) == 2 and _is_public_text(node.args[1])):
            self._refuse("forbidden_name", node, "hasattr: its second argument is a public name in quotes")
        arguments = self._arguments(node)
        if name in vocabulary.TAKES_FUNCTION:
            self._use_function(node, name, [value for _, value in arguments[:1]])
        self._use_function(node, name, [value for key, value in arguments if key == "key"])
        result = flow.value(Kind.DATA) if name in vocabulary.CONTAINERS else flow.data()
        if name == "dict":
            flow.assign(flow.value(Kind.MAPPING), result)
        for key, value in arguments:
            if name in vocabulary.CONTAINERS and key in (None, "start"):
                flow.put(flow.iterated(value), result)
            elif name in vocabulary.CONTAINERS:
                flow.put(value, result)
            elif name in vocabulary.ELEMENTS:
                flow.assign(value, result)
                flow.assign(flow.iterated(value), result)
        return result

    def _use_function(self, node: ast.expr, by: str, functions: list[Value]) -> None:
        """A library's function calls one that it is given."""
        for value in functions:
            self.calls.append(Use(node, self._unit, f"what {by} is given", value, called=True))

    def _call_method(self, node: ast.Call, function: ast.Attribute) -> Value:
        flow, name = self.flow, function.attr
        base, called = self._read_attribute(function, called=True)
        if name == "format":
            self._check_format(node, function.value)
        mentions, self._unit.mentions = self._unit.mentions, set()
        arguments = self._arguments(node)
        given, self._unit.mentions = self._unit.mentions, mentions
        if name == "apply":  # calls what it is given here and now
            given = {(mention, True) for mention, _ in given}
            self._use_function(node, name, [value for _, value in arguments])
        mentions |= given
        result = self._result(node, called, arguments)
        if name in self._methods:
            self._give(arguments, self._methods[name], base, Kind.OBJECT | Kind.CLASS)
            flow.assign_if(base, Kind.OBJECT | Kind.CLASS, self._methods[name].returned, result)
        if name in vocabulary.ELEMENT:
            flow.assign(flow.element(base), result)
        else:
            self._be_data(base, result)
        if name in vocabulary.VIEWS_OF_CONTAINERS:
            flow.share(base, result)
            flow.edge(base.own, result.held, Kind.MAPPING, Kind.DATA)
        if name in vocabulary.SAME:
            flow.assign(base, result, Kind.DATA | Kind.MAPPING | Kind.LAYER | Kind.SEQUENCE | Kind.OBJECT)
        if name in vocabulary.LAYER_LISTS:
            anything = Kind.DATA | Kind.LAYER | Kind.SEQUENCE | Kind.OBJECT
            flow.assign(flow.value(Kind.DATA, anything), result)
        for key, value in arguments:
            if name in vocabulary.MUTATORS:
                flow.put(value, base)
            if name in vocabulary.ELEMENT and key is None:
                flow.assign(value, result)
        return result

    def _call_value(self, node: ast.Call, called: Value) -> Value:
        return self._result(node, called, self._arguments(node))

    def _result(self, node: ast.Call, called: Value, arguments: list[tuple[str | None, Value]]) -> Value:
        """What a call of some value gives, whatever this is: compiled, a kernel, an object, a class, a function."""
        flow = self.flow
        self.calls.append(Use(node, self._unit, _written(node.func), called, called=True))
        result = flow.value()
        compiled = Kind.NATIVE | Kind.KERNEL | Kind.SEQUENCE
        flow.edge(called.own, result.own, compiled, Kind.DATA)
        flow.edge(called.own, result.held, compiled, Kind.DATA)
        flow.edge(called.own, result.own, Kind.CLASS, Kind.OBJECT)
        flow.assign_if(called, Kind.FUNCTION, self._taken, result)
        for _, value in arguments:
            flow.assign_if(called, Kind.FUNCTION | Kind.CLASS, value, self._given)
        self._give(arguments, self._methods["forward"], called, Kind.OBJECT | Kind.SEQUENCE)
        flow.assign_if(called, Kind.OBJECT | Kind.SEQUENCE, self._methods["forward"].returned, result)
        return result

    def _check_format(self, node: ast.Call, text: ast.expr) -> None:
        """The fields of a format string may read attributes of what they are given: these may not."""
        texts = [text]
        if isinstance(text, ast.Name):
            texts = self._texts.get(text.id, [])
        for each in texts or [None]:
            if not (isinstance(each, ast.Constant) and isinstance(each.value, str) and is_plain_format(each.value)):
                evidence = "format of a text that is no constant, or whose fields are not plain; write an f-string"
                self._refuse("private_attribute", node, evidence)
                return

    # where code runs

    def _find_contexts(self) -> None:
        """Set each unit's context by what mentions it: `forward` wins over `init`, and `init` over `dead`."""
        waiting: list[tuple[Unit, Context]] = [(self.file, "init")]
        seen: set[tuple[Unit, Context]] = set()
        waiting += self._of_class(ENTRY_POINT, "init")
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
                if (name, then) not in expanded:
                    expanded.add((name, then))
                    if name not in ("__init__", "forward"):
                        waiting += [(routine.unit, then) for routine in self.by_name.get(name, [])]
                    waiting += self._of_class(name, then)

    def _of_class(self, name: str, context: Context) -> list[tuple[Unit, Context]]:
        if name not in self.classes:
            return []
        members = [each for each in self.classes[name].body if isinstance(each, ast.FunctionDef)]
        return [
            (self.routines[each].unit, context if each.name == "__init__" else "forward")
            for each in members
            if each.name in ("__init__", "forward")
        ]


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


_TYPES = frozenset("int float bool str list tuple dict set range".split())


def _bound_in_class(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def _pairs_with(target: ast.expr, node: ast.Tuple | ast.List) -> bool:
    """Whether the elements of a display are bound one by one."""
    return (
        isinstance(target, ast.Tuple | ast.List)
        and len(target.elts) == len(node.elts)
        and not any(isinstance(each, ast.Starred) for each in (*target.elts, *node.elts))
    )


def _is_public_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.startswith("__")


def _written(node: ast.expr) -> str:
    """The name of what is called, as far as it has one."""
    if isinstance(node, ast.Attribute):
        return f"{_written(node.value)}.{node.attr}" if isinstance(node.value, ast.Name) else f"….{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"
