"""Sealed documents: small JSON files with their kind, version and checksum. Pure; any thread.

    <kind> <version> <sha256 of version and body> <bytes of body>\n<body>

The checksum is compared before the version is read, so that a flipped digit is damage and not a newer version.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from runtime.checkpoint.errors import NewerSnapshotError, NotASnapshotError
from runtime.state.handles import DamagedSnapshotError

_MAX_HEADER = 200


def seal(kind: str, version: int, document: dict[str, Any]) -> bytes:
    """Return a JSON document as the bytes of its file."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return f"{kind} {version} {_sha256(str(version), body)} {len(body)}\n".encode() + body


def unseal(kind: str, readable: int, data: bytes, location: str) -> dict[str, Any]:
    """Return the document passed to `seal`.

    Args:
        kind: expected kind of document.
        readable: the newest version that can be read.
        data: the file's content.
        location: for error messages.

    Raises:
        NotASnapshotError: it is not a document of this kind.
        DamagedSnapshotError: it is corrupt.
        NewerSnapshotError: it was written by a newer program.
    """
    header, newline, body = data[:_MAX_HEADER].partition(b"\n")
    words = header.decode("latin-1").split(" ")
    if not newline or len(words) != 4:
        if not data.startswith(kind.encode()):
            raise NotASnapshotError(location, f"it does not begin with {kind!r}")
        raise DamagedSnapshotError(location, "its first line is damaged")
    found_kind, version, sha256, size = words
    body = data[len(header) + 1 :]
    if size != str(len(body)) or sha256 != _sha256(version, body):
        raise DamagedSnapshotError(location, "its checksum does not match its content")
    if found_kind != kind:
        raise NotASnapshotError(location, f"it is a {found_kind} document, not {kind}")
    if not version.isdecimal():
        raise DamagedSnapshotError(location, f"its version is {version!r:.50}")
    if int(version) > readable:
        raise NewerSnapshotError(location, int(version), readable)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _invalid(location, error) from error
    if not isinstance(document, dict):
        raise _invalid(location, TypeError(f"it is not a JSON object: {document!r:.50}"))
    return document


def _invalid(location: str, error: Exception) -> DamagedSnapshotError:
    return DamagedSnapshotError(location, f"its checksum is right, but its content is invalid: {error!r}")


def _sha256(version: str, body: bytes) -> str:
    return hashlib.sha256(version.encode() + b"\n" + body).hexdigest()
