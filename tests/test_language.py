"""The candidate's Python is a small language: what it has, what it refuses and says, and what reading it costs."""

from __future__ import annotations

import pkgutil
import sys

import pytest

from candidate_files import EXPLOITS, HONEST, header
from kernelrl import dialects
from kernelrl.candidate import MAX_SOURCE_CHARS
from kernelrl.dialects import language
from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.syntax import MAX_DEPTH

FILE = """\
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from tvm_ffi.cpp import load_inline
{before}
mod = load_inline(name="k", cpp_sources="", functions="k")

class Own(nn.Module):
    def forward(self, x):
        return x

class ModelNew(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.own = Own()
        {init}

    def forward(self, x, y=None):
        out = torch.empty_like(x)
        mod.k(x, out)
        {body}
        return out
"""
KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl
{before}
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    {body}

class ModelNew(nn.Module):
    def forward(self, x):
        kernel[(1,)](x, x.numel(), BLOCK=16)
        return x
"""
CUDA = '''\
import os
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0"

cuda_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void add_kernel(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

torch::Tensor add_cuda(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(a);
  int n = a.numel();
  add_kernel<<<(n + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
cpp_source = "torch::Tensor add_cuda(torch::Tensor a, torch::Tensor b);"

add = load_inline(
    name="add",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["add_cuda"],
    verbose=True,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add = add

    def forward(self, a, b):
        return self.add.add_cuda(a.cuda(), b.cuda())
'''


def found(body="", init="", before="", may_compute=False):
    source = FILE.format(body=body.replace("\n", "\n        "), init=init.replace("\n", "\n        "), before=before)
    violations = language.read(source, may_compute=may_compute).violations
    return [(violation.rule, violation.evidence) for violation in violations]


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_no_honest_kernel_is_refused(path):
    assert dialects.get(header(path).get("dialect", "cpp")).find_violations(path.read_text()) == []


LEAVES_LANGUAGE = [path for path in EXPLOITS if path.stem.startswith("language_")]


@pytest.mark.parametrize("path", LEAVES_LANGUAGE, ids=lambda path: path.stem)
def test_an_exploit_that_leaves_the_language_is_refused_by_the_rules_alone(path):
    _, rule = header(path)["expect"].split()
    violations = dialects.get(header(path)["dialect"]).find_violations(path.read_text())
    assert rule in {violation.rule for violation in violations}, violations


def test_the_usual_shape_of_a_cuda_kernel_is_read():
    assert dialects.get("cuda").find_violations(CUDA) == []


@pytest.mark.parametrize(
    "body",
    [
        "shape = tuple(int(s) for s in x.shape)\na, b = (s + 1 for s in x.shape)",
        "names = [f'{k}={v:>3}' for k, v in {'a': 1}.items() if v]",
        "if y is not None and isinstance(y, (torch.Tensor, list)):\n    x = y[0]",
        "try:\n    x = x.view(-1)\nexcept (ValueError, RuntimeError) as e:\n    raise TypeError(f'{e}') from None",
        "for layer in (self.own, Own()):\n    x = layer(x)",
        "run = mod.k if x.is_contiguous() else mod.k2\nrun(x, out)",
        "table = {torch.float32: mod.k}\ntable[x.dtype](x, out)",
        "def inner(t, scale=1.0, *rest, eps=1e-5, **more):\n    return t\nx = inner(x, 2.0, eps=0.0)",
        "weight = self.linear.weight.t().contiguous()\nmod.k(weight, out)",
        "low = torch.finfo(x.dtype).min\nlimit = math.sqrt(float(x.size(0))) if (n := x.numel()) > 3 else -math.inf",
        "with torch.no_grad():\n    x = x.detach()",
        "while x.dim() < 3:\n    x = x.unsqueeze(0)\nelse:\n    del out\n    out = x.new_zeros(1)",
        "print('shape', x.shape, sep=' ', flush=True)\nassert x.ndim == 2, 'two'",
        "run = mod.k\nrun(x.data_ptr(), [out.data_ptr()], at=torch.tensor([t.data_ptr() for t in (x, out)]))",
    ],
)
def test_what_people_write(body):
    assert found(body) == []


@pytest.mark.parametrize(
    ("body", "rule", "hint"),
    [
        ("out = torch.relu(x)", "library_call", "the kernel computes"),
        ("out = F.relu(x)", "library_call", "torch.nn.functional.relu"),
        ("out = x.sum()", "library_call", "views, copies and conversions"),
        ("out = x @ x", "library_call", "the kernel multiplies"),
        ("out = self.linear(x)", "library_call", "give its weight and bias to your kernel"),
        ("out = self.linear.forward(x)", "library_call", ".forward"),
        ("out = nn.Linear(3, 3)(x)", "library_call", "allowed in __init__ alone"),
        ("out = [self.own, self.linear][1](x)", "library_call", "layer of torch.nn"),
        ("out = nn.Sequential(self.own, self.linear)(x)", "library_call", "layer of torch.nn"),
        ("out = y(x)", "outside_language", "call it by its name"),
        ("kept = [math]", "library_call", "a module stands before a dot"),
        ("out.grad_fn", "outside_language", "no attribute of the language"),
        ("self.nothing", "outside_language", "nothing in this file assigns it"),
        ("x.data = out", "patched_library", "copy_"),
        ("F.relu = None", "patched_library", "only attributes of self"),
        ("eval('1')", "forbidden_name", "no built-in function of the language"),
        ("open", "forbidden_name", "open"),
        ("f = len", "forbidden_name", "call it where you need it"),
        ("yield x", "deferred_work", "compute when forward is called"),
        ("lazy = (s for s in x.shape)", "deferred_work", "write a list"),
        ("match x:\n    case _:\n        pass", "outside_language", "write if and elif"),
        ("class Inner(nn.Module):\n    pass", "outside_language", "at module level"),
        ("x.__class__", "private_attribute", "__class__"),
        ("super().forward(x)", "forbidden_name", "inside of __init__, and nowhere else"),
        ("import ctypes\nctypes.CDLL(None)", "forbidden_import", "ctypes"),
        ("import time\ntime.time()", "forbidden_import", "the executor measures"),
        ("import functools\nfunctools.lru_cache(self.own)(x)", "library_call", "functools"),
        ("import functools\nfunctools.reduce(len, x)", "library_call", "math.prod(shape)"),
        ("import itertools\nfor f, v in itertools.product([self.linear], [x]):\n    f(v)", "library_call", "layer of"),
        ("import itertools\nmap(itertools.product, [x])", "library_call", "call it by its name"),
        ("getattr(torch, 're' + 'lu')(x)", "forbidden_name", "write x.name"),
        ("getattr(torch, 'relu')(x)", "library_call", "the kernel computes"),
        ("getattr(self, 'linear')(x)", "library_call", "layer of torch.nn"),
        ("getattr(x, '__class__')", "private_attribute", "__class__"),
        ("getattr(torch, 'nn').Linear(3, 3)(x)", "library_call", "a module stands before a dot"),
        ("getattr(self, f'weight_ih_l{0}')(x)", "outside_language", "call it by its name"),
        ("get = getattr", "forbidden_name", "call it where you need it"),
        ("out = torch.cat([x, y])", "library_call", "copy_"),
        ("self.norm.num_batches_tracked += 1", "patched_library", "give the counter to your kernel"),
        ("sorted([x], key=self.linear)", "library_call", "layer of torch.nn"),
        ("'{0.shape}'.format(x)", "private_attribute", "write an f-string"),
        ("with x:\n    pass", "outside_language", "torch.no_grad"),
        ("at = x.data_ptr()", "outside_language", "kernel(x.data_ptr())"),
        ("mod.k(x.data_ptr() // 4, out)", "outside_language", "kernel(x.data_ptr())"),
        ("print(x.data_ptr())", "outside_language", "and to nothing else"),
        ("f = lambda at: at // 4\nf(x.data_ptr())", "outside_language", "and to nothing else"),
        ("for layer in self.children():\n    x = layer(x)", "library_call", "nn.ModuleList"),
        ("try:\n    pass\nexcept BaseException:\n    pass", "outside_language", "write except Exception"),
    ],
)
def test_a_refusal_names_the_rule_and_says_what_to_write(body, rule, hint):
    assert any(rule == name and hint in evidence for name, evidence in found(body)), found(body)


def test_a_function_may_keep_what_it_returns():
    kept = "import functools\n@functools.lru_cache(maxsize={})\ndef build(k):\n    return k"
    assert found("build(mod).k(x, out)", before=kept.format("8")) == []
    assert {rule for rule, _ in found("build(self.linear)(x)", before=kept.format("None"))} == {"library_call"}
    assert {rule for rule, _ in found(before=kept.format("len([])"))} == {"outside_language"}


def test_an_attribute_may_be_read_by_getattr():
    layers = "self.lstm = nn.LSTM(3, 3)"
    assert found("mod.k(getattr(self.lstm, f'weight_ih_l{0}'), getattr(self.linear, 'bias', None))", layers) == []
    assert found("getattr(getattr(self, 'own'), 'forward')(x)") == []


@pytest.mark.parametrize(("name", "rule"), [("weight_ih_l0", "library_call"), ("weight_ih_l_x", "forbidden_name")])
def test_no_layer_hides_behind_the_name_of_a_weight(name, rule):
    init = f"self.{name} = nn.Linear(3, 3)\nself.hidden = nn.Sequential(getattr(self, f'weight_ih_l{{0}}'))"
    assert [each for each, _ in found("self.hidden(x)", init)] == [rule]


def test_a_layer_may_be_kept_for_the_parameters_of_its_parts():
    encoder = "self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1)"
    init = f"self.attention = nn.MultiheadAttention(4, 2)\n{encoder}"
    assert found("mod.k(self.attention.out_proj.weight, self.encoder.layers[0].linear1.bias)", init) == []
    for call in ("self.attention.out_proj(x)", "part = self.attention.out_proj\nout = part(x)"):
        assert found(call, init), call
    assert {rule for rule, _ in found("first = self.encoder.layers[0]\nout = first(x)", init)} == {"library_call"}


def test_layers_may_share_a_parameter():
    tie = "self.head = nn.Linear(3, 3)\nself.head.weight = {}"
    assert found(init=tie.format("self.linear.weight")) == []
    assert found(init=tie.format("nn.Parameter(torch.randn(3, 3))")) == []
    for other in ("len", "self.linear.forward", "lambda x: x", "make"):
        rules = {rule for rule, _ in found(init=tie.format(other), before="def make(x):\n    return x")}
        assert "patched_library" in rules, other
    assert found(init="self.linear.forward = self.linear.weight")
    assert found("self.linear.weight = self.linear.bias")
    assert [rule for rule, _ in found(before="torch.cuda.synchronize = 3")] == ["patched_library"]
    for other in ("nn.Linear(3, 3)", "nn.Sequential(self.linear)", "mod"):
        hidden = f"self.weight = {other}\nself.act = nn.ReLU()\nself.act.weight = self.weight"
        assert found("out = self.act.weight(x)", hidden), other
    for base in ("torch.zeros(3)", "mod", "[self.linear]"):
        assert found(init=f"self.kept = {base}\nself.kept.weight = self.linear.weight"), base


def test_an_import_that_only_dead_functions_use_is_left_over():
    before = "import time\ndef benchmark():\n    import numpy as np\n    return np.median([time.perf_counter()])\n"
    assert found(before=before) == []
    assert {rule for rule, _ in found("benchmark()", before=before)} == {"forbidden_import", "library_call"}
    assert {rule for rule, _ in found(before=before + "def late(t=time.time()):\n    return t")} >= {"forbidden_import"}


@pytest.mark.parametrize(
    "unused",
    [
        "import einops.layers",
        "import numpy.typing as npt",
        "from scipy import special",
        "from typing import cast",
        "import torch.distributed",
    ],
)
def test_any_import_may_stand_where_nothing_uses_it(unused):
    assert found(before=unused) == []


@pytest.mark.parametrize(
    ("imported", "use"),
    [
        ("import einops.layers", "einops.layers"),
        ("import scipy.special as s", "s.erf(3)"),
        ("from typing import cast", "cast(int, 3)"),
        ("import torch.distributed", "torch.distributed.barrier()"),
        ("import torch._C as c", "c"),
        ("import os.path", "os.path.join('a', 'b')"),
    ],
)
def test_what_the_language_does_not_have_is_not_used(imported, use):
    assert found(use, before=imported)


def test_what_has_no_effect_is_not_read():
    for idle in (
        "__all__ = ['ModelNew']",
        "__version__ = '1'",
        "torch.backends.cudnn.benchmark = True",
        "torch.set_num_threads(4)",
        "if __name__ == '__main__':\n    exec('')",
    ):
        assert found(before=idle) == [], idle
    for other in (
        "__all__ = [exec]",
        "__version__ = print",
        "torch.backends.cudnn.benchmark = print",
        "torch.set_num_threads(len(''))",
        "torch.cuda.synchronize = 3",
        "if __name__ == '__main__':\n    pass\nelse:\n    exec('')",
    ):
        assert found(before=other), other


FUNCTION = """\
from torch.autograd import Function

