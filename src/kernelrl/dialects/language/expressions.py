"""Expressions, and the targets that they are assigned to: what each may be, and what it uses."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.definitions import Definitions, Use
from kernelrl.dialects.language.flow import Kind, Value
from kernelrl.dialects.language.names import Comprehension, all_arguments, is_parameter_of_layer


class Expressions(Definitions, ABC):
    """The walk over expressions."""

    @abstractmethod
    def _call(self, node: ast.Call) -> Value: ...

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
        container = self.flow.value(Kind.DATA)
        bound = self._loop(node.generators[0].target, node.generators[0].iter)
        with self._inside(self.names.scopes[node]):
            for generator in node.generators:
                if generator is not node.generators[0]:
                    bound = self._loop(generator.target, generator.iter)
                for target, value in bound:
                    self._bind(target, value)
                for condition in generator.ifs:
                    self._value(condition)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for part in parts:
                self.flow.put(self._value(part), container)
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

    def _define_arguments(self, node: ast.FunctionDef | ast.Lambda) -> None:
        routine, arguments = self.routines[node], node.args
        for argument in all_arguments(arguments):
            if argument.annotation is not None:
                self._type(argument.annotation, is_hint=True)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            self._type(node.returns, is_hint=True)
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults + arguments.kw_defaults
        for argument, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True):
            if default is not None:
                self.flow.assign(self._value(default), routine.arguments[argument.arg])

    def _read_name(self, node: ast.Name, called: bool = False, as_type: bool = False, as_owner: bool = False) -> Value:
        """What a name may be.

        Args:
            node: the name.
            called: it is called.
            as_type: it says of what type something is.
            as_owner: of a class, what its attribute is taken from: that makes no object.
        """
        name = node.id
        scopes = self._scope.find(name)
        if not scopes:
            self._check_builtin(node, called or as_type)
            return self.flow.value(Kind.FUNCTION)
        if self._scope.may_be_builtin(name):
            self._refuse("forbidden_name", node, f"{name} is a built-in function of Python; give yours another name")
        if not as_owner:
            self._unit.mentions.add((name, called or as_type))
        value = self.flow.value()
        for scope in scopes:
            if (scope, name) in self._functions and not called:
                self._escape(self._functions[scope, name].entry)
            self.flow.assign(self._variable(scope, name), value)
            if name in self._methods and isinstance(scope.node, ast.ClassDef):
                self._escape(self._methods[name])
            if name in self.classes and scope.parent is None:
                self.flow.assign(self.flow.value(Kind.CLASS), value)
                if not called and not as_type and not as_owner:
                    self._escape(self._methods["__init__"])
        return value

    def _check_builtin(self, node: ast.Name, called: bool) -> None:
        name = node.id
        if name in vocabulary.EXCEPTIONS:
            return
        if name not in vocabulary.BUILTINS:
            nothing = f"{name}: nothing in this file binds it, and it is no built-in function of the language"
            self._refuse("forbidden_name", node, vocabulary.INSTEAD_OF_BUILTINS.get(name, nothing))
        elif not called and name not in _TYPES:
            self._refuse("forbidden_name", node, f"{name} as a value: call it where you need it")

    def _read_attribute(self, node: ast.Attribute, called: bool = False) -> tuple[Value, Value]:
        """What an attribute is taken from, and what it may be."""
        of = node.value
        if isinstance(of, ast.Name) and of.id in self.classes and self._scope.find(of.id) == [self._scope.file()]:
            base = self._read_name(of, as_owner=True)
        else:
            base = self._value(of)
        return base, self._attribute_of(base, node, node.attr, called)

    def _attribute_of(self, base: Value, node: ast.expr, name: str, called: bool = False) -> Value:
        self.attributes.append(Use(node, self._unit, name, base, called))
        self._unit.mentions.add((name, called))
        value = self.flow.value()
        self.flow.edge(base.own, value.own, Kind.NATIVE)
        if name in self.own_attributes:
            self.flow.assign_if(base, Kind.OBJECT | Kind.CLASS, self._field(name), value)
            if not called and name in self._methods:
                self._escape(self._methods[name])
        if name in self.keys_of_layers:
            self.flow.assign_if(base, Kind.MAPPING, self.flow.element(base), value)
        if name in vocabulary.PARTS:
            self.flow.edge(base.own, value.own, Kind.LAYER)
            self.flow.edge(base.own, value.held, Kind.LAYER)
        elif name not in self.own_attributes or name in vocabulary.DATA:
            self._be_data(base, value)
        return value

    def _be_data(self, base: Value, value: Value) -> None:
        """`value` may be data, if `base` is something that has data."""
        plain = Kind.DATA | Kind.LAYER | Kind.SEQUENCE | Kind.OBJECT
        self.flow.edge(base.own, value.own, plain, Kind.DATA)
        self.flow.edge(base.own, value.held, plain, Kind.DATA)

    def _library(self, node: ast.expr, name: str, called: bool = False, as_type: bool = False) -> Value:
        self.libraries.append(Use(node, self._unit, name, called=called, as_type=as_type))
        return self.flow.value(Kind.DATA | Kind.FUNCTION, Kind.DATA) if not called else self.flow.data()

    def _type(self, node: ast.expr, is_hint: bool = False) -> None:
        """Walk an annotation, or the types that `isinstance` is given.

        Args:
            node: the type.
            is_hint: an annotation that nothing reads: where the text runs it is left out.
        """
        library = self.names.library(node)
        if library is not None:
            self._library(node, library, as_type=True)
        elif isinstance(node, ast.Name):
            if not (is_hint and node.id in _IN_HINTS and not self._scope.find(node.id)):
                self._read_name(node, as_type=True)
        elif isinstance(node, ast.Subscript | ast.Tuple | ast.List | ast.BinOp):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._type(child, is_hint)
        elif not isinstance(node, ast.Constant):
            self._value(node)

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
                if is_parameter_of_layer(target):
                    self.ties.append((Use(target, self._unit, name, self._value(target.value)), value))
                self.flow.assign(value, self._field(name))
                self._check_own_name(target)
            case ast.Subscript():
                container, key = self._value(target.value), self._value(target.slice)
                if not isinstance(target.slice, ast.Constant | ast.Slice):
                    self.flow.put(key, container)
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
            case ast.Call(func=ast.Name(id="zip"), args=inners, keywords=[]), ast.Tuple(elts=elements) if len(
                inners
            ) == len(elements) and not self._scope.find("zip"):
                return [part for pair in zip(elements, inners, strict=True) for part in self._loop(*pair)]
            case _:
                return [(target, self.flow.iterated(self._value(iterable)))]


_IN_HINTS = frozenset("object type bytes complex".split())
_TYPES = frozenset("int float bool str list tuple dict set range".split())


def _pairs_with(target: ast.expr, node: ast.Tuple | ast.List) -> bool:
    """Whether the elements of a display are bound one by one."""
    return (
        isinstance(target, ast.Tuple | ast.List)
        and len(target.elts) == len(node.elts)
        and not any(isinstance(each, ast.Starred) for each in (*target.elts, *node.elts))
    )
