"""The words of the candidate's Python: modules and their names, attributes of data, built-in functions.

Each list says where a word may stand. `forward` is whatever a call of the candidate may reach, `init` what runs before:
module level, `__init__`, and functions that only these two call.
"""

from __future__ import annotations

import builtins
import ctypes
import math
from collections import OrderedDict
from functools import cache
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Literal, NamedTuple

import numpy as np
import torch

Context = Literal["init", "forward", "dead"]
"""`dead`: inside a function that nothing calls, such as a copied `get_inputs` or the reference."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DTYPES = _words(
    "float64 double float32 float float16 half bfloat16 int64 long int32 int int16 short int8 uint8 bool "
    "float8_e4m3fn float8_e5m2"
)
_ALLOCATE = _words(
    "empty empty_like empty_strided zeros zeros_like ones ones_like full full_like tensor as_tensor scalar_tensor"
)
_TYPES = _words(
    "Tensor FloatTensor HalfTensor IntTensor LongTensor BoolTensor dtype device Size Generator "
    "memory_format layout contiguous_format channels_last "
    "channels_last_3d preserve_format strided inf nan pi"
)
_QUESTIONS = _words(
    "no_grad inference_mode is_tensor is_floating_point is_complex promote_types result_type broadcast_shapes "
    "finfo iinfo numel get_default_dtype is_grad_enabled is_inference_mode_enabled"
)
_FUNCTIONS_FOR_VIEWS = _words(
    "reshape permute transpose t squeeze unsqueeze flatten narrow select split chunk unbind as_strided "
    "movedim moveaxis "
    "swapaxes diagonal ravel broadcast_to clone"
)
LAYERS = frozenset(
    name
    for name in dir(torch.nn)
    if isinstance(found := getattr(torch.nn, name), type) and issubclass(found, torch.nn.Module)
)
IDLE_LAYERS = _words("Identity Dropout Dropout1d Dropout2d Dropout3d Flatten Unflatten")
"""Those that give back a view of what they get, or what they get (a dropout that drops nothing): any code may call
them."""

FORWARD: dict[str, frozenset[str]] = {
    "torch": DTYPES | _ALLOCATE | _TYPES | _QUESTIONS | _FUNCTIONS_FOR_VIEWS,
    "torch.nn": _words("Module Parameter ParameterList Buffer"),
    "torch.cuda": _words(
        "is_available current_device device device_count get_device_properties get_device_capability get_device_name "
        "is_bf16_supported synchronize"
    ),
    "torch.utils.cpp_extension": _words("load_inline"),
    "tvm_ffi.cpp": _words("load_inline"),
    "triton": _words("jit autotune heuristics Config cdiv next_power_of_2"),
    "triton.language": _words(
        "constexpr dtype cdiv float64 float32 float16 bfloat16 float8e4nv float8e5 "
        "int64 int32 int16 int8 int1 uint64 uint32 uint16 uint8 pi32_t tensor"
    ),
    "math": frozenset(name for name in dir(math) if not name.startswith("_")),
    "typing": _words(
        "Any Callable ClassVar Collection Dict Final FrozenSet Hashable Iterable Iterator List Literal Mapping "
        "MutableMapping NoReturn Optional Sequence Set Tuple Type TypeAlias Union TYPE_CHECKING"
    ),
    "collections.abc": _words("Callable Collection Hashable Iterable Iterator Mapping MutableMapping Sequence Set"),
    "dataclasses": _words("dataclass field"),
    "collections": _words("OrderedDict"),
    "itertools": _words("product"),
    "textwrap": _words("dedent"),
    "__future__": _words("annotations"),
}
"""By module: the names that any code may use."""

PRIVATE = _words("_calculate_fan_in_and_fan_out _calculate_correct_fan")
"""Private names of `torch.nn.init` that people copy from the initialisation of `nn.Linear`."""
INIT: dict[str, frozenset[str]] = {
    "torch": _words("manual_seed from_numpy"),
    "torch.nn": LAYERS,
    "torch.nn.init": PRIVATE
    | frozenset(
        name for name, found in vars(torch.nn.init).items() if name[0] != "_" and isinstance(found, FunctionType)
    ),
}
"""By module: further names that code before the first call may call, beside `operators()`: it makes and packs
parameters and tables."""

INSTEAD = {
    "functools.partial": "write a function",
    "functools.reduce": "write a loop, or math.prod(shape)",
    "collections.namedtuple": "Sizes = namedtuple('Sizes', 'rows columns') stands at module level",
    "hashlib": "give the module a constant name: builds are kept by what they are made of",
    "torch.nn.modules.utils._pair": "write (k, k) if isinstance(k, int) else k",
    "torch.get_num_threads": "omp_get_max_threads() in C++ tells it",
    "torch.set_num_threads": "the executor sets the number of threads; leave it out",
    "os.environ": "the executor sets the number of threads and the devices; leave it out",
}
"""What to write for names that people use and the language does not have."""
_SEVERAL = "several tensors are kept in a list or an nn.ParameterList, and layers in an nn.ModuleList"
INSTEAD_OF_BUILTINS = {
    "super": "super stands in super().__init__(…), inside of __init__, and nowhere else",
    "setattr": f"setattr: write self.name = …; {_SEVERAL}",
}
"""What is said of built-in functions of Python's that the language does not have."""
NAMED_BY_CONSTANT = (
    f"a buffer or parameter is registered under a constant name, or one with a number behind it; {_SEVERAL}"
)
GETATTR_BY_CONSTANT = (
    "getattr of a name that is no constant: write x.name, getattr(lstm, f'weight_ih_l{layer}'), or what is registered "
    f"with a number behind it; {_SEVERAL}"
)

