"""Encoding of namespaces in snapshots: the window (or other scope) of a namespaced state or timer.

None, the only namespace of state that is not namespaced, is encoded as empty bytes; every other namespace is encoded
like a key: ints, text and tuples of them. Window operators pass their windows as plain tuples of ints.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from runtime.core.keys import decode_key, encode_key


def encode_namespace(namespace: Hashable) -> bytes:
    """Return the canonical bytes of a namespace.

    Raises:
        KeyEncodingError: it has no canonical encoding.
    """
    return b"" if namespace is None else encode_key(namespace)


def decode_namespace(encoded: bytes) -> Any:
    """Return the namespace passed to `encode_namespace`."""
    return decode_key(encoded) if encoded else None
