"""Messages between the executor's processes: length-prefixed JSON over Unix sockets, and trees of tensors.

JSON, never pickle: one end may be hostile. A tree is what `forward` takes or returns: tensors, numbers, strings, None
and lists, tuples and dicts of them. Tensors travel beside the tree, as specifications of memory.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import torch

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_VALUES = 4096
"""Tensors, numbers and other leaves of one tree."""
LONG_CHARS = 10_000
"""A text that, with every character escaped, fits into a socket's buffer beside the rest of a message."""
_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half a character: it can neither be stored nor sent on."""
_HEADER = struct.Struct("!I")


class WireError(Exception):
    """The peer closed the connection or sent something that is not a message."""


def send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message, with file descriptors if any."""
    body = json.dumps(message).encode()
    data = _HEADER.pack(len(body)) + body
    sent = socket.send_fds(sock, [data], list(fds)) if fds else 0
    sock.sendall(data[sent:])


def is_long(message: dict[str, Any]) -> bool:
    """Whether a message may be too long for a socket whose other end does not read."""
    return any(isinstance(value, str) and len(value) > LONG_CHARS for value in message.values())


def receive(
    sock: socket.socket,
    max_fds: int = 0,
    wait: Callable[[], None] | None = None,
    max_bytes: int = MAX_MESSAGE_BYTES,
) -> tuple[dict[str, Any], list[int]]:
    """Receive one message and its file descriptors.

    Args:
        sock: where it comes from.
        max_fds: descriptors that may come along.
        wait: called before each read; returns when there is something to read, or raises. None: wait for ever.
        max_bytes: length of the longest message that is taken.

    Raises:
        WireError: the peer is gone, or what it sent is not a JSON object of at most `max_bytes`.
    """
    fds: list[int] = []
    if max_fds:
        if wait is not None:
            wait()
        data, fds, _, _ = socket.recv_fds(sock, _HEADER.size, max_fds)
        if not data:
            raise WireError("connection closed")
        data += _receive_exactly(sock, _HEADER.size - len(data), wait)
    else:
        data = _receive_exactly(sock, _HEADER.size, wait)
    (length,) = _HEADER.unpack(data)
    if length > max_bytes:
        raise WireError(f"message of {length} bytes is too long")
    try:
        text = _receive_exactly(sock, length, wait).decode()
        message = json.loads(_SURROGATE.sub("\\\\ufffd", text) if "\\ud" in text.lower() else text)
    except (ValueError, RecursionError):
        raise WireError("message is not JSON") from None
    if not isinstance(message, dict):
        raise WireError("message is not an object")
    return message, fds


def _receive_exactly(sock: socket.socket, length: int, wait: Callable[[], None] | None) -> bytes:
    chunks = []
    while length:
        if wait is not None:
            wait()
        try:
            chunk = sock.recv(min(length, 1 << 20))
        except ConnectionError:
            chunk = b""
        if not chunk:
            raise WireError("connection closed")
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def flatten(tree: Any, tensors: list[torch.Tensor], numbers: torch.dtype | None = None) -> Any:
    """JSON form of a tree; its tensors are appended to `tensors` and stand in the form as `{"tensor": index}`.

    Args:
        tree: of lists, tuples and dictionaries.
        tensors: see above.
        numbers: numbers become tensors as well, floating-point ones of this dtype, and stand as `{"number": index}`.

    Raises:
        TypeError: names the type that cannot travel, or says that there are more than `MAX_VALUES` values.
    """
    return _flatten(tree, tensors, numbers, itertools.count(1))


def _flatten(tree: Any, tensors: list[torch.Tensor], numbers: torch.dtype | None, count: Iterator[int]) -> Any:
    if next(count) > MAX_VALUES:
        raise TypeError(f"more than {MAX_VALUES} values cannot be passed to or from a kernel")
    if isinstance(tree, torch.Tensor):
        tensors.append(tree)
        return {"tensor": len(tensors) - 1}
    if numbers is not None and (type(tree) in (bool, float) or (type(tree) is int and abs(tree) < 2**63)):
        tensors.append(torch.tensor(tree, dtype=numbers if type(tree) is float else None))
        return {"number": len(tensors) - 1}
    if tree is None or type(tree) in (bool, int, str):
        return tree
    if type(tree) is float:
        return {"float": tree.hex()}
    if isinstance(tree, list):  # of the base class, like the others: a subclass could compute when it is read
        return {"list": [_flatten(item, tensors, numbers, count) for item in list.__iter__(tree)]}
    if isinstance(tree, tuple):
        return {"tuple": [_flatten(item, tensors, numbers, count) for item in tuple.__iter__(tree)]}
    if isinstance(tree, dict):
        pairs = dict.items(tree)
        return {
            "dict": [
                [_flatten(key, tensors, None, count), _flatten(value, tensors, numbers, count)] for key, value in pairs
            ]
        }
    if isinstance(tree, torch.dtype | torch.device):
        return {type(tree).__name__: str(tree)}
    raise TypeError(f"values of type {type(tree).__name__} cannot be passed to a kernel")


def unflatten(form: Any, tensors: list[torch.Tensor]) -> Any:
    """The tree of a form made by `flatten`."""
    if not isinstance(form, dict):
        return form
    ((kind, value),) = form.items()
    match kind:
        case "tensor":
            return tensors[value]
        case "float":
            return float.fromhex(value)
        case "list":
            return [unflatten(item, tensors) for item in value]
        case "tuple":
            return tuple(unflatten(item, tensors) for item in value)
        case "dict":
            return {unflatten(key, tensors): unflatten(item, tensors) for key, item in value}
        case "dtype":
            return DTYPES[value]
        case "device":
            return torch.device(value)
    raise WireError(f"unknown form {kind!r}")


def map_tensors(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same tree with each tensor replaced."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, tuple | list):
        return type(tree)(map_tensors(item, function) for item in tree)
    if isinstance(tree, dict):
        return {key: map_tensors(item, function) for key, item in tree.items()}
    return tree


DTYPES: dict[str, torch.dtype] = {
    str(dtype): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


def normalised(form: Any) -> Any:
    """A tree's form in which a list and a tuple are the same."""
    if isinstance(form, dict):
        return {"tuple" if key == "list" else key: normalised(value) for key, value in form.items()}
    if isinstance(form, list):
        return [normalised(item) for item in form]
    return form


def span_bytes(shape: list[int], stride: list[int], itemsize: int) -> int:
    """Bytes from a tensor's first element to the end of its last, for non-negative strides; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return (sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1) * itemsize


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Where a tensor's memory is and how it is to be read. Of a subclass, which could lie or compute, only the name."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        name = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        return {"type": name, "dtype": None, "shape": [], "stride": None, "device": None, "layout": None, "pointer": 0}
    return {
        "dtype": str(tensor.dtype),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()) if tensor.layout == torch.strided else None,
        "device": tensor.device.type,
        "layout": str(tensor.layout),
        "pointer": tensor.data_ptr() if tensor.layout == torch.strided else 0,
        "type": type(tensor).__name__,
    }