MODULES = frozenset(FORWARD) | frozenset(INIT) | _words("torch.utils torch.nn.functional tvm_ffi triton.language.extra")
"""Modules that may be imported; some of them (`torch.nn.functional`) have no name that may be used."""
PACKAGES = _words("torch triton functools")
"""Modules by which others may be named, too: `import torch.fx` binds `torch`."""
CACHES = _words("functools.lru_cache functools.cache")
"""Decorators of functions: what those return the first time, such as a compiled module, is kept."""
NAMED_TUPLE = "typing.NamedTuple"
"""What a class of the file may be derived from, and nothing else: a record that is a tuple, too."""
DEVICE_MODULES = _words(
    "triton.language.math triton.language.extra.libdevice triton.language.extra.cuda "
    "triton.language.extra.cuda.libdevice"
)
"""Modules whose functions may be used in kernels only."""
ENVIRONMENT = _words("TORCH_CUDA_ARCH_LIST CUDA_LAUNCH_BLOCKING MAX_JOBS CXX CC CUDA_HOME TORCH_EXTENSIONS_DIR")
"""Keys of `os.environ` that a candidate may set to a constant at module level; the builder, another "
"process, decides."""

# attributes

_SHAPE = _words(
    "size shape dim ndim ndimension numel nelement stride storage_offset element_size nbytes dtype device layout "
    "data_ptr is_contiguous is_cuda is_cpu is_floating_point is_complex requires_grad type names get_device itemsize "
    "values index training"
)
_VIEWS = _words(
    "view view_as reshape reshape_as expand expand_as permute transpose t T mT H mH squeeze unsqueeze flatten "
    "unflatten narrow select split chunk unbind as_strided detach movedim moveaxis swapaxes unfold diagonal ravel"
)
_COPIES = _words(
    "new_empty new_zeros new_ones new_full new_tensor new_empty_strided zero_ fill_ clone contiguous copy_ to type_as "
    "float double half bfloat16 int long short bool cpu cuda item requires_grad_ data"
)
_CONTAINERS = _words(
    "append extend insert pop get items keys values setdefault update copy clear remove reverse join replace strip "
    "lstrip rstrip split splitlines lower upper startswith endswith format zfill ljust rjust removeprefix removesuffix "
    "count find union intersection difference bit_length is_integer title isdigit"
)
WEIGHTS_BY_NUMBER = ("weight_ih_l", "weight_hh_l", "weight_hr_l", "bias_ih_l", "bias_hh_l")
"""How the names of a recurrent layer's parameters begin, before the number of the layer."""
WHICH_LAYERS = tuple(f"{layer}{direction}" for layer in range(8) for direction in ("", "_reverse"))
"""How they end: in the number, and with a word where a bidirectional layer reads from the end."""
_OF_LAYERS = _words(
    "weight bias running_mean running_var num_batches_tracked eps momentum affine track_running_stats num_features "
    "in_features out_features in_channels out_channels kernel_size stride padding padding_mode output_padding dilation "
    "groups normalized_shape elementwise_affine num_groups num_channels num_embeddings embedding_dim padding_idx "
    "hidden_size input_size num_layers batch_first bidirectional dropout negative_slope alpha beta threshold inplace p "
    "lambd min_val max_val num_parameters approximate output_size return_indices ceil_mode count_include_pad "
    "divisor_override scale_factor mode align_corners upscale_factor start_dim end_dim margin reduction ignore_index "
    "label_smoothing delta blank full log_target swap num_heads embed_dim head_dim in_proj_weight in_proj_bias "
    "q_proj_weight k_proj_weight v_proj_weight bias_k bias_v include_last_offset max_norm norm_type "
    "weight_ih weight_hh bias_ih bias_hh all_weights parameters named_parameters buffers named_buffers eval train "
    + " ".join(f"{start}{which}" for start in WEIGHTS_BY_NUMBER for which in WHICH_LAYERS)
)
PARTS = _words("out_proj self_attn multihead_attn linear1 linear2 norm norm1 norm2 norm3 layers encoder decoder")
"""Attributes of the library's layers that are layers themselves."""
_OF_DEVICES = _words("multi_processor_count total_memory major minor name")
DATA = _SHAPE | _VIEWS | _COPIES | _CONTAINERS | _OF_LAYERS | _OF_DEVICES
"""Attributes that any code may use, whatever they are taken from: none of them computes on tensors or runs a layer."""

