"""Ways of rewriting a task so that it is still the same task: what decontamination has to see through.

Every way is a function from source to source, or to None where a program offers no place for it.
"""

import ast
import random
import re
from collections.abc import Callable
from pathlib import Path

import module_tasks
from kernelrl.data.decontamination.trace import trace
from kernelrl.task import Task

MODULE_FORMS = {  # functions of one tensor -> the module that calls them
    r"torch\.relu\(x\)": "nn.ReLU()",
    r"F\.relu6\(x\)": "nn.ReLU6()",
    r"F\.leaky_relu\(x, negative_slope=0.1\)": "nn.LeakyReLU(0.1)",
    r"F\.elu\(x\)": "nn.ELU()",
    r"torch\.sigmoid\(x\)": "nn.Sigmoid()",
    r"torch\.tanh\(x\)": "nn.Tanh()",
    r"F\.silu\(x\)": "nn.SiLU()",
    r"F\.gelu\(x\)": "nn.GELU()",
    r"F\.gelu\(x, approximate=['\"]tanh['\"]\)": "nn.GELU(approximate='tanh')",
    r"F\.softplus\(x\)": "nn.Softplus()",
    r"F\.hardswish\(x\)": "nn.Hardswish()",
    r"F\.softsign\(x\)": "nn.Softsign()",
    r"F\.tanhshrink\(x\)": "nn.Tanhshrink()",
    r"torch\.softmax\(x, dim=(-?\d)\)": r"nn.Softmax(dim=\1)",
    r"torch\.log_softmax\(x, dim=(-?\d)\)": r"nn.LogSoftmax(dim=\1)",
    r"F\.layer_norm\(x, \(N,\)\)": "nn.LayerNorm(N, elementwise_affine=False)",
    r"F\.rms_norm\(x, \(N,\), eps=1e-5\)": "nn.RMSNorm(N, eps=1e-5, elementwise_affine=False)",
}
BINARY_MODULE_FORMS = {r"F\.mse_loss\(x, t\)": "nn.MSELoss()", r"F\.l1_loss\(x, t\)": "nn.L1Loss()"}
METHODS = "relu sigmoid tanh abs square softmax log_softmax sum mean amax logsumexp cumsum".split()


def all_of(task: Task) -> list[Task]:
    """Every rewrite that applies, `#WAY` after its id; `everything` is one after the other."""
    rng = random.Random(task.id)
    rewritten = {name: way(task.source, rng) for name, way in WAYS.items()}
    everything = task.source
    for way in WAYS.values():
        everything = _checked(way(everything, rng)) or everything
    rewritten["everything"] = everything
    name = task.id.removeprefix("hand/")
    if name in module_tasks.PAIRS:
        rewritten["functional_form"] = module_tasks.functional_form(name)
    return [
        task.model_copy(update={"id": f"{task.id}#{way}", "source": source})
        for way, source in rewritten.items()
        if source not in (None, task.source) and _checked(source)
    ]


def test_tasks(folder: Path) -> list[Task]:
    """The tasks that the executor is tested with."""
    return [Task.from_file(path, id=f"tests/{path.stem}") for path in sorted(folder.glob("*.py"))]


def _checked(source: str | None) -> str | None:
    """None for a rewrite that no longer runs, e.g. where a size was part of the program."""
    try:
        trace(source or "")
    except Exception:
        return None
    return source


def comment(source: str, rng: random.Random) -> str:
    """Comments, a docstring and blank lines."""
    lines = []
    for line in source.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += [f"{indent}# step {rng.randrange(1000)}"] if line.strip() and rng.random() < 0.5 else []
        lines += [f"{line}  # see above" if line.strip() and "\\" not in line else line]
    text = "\n".join(lines).replace("\n\n", "\n\n\n\n")
    return f'"""A benchmark-like task, commented at length."""\n\n{text}\n'


