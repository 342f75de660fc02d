"""Calls: where arguments go, and what comes back."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.definitions import Entry, Use, fields_of, numbered_names
from kernelrl.dialects.language.expressions import Expressions
from kernelrl.dialects.language.flow import EVERYTHING, Kind, Value
from kernelrl.dialects.language.syntax import is_plain_format


class Calls(Expressions):
    """The walk over calls."""

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
        """Whether a call in `__init__` is `super().__init__(…)` or `super(ModelNew, self).__init__(…)`."""
        routine = self._routine
        if routine is None or routine.owner is None or routine.unit.name != "__init__":
            return False
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=arguments, keywords=[]), attr="__init__"):
                names = [each.id for each in arguments if isinstance(each, ast.Name)]
                return names in ([], [routine.owner.name, "self"]) and len(names) == len(arguments)
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
        self._pass(node, self._records.get(of) or self._methods["__init__"])
        result = self.flow.value(Kind.OBJECT)
        if self._is_named_tuple(of):
            for field in fields_of(of):
                self.flow.put(self._field(field), result)
        return result

    def _call_library(self, node: ast.Call, name: str) -> Value:
        flow = self.flow
        self.libraries.append(Use(node.func, self._unit, name, called=True))
        self._check_keywords(node, name)
        arguments = self._arguments(node)
        if name.endswith(".load_inline"):
            return flow.value(Kind.NATIVE)
        if name in vocabulary.TABLES:  # of addresses, which are read in the kernel
            self._note_addresses(node, flow.value(Kind.NATIVE))
        if name in vocabulary.HOLDERS:
            container = flow.value(Kind.SEQUENCE if name in vocabulary.SEQUENCES else Kind.DATA)
            if name == "collections.OrderedDict":
                flow.assign(flow.value(Kind.MAPPING), container)
            for key, value in arguments:
                flow.put(value, container)
                flow.edge(value.own, container.own, Kind.MAPPING)
                if key not in (None, "*"):
                    flow.assign(flow.value(Kind.MAPPING), container)
            return container
        if name == "itertools.product":
            combinations = flow.value(Kind.DATA, Kind.DATA)
            for _, value in arguments:
                flow.put(flow.iterated(value), combinations)
            return combinations
        base, _, last = name.rpartition(".")
        if base == "torch.nn" and last in vocabulary.IDLE_LAYERS:
            return flow.value(Kind.FUNCTION)
        if base == "torch.nn" and last in vocabulary.LAYERS and last not in vocabulary.LISTS_OF_PARAMETERS:
            return flow.value(Kind.LAYER, Kind.LAYER | Kind.DATA)
        if name == "dataclasses.field":
            result = flow.value()
            for key, value in arguments:
                flow.assign(self._result(node, value, []) if key == "default_factory" else value, result)
            return result
        if base == "torch.nn" and last in vocabulary.LISTS_OF_PARAMETERS:
            result = flow.value(Kind.DATA)
            for _, value in arguments:
                flow.put(flow.iterated(value), result)
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
        if name == "getattr":
            return self._read_named_attribute(node)
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

    def _read_named_attribute(self, node: ast.Call) -> Value:
        """`getattr(x, "name")` is `x.name`; so is what was registered by number, and a recurrent layer's weight, which
        f"weight_ih_l{number}{end}" names."""
        match node:
            case ast.Call(args=arguments) if any(isinstance(each, ast.Starred) for each in arguments):
                self._refuse("forbidden_name", node, "getattr with * arguments: write x.name")
                return self.flow.data()
            case ast.Call(args=[of, ast.Constant(value=str(name)), *default], keywords=[]) if name.isascii():
                found = self._value(ast.Attribute(of, name, ast.Load(), lineno=node.lineno, col_offset=node.col_offset))
            case ast.Call(args=[of, ast.JoinedStr() as text, *default], keywords=[]) if names := self._names_of(text):
                base, found = self._value(of), self.flow.value()
                self._value(text)
                for name in names:
                    self.flow.assign(self._attribute_of(base, node, name), found)
            case _:
                self._refuse("forbidden_name", node, vocabulary.GETATTR_BY_CONSTANT)
                return self.flow.data()
        result = self._either(default)
        self.flow.assign(found, result)
        return result

    def _names_of(self, text: ast.JoinedStr) -> list[str]:
        """Attributes that a text with a number may name: weights of a recurrent layer, or what was registered so."""
        match text.values:
            case [ast.Constant(value=str(start)), ast.FormattedValue(), *_] if (
                start in vocabulary.WEIGHTS_BY_NUMBER and not self.has_odd_weights
            ):
                return [f"{start}{which}" for which in vocabulary.WHICH_LAYERS]
        numbered = numbered_names(text)
        return numbered if self.own_attributes.issuperset(numbered) else []

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
            named = {getattr(each, "attr", getattr(each, "id", None)) for each in node.args}
            given = {(mention, called or mention in named) for mention, called in given}
            self._use_function(node, name, [value for _, value in arguments])
        mentions |= given
        result = self._result(node, called, arguments, is_method=name in self._methods and name not in self._assigned)
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

    def _check_format(self, node: ast.Call, text: ast.expr) -> None:
        """The fields of a format string may read attributes of what they are given: these may not."""
        name = text.id if isinstance(text, ast.Name) else ""
        if not name or name not in self._plain_formats:
            texts: list[ast.expr | None] = self._texts.get(name) or [None] if name else [text]
            self._plain_formats[name] = all(isinstance(each, ast.Constant) and _is_plain(each.value) for each in texts)
        if not self._plain_formats[name]:
            evidence = "format of a text that is no constant, or whose fields are not plain; write an f-string"
            self._refuse("private_attribute", node, evidence)

    def _call_value(self, node: ast.Call, called: Value) -> Value:
        return self._result(node, called, self._arguments(node))

    def _note_addresses(self, node: ast.Call, called: Value) -> None:
        """Keep in mind what the addresses among a call's arguments are given to."""
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for function in _addresses(argument):
                self.addresses[id(function)] = called

    def _result(
        self, node: ast.Call, called: Value, arguments: list[tuple[str | None, Value]], is_method: bool = False
    ) -> Value:
        """What a call of some value gives, whatever this is: compiled, a kernel, an object, a class, a function.

        Args:
            node: the call.
            called: the value.
            arguments: see `_arguments`.
            is_method: if it is a function, then a method of the file's whose name nothing else has: its arguments go
                there alone.
        """
        flow = self.flow
        self.calls.append(Use(node, self._unit, _written(node.func), called, called=True))
        self._note_addresses(node, called)
        result = flow.value()
        compiled = Kind.NATIVE | Kind.KERNEL | Kind.SEQUENCE
        flow.edge(called.own, result.own, compiled, Kind.DATA)
        flow.edge(called.own, result.held, compiled, Kind.DATA)
        flow.edge(called.own, result.own, Kind.CLASS, Kind.OBJECT)
        if not is_method:
            flow.assign_if(called, Kind.FUNCTION, self._taken, result)
        for _, value in arguments:
            flow.assign_if(called, Kind.CLASS if is_method else Kind.FUNCTION | Kind.CLASS, value, self._given)
        self._give(arguments, self._methods["forward"], called, Kind.OBJECT | Kind.SEQUENCE)
        flow.assign_if(called, Kind.OBJECT | Kind.SEQUENCE, self._methods["forward"].returned, result)
        return result


def _addresses(node: ast.expr) -> Iterator[ast.Attribute]:
    """Where an argument is an address (`x.data_ptr()`), or a list of them."""
    match node:
        case ast.Call(func=ast.Attribute(attr="data_ptr") as function, args=[], keywords=[]):
            yield function
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _addresses(element)
        case ast.ListComp(elt=element):
            yield from _addresses(element)


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and is_plain_format(value)


def _is_public_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.startswith("__")


def _written(node: ast.expr) -> str:
    """The name of what is called, as far as it has one."""
    if isinstance(node, ast.Attribute):
        return f"{_written(node.value)}.{node.attr}" if isinstance(node.value, ast.Name) else f"….{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"
