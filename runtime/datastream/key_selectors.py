"""Key selectors in the engine's form: callables from a record to its key, converted to the key's type."""

from __future__ import annotations

from typing import Any

from runtime.common.coercion import all_fit
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch_keys import BatchKeySelector
from runtime.operators.functions import KeySelector, key_function

__all__ = ["TypedKeySelector", "coerced_selector"]


class TypedKeySelector(KeySelector, BatchKeySelector):
    """A selector whose keys are converted to a type; travels as selector and type, since a coercer is a closure."""

    def __init__(self, selector: Any, key_type: TypeInformation) -> None:
        self.selector = selector
        self.key_type = key_type
        self._prepare()

    def _prepare(self) -> None:
        self._select = key_function(self.selector)
        self._coerce = self.key_type.coercer()

    def get_key(self, value: Any) -> Any:
        key = self._select(value)
        return key if self._coerce is None else self._coerce(key)

    def get_keys(self, values: list[Any]) -> list[Any] | None:
        """Return all keys as BatchKeySelector defines it: one look at all keys costs a third of a call for each."""
        try:
            keys = list(map(self._select, values))
        except Exception:  # the user's: it comes again, with its record, when the records are asked one by one
            return None
        # a StopIteration of the user's ends the list early
        fits = len(keys) == len(values) and (self._coerce is None or all_fit(self._coerce, keys))
        return keys if fits else None

    def __getstate__(self) -> tuple[Any, TypeInformation]:
        return self.selector, self.key_type

    def __setstate__(self, state: tuple[Any, TypeInformation]) -> None:
        self.selector, self.key_type = state
        self._prepare()


def coerced_selector(key_selector: Any, key_type: TypeInformation | None) -> Any:
    """Return the selector itself, or one that converts its keys if the type has anything to convert.

    Raises:
        TypeError: it is neither a KeySelector nor callable.
    """
    key_function(key_selector)
    if key_type is None or key_type.coercer() is None:
        return key_selector
    return TypedKeySelector(key_selector, key_type)
