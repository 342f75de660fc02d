"""Inductor's Triton as it is published (KernelBook, KernelLLM's answers), made stand-alone candidates.

There the kernels are plain `@triton.jit` functions, launched as `kernel[grid(256)](x, buf0, 256, XBLOCK=128)` by a
function `call(args)`, and the module's `forward` hands its parameters and inputs to that. A candidate may neither
import Inductor nor call a library, so the text is read as Inductor's wrapper and goes the way of all wrappers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelrl.data.construction import assemble
from kernelrl.data.teachers.inductor import triton, wrapper
from kernelrl.data.teachers.inductor.capture import Buffer, Captured, NotConvertible
from kernelrl.data.teachers.inductor.triton_library import TritonLibrary
from kernelrl.task import Task

DROPPED_CALLS = ("args.clear", "torch.cuda.set_device", "get_raw_stream")


def is_published(source: str) -> bool:
    """Whether a text has the published form."""
    return "def call(args):" in source and "@triton.jit" in source


def convert(source: str, task: Task) -> str:
    """The published text as a candidate for the task, whose constructor it gets.

    Raises:
        NotConvertible: it is of another form, or calls a library kernel that has no counterpart.
    """
    try:
        tree = ast.parse(source)
        kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
        call = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "call")
        captured, given = _read_module(tree)
        body = list(_flatten(call.body))
        _name_arguments(body.pop(0), given, captured)
        captured.buffers = dict(_buffers(body))
        statements = [_launched(node, kernels) for node in body if not _is_dropped(node)]
        made = [f"{name} = async_compile.triton({name!r})" for name in kernels]
        text = "\n".join(["def call(args):", *(f"    {ast.unparse(node)}" for node in statements)])
        captured.code = "\n".join([*made, text.replace("empty_strided_cuda", "empty_strided_cpu")])
        library = TritonLibrary()
        device = f", device={captured.inputs[0]}.device" if captured.inputs else ""
        parts = wrapper.translate(captured, _launcher, library, device)
        module = triton.stand_alone([(node, {}) for node in kernels.values()], library.functions)
        return assemble(module, task, captured.inputs, parts.statements, parts.returned)
    except (SyntaxError, ValueError, KeyError, IndexError, StopIteration, AttributeError, AssertionError) as error:
        raise NotConvertible(f"another form: {type(error).__name__}") from error


def _read_module(tree: ast.Module) -> tuple[Captured, list[str]]:
    """`forward`: its arguments, its own names, and which results it returns; and what it gives to `call`, in order."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    model = next((node for node in classes if node.name == "ModelNew"), classes[-1])
    forward = next(node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    captured = Captured(inputs=[argument.arg for argument in forward.args.args[1:]])
    given: list[str] = []
    for node in forward.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="output")], value=ast.Call(args=[ast.List(elts=elements)])):
                given = list(map(ast.unparse, elements))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                captured.arguments[name] = ast.unparse(value)
            case ast.Return(value=value) if value is not None:
                captured.returned = _as_format(value)
    return captured, given


def _as_format(returned: ast.expr) -> str:
    """`output[0], output[2]` as `({0}, {2})`."""
    if isinstance(returned, ast.Tuple):
        return f"({', '.join(map(_as_format, returned.elts))},)"
    if isinstance(returned, ast.Subscript) and ast.unparse(returned.value) == "output":
        return f"{{{ast.literal_eval(returned.slice)}}}"
    raise NotConvertible("another form: what forward returns")


def _name_arguments(unpacking: ast.stmt, given: list[str], captured: Captured) -> None:
    """What each placeholder of `call` stands for in `forward`."""
    assert isinstance(unpacking, ast.Assign) and ast.unparse(unpacking.value) == "args"
    (target,) = unpacking.targets
    placeholders = [ast.unparse(each) for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    captured.arguments = {
        placeholder: captured.arguments.get(name, name) for placeholder, name in zip(placeholders, given, strict=True)
    }


def _flatten(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements without `with torch.cuda._DeviceGuard(0):` around them."""
    for node in body:
        if isinstance(node, ast.With):
            yield from _flatten(node.body)
        else:
            yield node


def _buffers(body: list[ast.stmt]) -> Iterator[tuple[str, Buffer]]:
    """Every tensor whose size the text says; inputs, whose type it does not, are taken for float32."""
    known: dict[str, Buffer] = {}
    for node in body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id="assert_size_stride"), args=[name, size, stride, *_])):
                known.setdefault(ast.unparse(name), Buffer("float32", ast.unparse(size), ast.unparse(stride), None))
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id=made), args=[size, stride, dtype])):
                if made == "empty_strided_cuda":
                    kind = ast.unparse(dtype).removeprefix("torch.")
                    known[ast.unparse(target)] = Buffer(kind, ast.unparse(size), ast.unparse(stride), None)
            case ast.Assign(targets=[target], value=ast.Name(id=other)) if other in known:
                known[ast.unparse(target)] = known[other]
    yield from known.items()


def _is_dropped(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    return isinstance(value, ast.Call) and ast.unparse(value.func) in DROPPED_CALLS


def _launched(node: ast.stmt, kernels: dict[str, ast.FunctionDef]) -> ast.stmt:
    """`kernel[grid(256)](x, 256, XBLOCK=128)` as `kernel.run(x, 256, grid, options)`, as wrappers have it."""
    match node:
        case ast.Expr(
            value=ast.Call(func=ast.Subscript(value=ast.Name(id=name), slice=grid), args=args, keywords=options)
        ) if name in kernels:
            given = {str(option.arg): ast.literal_eval(option.value) for option in options}
            words = [*map(ast.unparse, args), repr(_grid(grid, given)), repr(given)]
            return ast.parse(f"{name}.run({', '.join(words)})").body[0]
    return node


def _grid(grid: ast.expr, options: dict[str, int]) -> tuple[int, ...]:
    """The numbers of programs: of `grid(y, x)` the last numel is that of the first axis."""
    if not (isinstance(grid, ast.Call) and ast.unparse(grid.func) == "grid"):
        found: tuple[int, ...] = ast.literal_eval(grid)
        return found if isinstance(found, tuple) else (found,)
    numels = [ast.literal_eval(numel) for numel in reversed(grid.args)]
    blocks = [options.get(f"{axis}BLOCK", 1) for axis in "XYZ"]
    return tuple(-(-numel // block) for numel, block in zip(numels, blocks, strict=False))


def _launcher(kernels: dict[str, str]) -> wrapper.Launch:
    def launch(name: str, arguments: list[ast.expr]) -> str:
        *given, grid, options = arguments
        words = [*map(ast.unparse, given), *(f"{key}={value}" for key, value in ast.literal_eval(options).items())]
        return f"{name}[{ast.unparse(grid)}]({', '.join(words)})"

    return launch