PACKING = _words("modules children named_modules named_children apply")
"""Further attributes for code before the first call, beside `tensor_operators()`."""

EXCEPTIONS = _words(
    "Exception ValueError TypeError RuntimeError AssertionError NotImplementedError KeyError IndexError ImportError "
    "ModuleNotFoundError AttributeError ZeroDivisionError OverflowError ArithmeticError OSError"
)


class NamedTupleOfNothing(NamedTuple):
    """What all named tuples have."""


_LEADING_ON = (
    *(GeneratorType, FrameType, CodeType, TracebackType, FunctionType, ModuleType),
    *(getattr(builtins, name) for name in EXCEPTIONS),
)
FOREIGN = (
    frozenset(
        name
        for kind in (
            *(torch.Tensor, torch.UntypedStorage, np.ndarray, np.generic, memoryview, ctypes.CDLL, ctypes.c_int),
            *_LEADING_ON,
        )
        for name in dir(kind)
    )
    | _words("handle obj ctypes")
) - DATA
"""Attributes by which tensors, arrays, memory, frames and what Triton's interpreter holds compute or lead on. Where a
file gives its own objects one, it is taken from `self` alone, which is known to be such an object."""
OF_ANY_DATA = FOREIGN | frozenset(
    name
    for kind in (
        *(
            torch.nn.Module,
            torch.nn.Parameter,
            torch.Size,
            torch.dtype,
            torch.device,
            torch.Generator,
            torch.finfo,
            torch.iinfo,
        ),
        *(str, bytes, int, float, complex, bool, list, tuple, dict, OrderedDict, set, frozenset, range, slice, type),
        *(NamedTupleOfNothing, *_LEADING_ON),
    )
    for name in dir(kind)
)
"""Attributes that something which is data may have, or a module of PyTorch's."""
LAYER_LISTS = _words("modules children named_modules named_children")
OF_LAYERS_TOO = {
    "forward": "a layer of this file is called, as layer(x); what torch.nn's layers compute is your kernel's work",
    **dict.fromkeys(LAYER_LISTS, "go through an nn.ModuleList, or name the layers"),
}
"""What neither data nor a layer has in the language, with what to write."""
OF_MODULES = _words("register_buffer register_parameter apply parameters named_parameters buffers training eval train")
"""What an `nn.Module` of the candidate's has beside its own attributes and `DATA`."""
OF_TUPLES = frozenset(dir(NamedTupleOfNothing)) - frozenset(dir(tuple))
"""What a named tuple has, of which no class of a candidate's has another one."""
RESERVED = frozenset(dir(torch.nn.Module())) - _words("extra_repr training T_destination dump_patches")
"""Names of `nn.Module`'s own machinery: a candidate neither defines nor assigns them, but for the method `forward`."""
OVERRIDABLE = _words("forward __init__ extra_repr")