def rename(source: str, rng: random.Random) -> str:
    """Other names for arguments, variables, constants, attributes and helper classes."""
    tree = ast.parse(source)
    keep = {"Model", "forward", "get_inputs", "get_init_inputs", "self", "super", "__init__", "SHAPE_RANGES"}
    names = {it.id for it in ast.walk(tree) if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)}
    names |= {it.arg for it in ast.walk(tree) if isinstance(it, ast.arg)}
    names |= {it.name for it in tree.body if isinstance(it, ast.ClassDef | ast.FunctionDef)}
    attributes = {it.attr for it in ast.walk(tree) if isinstance(it, ast.Attribute) and isinstance(it.ctx, ast.Store)}
    new = {name: f"renamed_{number}" for number, name in enumerate(sorted(names - keep))}
    own = {name: f"part_{number}" for number, name in enumerate(sorted(attributes))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = new.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = new.get(node.arg, node.arg)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            node.name = new.get(node.name, node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = own.get(node.attr, node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = new.get(node.value, node.value)  # names in SHAPE_RANGES
    return ast.unparse(tree)


def reshape(source: str, rng: random.Random) -> str:
    """Twice or three times the size, wherever a size stands: in the module's constants and in `get_inputs`."""
    factor, tree = rng.choice((2, 3)), ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign) or isinstance(node, ast.FunctionDef) and node.name == "get_inputs":
            for it in ast.walk(node):
                if isinstance(it, ast.Constant) and type(it.value) is int and it.value > 1:
                    it.value *= factor
    return ast.unparse(tree)


def reorder(source: str, rng: random.Random) -> str:
    """Definitions, independent neighbouring statements, and the operands of sums and products."""
    tree = ast.parse(source)
    definitions = [it for it in tree.body if isinstance(it, ast.FunctionDef | ast.ClassDef)]
    order = iter(
        [it for it in definitions if isinstance(it, ast.FunctionDef)]
        + [it for it in definitions if isinstance(it, ast.ClassDef)]
    )
    tree.body = [next(order) if it in definitions else it for it in tree.body]
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult) and not _is_sequence(node):
            node.left, node.right = node.right, node.left
        if isinstance(node, ast.FunctionDef):
            body = node.body
            for k in range(len(body) - 1):
                if _independent(body[k], body[k + 1]):
                    body[k], body[k + 1] = body[k + 1], body[k]
    return ast.unparse(tree)


def _is_sequence(node: ast.BinOp) -> bool:
    return any(isinstance(it, ast.List | ast.Tuple) for it in (node.left, node.right))


def _independent(a: ast.stmt, b: ast.stmt) -> bool:
    if not (isinstance(a, ast.Assign) and isinstance(b, ast.Assign)):
        return False
    if any(isinstance(it, ast.Attribute) and it.attr.endswith("_") for node in (a, b) for it in ast.walk(node)):
        return False
    reads, writes = zip(*((_names(it, ast.Load), _names(it, ast.Store)) for it in (a, b)), strict=True)
    return not (writes[0] & (reads[1] | writes[1]) or writes[1] & reads[0])


def _names(node: ast.AST, context: type) -> set[str]:
    return {
        ast.unparse(it)
        for it in ast.walk(node)
        if isinstance(it, ast.Name | ast.Attribute) and isinstance(it.ctx, context)
    }


def dead_code(source: str, rng: random.Random) -> str:
    """Results that nobody uses, branches that are never taken, a method and a function that nobody calls."""
    tree = ast.parse(source)
    [model] = [it for it in tree.body if isinstance(it, ast.ClassDef) and it.name == "Model"]
    [forward] = [it for it in model.body if isinstance(it, ast.FunctionDef) and it.name == "forward"]
    first = forward.args.args[1].arg
    forward.body[:0] = ast.parse(
        f"shape_note = {first}.shape\nunused_{rng.randrange(99)} = torch.zeros(3) + 1\n"
        f"if False:\n    {first} = {first} * 3"
    ).body
    model.body += ast.parse("def extra_statistics(self, value):\n    return value.mean() + value.std()").body
    tree.body += ast.parse("def helper(value):\n    return torch.exp(value) - 1").body
    return ast.unparse(tree)


def split_into_submodules(source: str, rng: random.Random) -> str | None:
    """The first half of `forward` in a module of its own, which is handed the attributes that it needs."""
    tree = ast.parse(source)
    [model] = [it for it in tree.body if isinstance(it, ast.ClassDef) and it.name == "Model"]
    [forward] = [it for it in model.body if isinstance(it, ast.FunctionDef) and it.name == "forward"]
    *steps, last = forward.body
    if not isinstance(last, ast.Return) or not all(isinstance(it, ast.Assign) for it in steps):
        return None
    if len(steps) < 2:  # a single expression: all of it
        head, tail = [*steps, last], []
    else:
        head, tail = steps[: len(steps) // 2 + 1], [*steps[len(steps) // 2 + 1 :], last]
    attributes = sorted({name for it in head for name in _names(it, ast.Load) if re.fullmatch(r"self\.\w+", name)})
    body = ast.unparse(ast.Module(head, []))
    for name in attributes:
        body = re.sub(rf"{re.escape(name)}\b", name.replace("self.", "of_parent_"), body)
    arguments = [it.arg for it in forward.args.args[1:]]
    taken = [*arguments, *(name.replace("self.", "of_parent_") for name in attributes)]
    stored = sorted({name for it in head for name in _names(it, ast.Store)})
    result = ", ".join(stored)
    lines = body.splitlines() + ([f"return ({result},)"] if tail else [])
    inner = "".join(f"        {line}\n" for line in lines)
    part = f"class FirstPart(nn.Module):\n    def forward(self, {', '.join(taken)}):\n{inner}"
    call = f"FirstPart()({', '.join([*arguments, *attributes])})"
    forward.body = (
        ast.parse(f"({result},) = {call}").body + tail if tail else ast.parse(f"return {call}", "", "exec").body
    )
    position = tree.body.index(model)
    tree.body[position:position] = ast.parse(part).body
    return ast.unparse(tree)


def to_modules(source: str, rng: random.Random) -> str | None:
    """Functions as the modules that call them, made in `__init__`."""
    made: list[str] = []

    def replace(call: str) -> Callable[[re.Match[str]], str]:
        def with_module(found: re.Match[str]) -> str:
            made.append(found.expand(call))
            return f"self.module_{len(made)}({'x, t' if call in BINARY_MODULE_FORMS.values() else 'x'})"

        return with_module

    for pattern, call in (MODULE_FORMS | BINARY_MODULE_FORMS).items():
        source = re.sub(pattern, replace(call), source)
    if not made or "def __init__" in source:
        return None
    lines = "".join(f"        self.module_{number} = {call}\n" for number, call in enumerate(made, 1))
    return source.replace(
        "    def forward", f"    def __init__(self):\n        super().__init__()\n{lines}\n    def forward", 1
    )


def to_methods(source: str, rng: random.Random) -> str:
    """`torch.relu(x)` as `x.relu()`, and the other way round."""
    names = "|".join(METHODS)
    as_methods = re.sub(rf"torch\.({names})\(x(?:, )?", r"x.\1(", source)
    return as_methods if as_methods != source else re.sub(rf"\bx\.({names})\(", r"torch.\1(x, ", source)


WAYS = {
    "comments": comment,
    "modules": to_modules,
    "methods": to_methods,
    "submodules": split_into_submodules,
    "dead_code": dead_code,
    "reorder": reorder,
    "reshape": reshape,
    "rename": rename,
}
