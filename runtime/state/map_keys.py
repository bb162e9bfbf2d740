"""Map-state keys that Python cannot hash (rows, lists): kept in a dict under their canonical encoding.

Hashable keys are used directly, with Python's equality.
"""

from __future__ import annotations

from typing import Any

from runtime.core.keys import encode_key


class UnhashableKey:
    """Stands for an unhashable key in the dict of a map state; equal if the canonical encodings are."""

    __slots__ = ("encoded", "key")

    def __init__(self, key: Any) -> None:
        """Wrap `key`.

        Raises:
            KeyEncodingError: it has no canonical encoding either.
        """
        self.key = key
        self.encoded = encode_key(key)

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnhashableKey) and self.encoded == other.encoded


def dict_key(key: Any) -> Any:
    """Return the dict key for `key`: itself, or an UnhashableKey."""
    try:
        hash(key)
    except TypeError:
        return UnhashableKey(key)
    return key


def user_key(key: Any) -> Any:
    """Return the key from which `dict_key` made this one."""
    return key.key if key.__class__ is UnhashableKey else key