SAME = _words("to eval train cuda cpu half float double bfloat16 requires_grad_ apply contiguous detach clone copy")
"""Methods whose result is what they are called on, as far as the rules are concerned."""
ELEMENT = _words("get pop setdefault")
MUTATORS = _words("append extend insert update setdefault")
VIEWS_OF_CONTAINERS = _words("items values keys copy")
SEQUENCES = frozenset({"torch.nn.Sequential"})
HOLDERS = SEQUENCES | {"torch.nn.ModuleList", "torch.nn.ModuleDict", "collections.OrderedDict"}
DERIVABLE = _words(
    "Linear LayerNorm RMSNorm GroupNorm BatchNorm1d BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d "
    "ConvTranspose2d ConvTranspose3d"
)
"""Layers that a class may be derived from: besides `forward`, which it replaces, they have no method that computes."""
LISTS_OF_PARAMETERS = _words("ParameterList ParameterDict")
TABLES = _words("torch.tensor torch.as_tensor")
"""Functions that may be given addresses."""
KEYWORDS = {
    "triton.jit": (0, _words("noinline do_not_specialize do_not_specialize_on_alignment debug")),
    "triton.autotune": (2, _words("configs key reset_to_zero restore_value warmup rep cache_results")),
    "triton.heuristics": (1, _words("values")),
    "triton.Config": (5, _words("kwargs num_warps num_stages num_ctas maxnreg")),
    "dataclasses.dataclass": (0, _words("frozen eq order slots kw_only repr")),
    "dataclasses.field": (0, _words("default default_factory")),
}
"""By function: how many arguments it may be given by place, and which by name."""
NUMBERS_OF_DTYPE = _words("min max eps tiny smallest_normal bits resolution")
"""Attributes of what `torch.finfo` and `torch.iinfo` return."""

CONSTANTS: dict[str, frozenset[str]] = {
    "math": _words("pi e tau inf nan"),
    "triton.language": FORWARD["triton.language"] - _words("constexpr dtype cdiv tensor"),
}
"""By module: what a constant of the file may be, for kernels to use."""

# built-in functions, by the keyword arguments that they may be given

BUILTINS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        "len range int float bool str repr abs round divmod pow list tuple set frozenset all any isinstance slice iter "
        "next reversed sum hasattr getattr format bin hex ord chr type".split(),
        frozenset[str](),
    ),
    "dict": frozenset("*"),
    "enumerate": _words("start"),
    "zip": _words("strict"),
    "sum": _words("start"),
    "int": _words("base"),
    "print": _words("sep end flush"),
    "sorted": _words("key reverse"),
    "min": _words("key default"),
    "max": _words("key default"),
    "map": frozenset(),
    "filter": frozenset(),
}
CONTAINERS = _words("list tuple set frozenset zip enumerate reversed sorted iter dict sum")
ELEMENTS = _words("min max next")
TAKES_FUNCTION = _words("map filter")
CONSUMERS = _words(
    "list tuple set frozenset dict sum prod min max any all sorted join extend ModuleList Sequential ParameterList"
)
"""Calls that use up a generator expression before they return."""

# kernels

DEVICE: dict[str, frozenset[str]] = {
    "triton.language": _words(
        "abs arange argmax argmin associative_scan assume atomic_add atomic_and atomic_cas atomic_max "
        "atomic_min "
        "atomic_or atomic_xchg atomic_xor bfloat16 broadcast broadcast_to cast cat cdiv ceil clamp constexpr "
        "cos cumprod "
        "cumsum debug_barrier device_assert device_print div_rn dot dot_scaled erf exp exp2 expand_dims fdiv flip "
        "float16 float32 float64 float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 floor fma full gather "
        "histogram "
        "int1 int16 int32 int64 int8 interleave join load log log2 max max_constancy max_contiguous "
        "maximum min minimum multiple_of num_programs permute philox pi32_t pointer_type program_id rand "
        "rand4x randint "
        "randint4x randn randn4x range ravel reduce reshape rsqrt sigmoid sin softmax sort split sqrt sqrt_rn "
        "static_assert static_print static_range store sub sum swizzle2d topk trans uint16 uint32 uint64 uint8 "
        "umulhi unsqueeze squeeze view where xor_sum zeros zeros_like add mul make_tensor_descriptor"
    ),
    "triton.language.math": _words(
        "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi"
    ),
    "triton.language.extra.libdevice": _words(
        "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi erf erfc erfcinv erfcx "
        "erfinv exp "
        "exp10 exp2 expm1 fast_dividef fast_expf fast_logf fast_powf fdim floor fma fmod hypot isinf isnan "
        "ldexp lgamma log log10 log1p log2 nearbyint nextafter normcdf pow rcbrt remainder rhypot rint round rsqrt "
        "signbit sin sinh sinpi sqrt tan tanh tgamma trunc div_rn mul_rn add_rn sub_rn ffs popc clz llrint"
    ),
    "triton.language.PropagateNan": _words("ALL NONE"),
    "triton": _words("cdiv next_power_of_2"),
}
"""By module: the names that a kernel may use."""
for _name in ("triton.language.extra.cuda.libdevice", "triton.language.extra.cuda", "triton.language.libdevice"):
    DEVICE[_name] = DEVICE["triton.language.extra.libdevice"]
