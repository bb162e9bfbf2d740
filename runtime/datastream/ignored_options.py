"""Options of a program that decide nothing: those that jobs do not have, and those that are misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from types import ModuleType

from runtime.common import options
from runtime.common.config_options import ConfigOption
from runtime.state.rocksdb import options as rocksdb_options
from runtime.state.rocksdb.options import WITHOUT_EFFECT, without_effect

_ALIKE = 0.8
"""Of the parts in which two keys differ, by `difflib`'s ratio: some letters, not a word."""
_CANDIDATES = 3


def ignored_options(keys: Iterable[str]) -> dict[str, str]:
    """Those of some keys that have no effect, each with the reason.

    An unknown key that looks like no option is left alone: it may be the program's own, or another engine's.
    """
    found = without_effect(keys := sorted(keys))
    for key in keys:
        meant = _option_meant(key)
        if meant is not None:
            found[key] = f"there is no such option; {meant} may be meant"
    return found


def _option_meant(key: str) -> str | None:
    """The option of which a key is a misspelling; None: it is an option itself, or nothing like one."""
    known = _known_keys()
    if key in known:
        return None
    candidates = difflib.get_close_matches(key, known, _CANDIDATES, _ALIKE)
    return next((candidate for candidate in candidates if _is_alike(key, candidate)), None)


def _is_alike(key: str, other: str) -> bool:
    """Whether keys are nearly the same also without the words that they share at either end."""
    words, others = key.split("."), other.split(".")
    for end in (0, -1):
        while words and others and words[end] == others[end]:
            del words[end], others[end]
    return difflib.SequenceMatcher(None, ".".join(words), ".".join(others)).ratio() >= _ALIKE


@cache
def _known_keys() -> frozenset[str]:
    found = set(WITHOUT_EFFECT)
    for module in (options, rocksdb_options):
        found.update(key for option in _options_of(module) for key in (option.key, *option.deprecated_keys))
    return frozenset(found)


def _options_of(module: ModuleType) -> list[ConfigOption[object]]:
    return [value for value in vars(module).values() if isinstance(value, ConfigOption)]