class Twice(Function):
    @staticmethod
    def forward(ctx, x, scale=2.0):
        ctx.save_for_backward(x)
        ctx.scale = scale
        out = torch.empty_like(x)
        mod.k(x, out, ctx.scale)
        {body}
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None

twice = Twice.apply
"""


def test_a_function_with_a_backward_is_a_function():
    assert found("y = twice(x); y = Twice.apply(x, 3.0)", before=FUNCTION.format(body="")) == []
    assert found("y = twice(x)", before=FUNCTION.format(body="x = torch.relu(x)")) != []
    assert found("y = twice(x)", before=FUNCTION.format(body="helper(ctx)")) != []
    assert found("y = twice(x)", before=FUNCTION.format(body="y = ctx.needs_input_grad[0]")) != []
    assert found("y = twice.__globals__", before=FUNCTION.format(body="")) != []
    more = (
        FUNCTION.format(body="")
        + "\nclass More(Function):\n    scale = 2.0\n    def forward(self, x):\n        return x"
    )
    assert found("y = twice(x)", before=more) != []


def test_an_import_that_is_tried_is_made():
    assert (
        found(before="try:\n    import scipy\n    HAS = True\nexcept ImportError:\n    scipy = None\n    HAS = False")
        == []
    )
    assert found("scipy.special.erf(3)", before="try:\n    import scipy\nexcept ImportError:\n    pass") != []
    assert found(before="try:\n    import os\n    os.system('x')\nexcept ImportError:\n    pass") != []


def test_what_tells_people_something_is_left_out():
    for told in (
        "import warnings\nwarnings.filterwarnings('ignore')",
        "import logging\nlog = logging.getLogger('x')\nlog.setLevel(3)",
        "import os\nos.environ.setdefault('MAX_JOBS', '4')",
    ):
        assert found(before=told) == [], told
    assert found("print('x', file=sys.stderr, flush=True); sys.stderr.flush()", before="import sys") == []
    assert found("print('x', file=open('y'))") != []
    assert found("log.info('x %s', x)", before="import logging\nlog = logging.getLogger('x')") == []
    assert found("y = log.info('x')", before="import logging\nlog = logging.getLogger('x')") != []
    assert found("warnings.catch_warnings()", before="import warnings") != []


def test_names_of_numpy_that_math_has_for_numbers_are_those():
    assert found("n = int(np.prod(x.shape)) + np.ceil(2.5) + np.pi", before="import numpy as np") == []
    assert found("n = np.sum(x.shape)", before="import numpy as np") != []


def test_a_static_method_may_be_called_of_its_class_and_makes_no_object():
    static = "class Sizes:\n    @staticmethod\n    def up(n):\n        return n + 1\n"
    makes = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n"
    )
    helper = "    @staticmethod\n    def up(n):\n        return n + 1\n"
    assert found("n = Sizes.up(3)", before=static) == []
    assert found("n = Net.up(3)", before=makes + helper) == []
    assert found("n = Net()", before=makes + helper) != []
    assert found("n = [Net][0]()", before=makes + helper) != []


def test_what_apply_is_given_runs_where_apply_does():
    own = "def init(m):\n    nn.init.zeros_(m.bias)\n"
    assert found(init="self.apply(init)", before=own) == []
    assert found("self.apply(init)", before=own) != []


def test_a_hint_may_be_any_plain_type_and_is_no_value():
    assert (
        found(before="def own(x: object, kind: type = int) -> dict[str, object]:\n    y: bytes = x\n    return y") == []
    )
    assert found(before="kept: object = 3") == []
    for other in ("object", "[object]", "isinstance(x, object)", "map(type, x)", "exec"):
        assert found(other), other
    assert found(before="class Sizes(typing.NamedTuple):\n    kind: object\n", body="").count(
        ("forbidden_name", "object: nothing in this file binds it, and it is no built-in function of the language")
    ) or found(before="import typing\nclass Sizes(typing.NamedTuple):\n    kind: object\n")


def test_the_type_of_something_is_told_and_not_called():
    assert found("raise TypeError(f'{type(x)} or {type(x).__name__}')") == []
    assert found("y = type(x) is int") == []
    for other in (
        "type(x)(3)",
        "type('Own', (nn.Module,), {})",
        "type(*x)",
        "t = type",
        "type(x).__subclasses__()",
        "type(x).__mro__",
        "map(type(self.linear), [3])",
        "sorted(x, key=type(x))",
        "t = type(x)",
        "raise TypeError(type(x))",
        "type(x).__name__ = 'own'",
        "(type(x) if y else y).__name__",
        "type(self).forward(self, x)",
        "type(self.linear).forward(self.linear, x)",
    ):
        assert found(other), other


def test_a_buffer_may_be_named_by_place_or_by_keyword():
    for given in ("'scale', torch.ones(3)", "name='scale', tensor=torch.ones(3)"):
        assert found("mod.k(self.scale, out)", f"self.register_buffer({given})") == [], given
    for given in ("tensor=torch.ones(3), name='scale'", "'sc' + 'ale', torch.ones(3)", "name='forward', tensor=out"):
        assert found(init=f"self.register_buffer({given})"), given


def test_a_generator_that_is_used_up_at_once_is_none_that_is_kept():
    assert found("n = math.prod(s for s in x.shape)\nsizes = []\nsizes.extend(s for s in x.shape)") == []


def test_an_attribute_of_ones_own_may_be_deleted():
    assert found(init="self.draft = nn.Linear(3, 3)\ndel self.draft") == []
    for other in ("del self._parameters", "del self.own.linear", "del nn.Module", "del torch.zeros"):
        assert found(init=other), other


def test_torchs_decorator_may_stand_without_a_call():
    assert found("inner(x)", before="@torch.no_grad\ndef inner(x):\n    return x") == []


def test_a_class_body_assigns_constants_at_once():
    shown = "class Sizes(nn.Module):\n    A, B = {}\n\n    def forward(self, x):\n        return self.A"
    assert found(before=shown.format("16, 32")) == []
    assert {rule for rule, _ in found(before=shown.format("len, torch"))} >= {"outside_language"}
    assert {rule for rule, _ in found(before=shown.replace("A, B", "parameters, B").format("1, 2"))} == {
        "patched_library"
    }


@pytest.mark.parametrize(
    "body", ["out = F.relu(self.linear(x)).sum() @ x", "out = nn.Sequential(self.linear)(x.softmax(-1))"]
)
def test_plain_pytorch_may_compute_and_is_held_to_the_same_language(body):
    assert found(body, may_compute=True) == []
    assert {rule for rule, _ in found(body)} == {"library_call"}
    for foul in ("torch.compile(self.linear)", "torch.set_num_threads(1)", "x.__class__", "open('x')", "x.apply_(len)"):
        assert found(foul, may_compute=True), foul


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("import functools, operator", "n = functools.reduce(operator.mul, x.shape, 1)"),
        ("from functools import reduce", "n = reduce(lambda a, b: a * b, x.shape)"),
        ("from itertools import chain", "names = [*chain([1, 2], (3,))]"),
        ("import itertools", "names = list(itertools.chain.from_iterable((n, n) for n in x.shape))"),
        ("from itertools import repeat", "size = tuple(repeat(3, 2))"),
        (
            "from collections import namedtuple\nSizes = namedtuple('Sizes', 'rows columns')",
            "n = Sizes(3, columns=4).rows",
        ),
        ("class Norm(nn.BatchNorm2d):\n    __constants__ = ['eps']\n    def forward(self, x):\n        return x", ""),
        ("class Conv(nn.ConvTranspose2d):\n    def forward(self, x):\n        return self.weight", ""),
    ],
)
def test_what_python_has_for_lists_and_records_has_a_plain_form(before, body):
    assert found(body, before=before) == []


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("import functools", "n = functools.reduce(max, x.shape)"),
        ("import functools, operator", "n = functools.reduce(operator.mul, x.shape, x)"),
        ("from functools import reduce", "n = reduce(lambda a, b: a * a, x.shape)"),
        ("from itertools import chain", "names = [*chain(*[x, y])]"),
        ("from itertools import chain", "for layer in chain([self.linear], []):\n    layer(x)"),
        ("from itertools import repeat", "for layer in repeat(self.linear, 2):\n    layer(x)"),
        ("from itertools import chain", "for layer in chain.from_iterable([[self.linear]]):\n    layer(x)"),
        ("from collections import namedtuple\nSizes = namedtuple('Others', 'rows')", "n = Sizes(3)"),
        ("from collections import namedtuple\nSizes = namedtuple('Sizes', '__class__')", "n = Sizes(3)"),
        ("from collections import namedtuple\nSizes = namedtuple('Sizes', 'run')", "n = Sizes(self.linear).run(x)"),
        ("class Norm(nn.BatchNorm2d):\n    pass", ""),
        ("class Conv(nn.Conv2d):\n    pass", ""),
        ("class Other(nn.Module):\n    __constants__ = [print]\n    def forward(self, x):\n        return x", ""),
    ],
)
def test_other_uses_of_the_same_functions_are_refused(before, body):
    assert found(body, before=before)


def test_a_parameter_is_registered_under_a_name_with_a_number_by_setattr_as_well():
    init = "for i in range(2):\n    setattr(self, f'w{i}', nn.Parameter(torch.ones(3)))"
    assert found("mod.k(getattr(self, f'w{1}'), out)", init=init) == []
    for foul in ("nn.Linear(3, 3)", "torch.relu", "print"):
        assert found(init=f"for i in range(2):\n    setattr(self, f'w{{i}}', {foul})"), foul
    assert found("setattr(out, 'shape', nn.Parameter(x))")


def test_parameters_are_made_and_packed_in_init():
    init = (
        "self.register_buffer('scale', self.linear.weight.square().sum(dim=0))\nself.kept = torch.cat([self.scale] * 2)"
    )
    assert found(init=init) == []
    assert {rule for rule, _ in found(body=init)} == {"library_call"}


def test_a_function_that_only_init_calls_may_pack_and_one_that_forward_calls_may_not():
    before = "def pack(t):\n    return t.mul(2.0)\n"
    assert found(init="self.kept = pack(self.linear.weight)", before=before) == []
    assert found("mod.k(pack(x), out)", before=before) == [
        ("library_call", "tensor method .mul: the kernel computes; views, copies and conversions are allowed")
    ]
    assert found(init="self.kept = [pack]", before=before) != []


BLOCK = """
class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up = nn.Linear(size, size)
"""


def test_a_class_may_be_given_to_what_constructs_it_in_init_and_not_in_forward():
    make = "def make(block, count):\n    return nn.ModuleList([block(4) for _ in range(count)])\n"
    assert found(init="self.blocks = make(Block, 2)", before=BLOCK + make) == []
    assert found(init="block = Block\nself.one = block(4)", before=BLOCK) == []
    refused = found("self.kind(4)", init="self.kind = Block", before=BLOCK)
    assert (
        "library_call",
        "torch.nn.Linear: allowed in __init__ alone; what forward computes is your kernel's work",
    ) in refused


def test_a_block_that_is_kept_for_its_parameters_may_have_the_forward_of_the_task():
    before = BLOCK + "    def forward(self, x):\n        return torch.relu(self.up(x))\n"
    init = "self.blocks = nn.ModuleList([Block(4) for _ in range(2)])"
    assert found("for block in self.blocks:\n    mod.k(x, block.up.weight)", init=init, before=before) == []
    for called in ("out = block(x)", "out = nn.Sequential(*self.blocks)(x)", "out = [block][0](x)"):
        refused = found(f"for block in self.blocks:\n    {called}", init=init, before=before)
        assert any("torch.relu" in evidence for _, evidence in refused), called


def test_what_lies_in_a_dictionary_of_layers_is_an_attribute_of_it():
    layers = "self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(4, 4), h=nn.ModuleList([nn.Linear(4, 4)])))"
    assert found("mod.k(self.mlp.c_fc.weight, self.mlp.h[0].bias)", init=layers) == []
    assert found("mod.k(self.mlp.c_fc.weight, out)", init="self.mlp = nn.ModuleDict({'c_fc': nn.Linear(4, 4)})") == []
    for foul in ("out = self.mlp.c_fc(x)", "mod.k(x.c_proj, out)", "mod.k(self.c_fc, out)"):
        assert found(foul, init=layers), foul


def test_a_key_of_layers_may_be_the_name_of_an_attribute_too():
    layers = "self.c_fc = nn.Linear(4, 4)\nself.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(4, 4)))"
    assert found("m = self.mlp\nmod.k(m.c_fc.weight, self.c_fc.bias)", init=layers) == []
    for foul in ("m = self.mlp\nout = m.c_fc(x)", "out = self.c_fc(x)", "mod.k(x.c_fc, out)"):
        assert found(foul, init=layers), foul


def test_a_method_may_be_given_a_block_and_read_its_parameters():
    before = BLOCK + "class Runner(nn.Module):\n    def run(self, x, block):\n        mod.k(x, block.up.weight)\n"
    init = "self.blocks = nn.ModuleList([Block(4) for _ in range(2)])\nself.runner = Runner()"
    loop = "for block in self.blocks:\n    self.runner.run(x, block)"
    assert found(loop, init=init, before=before) == []
    for foul in ("out = block.up(x)", "out = block.down.weight", "out = [self.runner.run][0](x, block.up)"):
        assert found(f"{loop}\n    {foul}", init=init, before=before), foul
    assert found(loop, init=f"{init}\nself.runner.run = torch.relu", before=before)


def test_what_nothing_calls_is_not_judged_for_what_it_computes():
    before = "def get_inputs():\n    return [torch.rand(3).relu()]\n"
    before += "class Model(nn.Module):\n    def forward(self, x):\n        return F.relu(x)\n"
    assert found(before=before) == []
    assert found("out = Model()(x)", before=before) != []
    assert found(before=before + "get_inputs.__globals__\n") != []


@pytest.mark.parametrize(
    ("body", "rule", "hint"),
    [
        ("x.handle", "outside_language", "write a function of tl"),
        ("x.histogram(8)", "outside_language", "tl.sum(x, axis=0)"),
        ("x_ptr.data", "outside_language", "data"),
        ("torch.relu(x)", "library_call", "kernels use tl"),
        ("tl.tensor(x, tl.float32)", "library_call", "kernels use tl"),
        ("tl.inline_asm_elementwise('', '', [x], tl.float32, True, 1)", "library_call", "inline_asm"),
        ("tl.math.tanh(x)", "library_call", "write libdevice.tanh(x), or 2 * tl.sigmoid(2 * x) - 1"),
        ("tl.pow(x, 2.0)", "library_call", "write libdevice.pow"),
        ("tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))", "library_call", "tl.make_tensor_descriptor"),
        ("HELD * 2", "forbidden_name", "nor a constant of the file"),
        ("print(x)", "forbidden_name", "print"),
        ("BLOCK(x)", "outside_language", "what is called is a kernel"),
        ("x @ x", "library_call", "tl.dot"),
        ("y = [i for i in range(3)]", "outside_language", "ListComp"),
        ("for i in x:\n        pass", "outside_language", "tl.static_range"),
    ],
)
def test_a_kernels_body_reaches_tl_and_nothing_else(body, rule, hint):
    violations = language.read(KERNEL.format(body=body, before="HELD = torch.ones(3)\n"), may_compute=False).violations
    assert any(rule == each.rule and hint in each.evidence for each in violations), violations


def test_a_kernels_body_may_use_what_triton_has():
    for name, names in vocabulary.DEVICE.items():
        if name not in ("triton.language.extra.cuda", "triton.language.libdevice"):
            at_run_time = "triton.language.extra.cuda.libdevice" if name.endswith("libdevice") else name
            module = pkgutil.resolve_name(at_run_time)
            assert [each for each in names if not hasattr(module, each)] == [], name


def test_a_kernels_body_may_use_constants_and_other_kernels():
    before = "SCALE = tl.constexpr(-2.0 / 3)\nLOG2E: float = 1.44\n"
    before += "@triton.jit\ndef half(v):\n    return v / 2, v.to(tl.float32)\n"
    body = "a, b = half(x * SCALE)\n    tl.store(x_ptr + i, tl.math.exp2(a * LOG2E) + b, mask=i < n)"
    assert language.read(KERNEL.format(body=body, before=before), may_compute=False).violations == []


NESTED = {
    "lists": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "sum": "+".join(["1"] * 5000),
    "attributes": "x" + ".data" * 3000,
    "subscripts": "x" + "[0]" * 3000,
    "signs": "-" * 3000 + "1",
}


@pytest.mark.parametrize("expression", NESTED.values(), ids=NESTED)
def test_deep_nesting_is_a_violation_and_not_an_error(expression):
    violations = language.read(f"x = 1\ny = {expression}\n", may_compute=False).violations
    assert [violation.rule for violation in violations] == ["outside_language"]
    assert "nested" in violations[0].evidence


def test_the_deepest_nesting_that_is_read_does_not_end_the_recursion():
    calls = "x" + ".data.view(-1)" * (MAX_DEPTH // 3 - 4)
    assert found(f"out = {calls}") == []


def test_a_source_that_is_too_long_is_not_read():
    (violation,) = language.read("#" * (MAX_SOURCE_CHARS + 1), may_compute=False).violations
    assert violation.rule == "source_too_long" and "characters" in violation.evidence


def calls_of_reading(source: str) -> int:
    """How many functions are called to read a source: a measure of work that does not depend on the machine's load."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(on_event)
    try:
        language.read(source, may_compute=False)
    finally:
        sys.setprofile(None)
    return count


