"""A server that sends bytes as it is told, whatever they are: broken headers, single bytes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


def http_reply(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return one answer as it stands on the wire."""
    lines = [f"HTTP/1.1 {status} X", "Connection: close", f"Content-Length: {len(body)}",
             *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def raw_server(replies: Sequence[bytes], pause_s: float = 0.0, *, whole_head: bool = True
               ) -> Iterator[str]:
    """Serve each connection with the next reply, then with the last again; yield the address.

    With ``pause_s`` the bytes of a body come one by one, and those of the headers, too, unless
    ``whole_head``.
    """
    left = list(replies)
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        connection.settimeout(5)
                        connection.recv(1 << 16)
                        _send(connection, left.pop(0) if len(left) > 1 else left[0], pause_s,
                              whole_head=whole_head)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _send(connection: socket.socket, data: bytes, pause_s: float, *, whole_head: bool) -> None:
    if not pause_s:
        connection.sendall(data)
        return
    head, end, body = data.partition(b"\r\n\r\n")
    if whole_head:
        connection.sendall(head + end)
    else:
        body = data
    for number in range(len(body)):
        connection.sendall(body[number:number + 1])
        time.sleep(pause_s)
