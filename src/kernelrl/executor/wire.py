"""Messages between the executor's processes: length-prefixed JSON over Unix sockets.

JSON, never pickle: one end may be hostile.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MOST_UNREAD_BYTES = 64 * 1024
"""What fits into a socket whose other end does not read."""
_HEADER = struct.Struct("!I")


class WireError(Exception):
    """The peer closed the connection or sent something that is not a message."""


def encode(message: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    body = json.dumps(message).encode()
    return _HEADER.pack(len(body)) + body


def send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message, with file descriptors if any."""
    send_encoded(sock, encode(message), fds)


def send_encoded(sock: socket.socket, data: bytes, fds: tuple[int, ...] = ()) -> None:
    """The same of what `encode` has given."""
    sent = socket.send_fds(sock, [data], list(fds)) if fds else 0
    sock.sendall(data[sent:])


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
        message = json.loads(text)
        if "\\ud" in text.lower():
            message = _whole(message)
    except (ValueError, RecursionError):
        raise WireError("message is not JSON") from None
    if not isinstance(message, dict):
        raise WireError("message is not an object")
    return message, fds


def _whole(message: Any) -> Any:
    """The same with U+FFFD in place of every half of a character, which can neither be stored nor sent on."""
    if isinstance(message, str):
        return message.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(message, list):
        return [_whole(item) for item in message]
    if isinstance(message, dict):
        return {_whole(key): _whole(value) for key, value in message.items()}
    return message


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