GROWING = {
    "chain of names": lambda n: "a0 = [1]\n" + "".join(f"a{i + 1} = a{i}\n" for i in range(n)),
    "chain backwards": lambda n: "def f():\n" + "".join(f" a{n - i} = a{n - i - 1}\n" for i in range(n)),
    "methods of one name": lambda n: (
        "from torch import nn\n"
        + "".join(f"class C{i}(nn.Module):\n def f(self, x): return self.f(x)\n" for i in range(n))
    ),
    "calls of one function": lambda n: "def f(a, b, c): return a\nx = []\n" + "x = f(x, *x, c=x)\n" * n,
    "lambdas": lambda n: "x = [" + "lambda a: a(a)," * n + "]\n",
    "arguments": lambda n: "def f(" + ",".join(f"a{i}" for i in range(n)) + "): pass\nf(" + "1," * n + ")\n",
    "kernels": lambda n: "import triton\n" + "".join(f"@triton.jit\ndef k{i}(x): k{i}(x)\n" for i in range(n)),
}


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING)
def test_reading_takes_time_in_proportion_to_the_length(grow):
    language.read(grow(3), may_compute=False)  # caches
    small, large = calls_of_reading(grow(60)), calls_of_reading(grow(240))
    assert large < 4.6 * small


def test_a_text_in_another_dialect_is_told_that_it_is() -> None:
    def no_kernel(name: str, text_of: str) -> list[str]:
        found = dialects.get(name).find_violations(dialects.get(text_of).example)
        return [each.evidence for each in found if each.rule == "no_kernel"]

    assert no_kernel("cpp", "triton") == ["nothing is compiled by load_inline: the text looks like dialect=triton"]
    assert no_kernel("triton", "cpp")[0].endswith("the text looks like dialect=cpp")
    assert no_kernel("cpp", "python") == ["nothing is compiled by load_inline"]
    assert no_kernel("cpp", "cpp") == []
