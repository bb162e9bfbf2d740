"""Notes for a program about its options: which have no effect, and which are set under a former key.

Finds references that would stay as they are written, too.

Those that decide nothing are options that jobs do not have, misspelt ones, and former keys of an option that is set
under its own key as well. Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType

from runtime.common import options
from runtime.common.config_options import ConfigOption
from runtime.common.references import ReferenceFormatError, has_references, references_in
from runtime.jobmaster import autoscaler_options
from runtime.state.rocksdb import options as rocksdb_options
from runtime.state.rocksdb.options import WITHOUT_EFFECT, without_effect

__all__ = ["former_keys", "ignored_options", "misplaced_references", "unknown_options"]

_ALIKE = 0.8
"""Similarity of the parts in which two keys differ, by `difflib`'s ratio: some letters, not a word."""
_CANDIDATES = 3


def ignored_options(keys: Iterable[str]) -> dict[str, str]:
    """Return those of some keys that have no effect, each with the reason.

    An unknown key that looks like no option is left alone: it may be the program's own, or another engine's.
    """
    found = without_effect(keys := sorted(keys))
    for key in keys:
        meant = _option_meant(key)
        if meant is not None:
            found[key] = f"there is no such option; {meant} may be meant"
    for option in _known_options():
        counting, *others = [key for key in (option.key, *option.deprecated_keys) if key in keys] or [option.key]
        found |= dict.fromkeys(others, f"{counting} is set as well")
    return found


def unknown_options(keys: Iterable[str]) -> list[str]:
    """Return those of some keys that are no options and nothing like one: at most the program itself can read them.

    Keys of Spark are passed on, and so left alone.
    """
    known = _known_keys()
    unknown = (key for key in keys if key not in known and not key.startswith("spark."))
    return sorted(key for key in unknown if _option_meant(key) is None)


def former_keys(keys: Iterable[str]) -> dict[str, str]:
    """Return those of some keys that are former keys of an option and count as it, each with the present key."""
    keys = set(keys)
    found = {}
    for option in _known_options():
        if option.key not in keys:
            former = next((key for key in option.deprecated_keys if key in keys), None)
            if former is not None:
                found[former] = option.key
    return found


def misplaced_references(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that have references they must not have, each with what is accepted.

    Their values are for functions, in job parameters, and for connectors: what the engine reads of an option is stored
    and shown. Keys that are no options are the program's own, which may hand their values to either.
    """
    found = {}
    for key, value in given.items():
        if not has_references(value):
            continue
        if key == options.GLOBAL_JOB_PARAMETERS.key:
            try:
                references_in(value)
            except ReferenceFormatError as error:
                found[key] = str(error)
        elif key in _known_keys():
            found[key] = f"references are for {options.GLOBAL_JOB_PARAMETERS.key}, and for connectors"
    return found


def _option_meant(key: str) -> str | None:
    """Return the option of which a key is a misspelling; None: it is an option itself, or nothing like one."""
    known = _known_keys()
    if key in known:
        return None
    candidates = difflib.get_close_matches(key, known, _CANDIDATES, _ALIKE)
    return next((candidate for candidate in candidates if _is_alike(key, candidate)), None)


def _is_alike(key: str, other: str) -> bool:
    """Return whether keys are nearly the same also without the words that they share at either end."""
    words, others = key.split("."), other.split(".")
    for end in (0, -1):
        while words and others and words[end] == others[end]:
            del words[end], others[end]
    return difflib.SequenceMatcher(None, ".".join(words), ".".join(others)).ratio() >= _ALIKE


@cache
def _known_keys() -> frozenset[str]:
    keys = (key for option in _known_options() for key in (option.key, *option.deprecated_keys))
    return frozenset(WITHOUT_EFFECT).union(keys)


@cache
def _known_options() -> tuple[ConfigOption[object], ...]:
    return tuple(option for module in (options, rocksdb_options, autoscaler_options) for option in _options_of(module))


def _options_of(module: ModuleType) -> Iterator[ConfigOption[object]]:
    for value in vars(module).values():
        # some are kept by the name of what they set
        for option in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(option, ConfigOption):
                yield option