_DESCRIPTORS = "tl.make_tensor_descriptor, or pointers with masks"
INSTEAD_IN_KERNELS = {
    **{name: f"libdevice.{name}" for name in DEVICE["triton.language.extra.libdevice"]},
    "tanh": "libdevice.tanh(x), or 2 * tl.sigmoid(2 * x) - 1",
    "fast_tanhf": "libdevice.tanh",
    **dict.fromkeys(["make_block_ptr", "advance"], _DESCRIPTORS),
    **dict.fromkeys(["max", "min"], "tl.maximum and tl.minimum of two, tl.max and tl.min along an axis"),
}
"""What to write for a name that Triton's modules lack, or lack by now."""
DEVICE_ATTRIBUTES = _words(
    "shape dtype element_ty type T to reshape view trans permute value numel primitive_bitwidth broadcast_to "
    "expand_dims load store is_floating is_fp16 is_fp32 is_fp64 is_bf16 is_int "
    "abs argmax argmin cast ceil cos cumprod cumsum erf exp exp2 flip floor log log2 max min ravel rsqrt sigmoid sin "
    "softmax sort split sqrt sum xor_sum"
)
"""Attributes of what a kernel computes with: what `tl` has as functions, too, and no place in memory."""
DEVICE_BUILTINS = _words("range min max abs float int len bool")


# torch's operators, for dialect `python`, and for code before the first call

_FUNCTIONAL = "torch.nn.functional"


@cache
def operators() -> dict[str, frozenset[str]]:
    """By module: the names of `torch` that compute. Dialect `python` may use them anywhere, others in `__init__`."""
    bound = {name for name in dir(torch._C._VariableFunctions) if not name.startswith("_")}
    refused = _words("from_file set_vital read_vitals get_device frombuffer from_numpy is_vulkan_available")
    return {
        "torch": frozenset(bound | set(torch.functional.__all__)) - refused | _words("complex64 complex128"),
        "torch.nn": LAYERS,
        "torch.nn.functional": frozenset(
            name
            for name in dir(torch.nn.functional)
            if name in bound
            or hasattr(torch._C._nn, name)
            or (
                isinstance(found := getattr(torch.nn.functional, name), FunctionType)
                and found.__module__ == _FUNCTIONAL
            )
            or isinstance(found, FunctionType)
            and name.startswith(("adaptive_max", "fractional_max", "max_pool"))
        )
        - _words("handle_torch_function boolean_dispatch assert_int_or_pair")
        | _words("logsigmoid"),
        **{
            f"torch.{part}": frozenset(
                name for name in dir(getattr(torch, part)) if hasattr(getattr(torch._C, f"_{part}"), f"{part}_{name}")
            )
            for part in ("linalg", "fft", "special")
        },
    }


@cache
def modules() -> frozenset[str]:
    """All modules of which the language has names."""
    return MODULES | DEVICE_MODULES | PACKAGES | operators().keys()


@cache
def tensor_operators() -> frozenset[str]:
    """Methods of a tensor that compute. Dialect `python` may use them anywhere, others in `__init__`."""
    bound = {name for name in dir(torch._C.TensorBase) if not name.startswith("_")}
    refused = _words(
        "apply_ map_ map2_ set_ resize_ resize_as_ record_stream numpy grad grad_fn untyped_storage storage "
        "share_memory_ register_hook backward retain_grad grad_dtype output_nr volatile name"
    )
    return frozenset(bound - refused) | _words("norm split unique unique_consecutive stft istft lu unflatten")
