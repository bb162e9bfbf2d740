"""A small reverse proxy as a process of its own: hands requests below a path on, and answers the others itself.

`python -m tests.support.reverse_proxy PORT TARGET_PORT /base keep|strip`. Connections are closed after one request,
unless they are upgraded. The application at its root sets cookies with the names that Tidemark's have at the root.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from backend.supervisor.checks import free_port
from tests.support.waiting import wait_until

HEAD_END: Final = b"\r\n\r\n"
#: what stands at the root of the proxy
NEIGHBOUR: Final = (
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n"
    b"Set-Cookie: tidemark-session=neighbour; Path=/\r\nSet-Cookie: csrftoken=neighbour; Path=/\r\n\r\nneighbour"
)


def head_for_target(head: bytes, base_path: str, is_stripped: bool) -> bytes | None:
    """Return a request's head as the target gets it; None: its path is not below the base path."""
    line, *fields = head.removesuffix(HEAD_END).split(b"\r\n")
    method, path, version = line.split(b" ", 2)
    base = base_path.encode()
    if path.split(b"?")[0] != base and not path.startswith(base + b"/"):
        return None
    if is_stripped:
        path = path.removeprefix(base)
        path = path if path.startswith(b"/") else b"/" + path
    if not any(field.lower().startswith(b"upgrade:") for field in fields):
        fields = [field for field in fields if not field.lower().startswith(b"connection:")]
        fields.append(b"Connection: close")
    return b"\r\n".join([b" ".join((method, path, version)), *fields]) + HEAD_END


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, base_path: str, is_stripped: bool
) -> None:
    opened = [writer]
    try:
        head = head_for_target(await reader.readuntil(HEAD_END), base_path, is_stripped)
        if head is None:
            writer.write(NEIGHBOUR)
            await writer.drain()
            return
        from_target, to_target = await asyncio.open_connection("127.0.0.1", target)
        opened.append(to_target)
        to_target.write(head)
        sending = asyncio.create_task(_copy(reader, to_target))
        await _copy(from_target, writer)
        sending.cancel()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        for each in opened:
            each.close()


async def _run(port: int, target: int, base_path: str, is_stripped: bool) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: _serve(reader, writer, target, base_path, is_stripped), "127.0.0.1", port
    )
    async with server:
        await server.serve_forever()


@contextmanager
def reverse_proxy(target: int, base_path: str, *, is_stripped: bool) -> Iterator[int]:
    """Run the proxy before a port of this machine; gives its own port."""
    port = free_port()
    way = "strip" if is_stripped else "keep"
    command = (sys.executable, "-m", "tests.support.reverse_proxy", str(port), str(target), base_path, way)
    with subprocess.Popen(command) as process:
        try:
            wait_until(lambda: _answers(port), 30, "the proxy answers")
            yield port
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "strip"))
