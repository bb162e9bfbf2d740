"""The names of key types, which keep a job from taking over state of other keys. Pure.

Keys are stored in an encoding of their own, whatever their type; but state that was saved by text is never found again
by numbers. Source: Flink, StateSerializerProvider, which compares the serializers of keys.
"""

from __future__ import annotations

from typing import Any, Final

from runtime.common.typeinfo import TypeInformation, parse_type

UNDECLARED: Final = "any"
"""Type of keys that the program has not declared."""


def key_type_of(selector: Any) -> str:
    """Return the name of the type that a key selector declares for its keys."""
    declared = getattr(selector, "key_type", None)
    # users' own selectors may have anything under that name
    return declared.type_string() if isinstance(declared, TypeInformation) else UNDECLARED


def key_type_info(key_type: str) -> TypeInformation | None:
    """Return the type that a name stands for; None if the name is empty or unknown."""
    try:
        return parse_type(key_type)
    except ValueError:
        return None
