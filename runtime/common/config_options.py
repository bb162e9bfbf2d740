"""ConfigOption: a key, the parser of its text, and the default where it is not set.

Values are kept as text, as in Flink's configuration files; an option reads and checks them. Source: PyFlink,
common/config_options.py; Flink, ConfigOption, MemorySize and TimeUtils (text forms).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from runtime.common.time import DURATION_FORMS, Duration

__all__ = ["ConfigOption", "ConfigOptions", "ConfigurationError", "parse_memory_bytes"]

T = TypeVar("T")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_MEMORY = re.compile(r"(\d+)\s*([a-z]*)")
_MEMORY_UNITS = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
MAP_FORMS = '"name:value,name:value", or a JSON object'
MEMORY_FORMS = 'a number of bytes, or a number with a unit ("64 kb", "1mb", "2 gb")'


class ConfigurationError(ValueError):
    """An option's value cannot be used.

    Attributes:
        key: the option's key.
        value: the value as given.
        accepted: the forms that would do.
    """

    def __init__(self, key: str, value: str, accepted: str) -> None:
        super().__init__(key, value, accepted)
        self.key = key
        self.value = value
        self.accepted = accepted

    def __str__(self) -> str:
        return f"{self.key}: {self.value!r} cannot be used; accepted: {self.accepted}"


class ConfigOption(Generic[T]):
    """An option. `Configuration.get(option)` reads it.

    Args:
        key: dotted, as in Flink.
        parse: text → value; raises ValueError.
        default: value where the option is not set.
        accepted: the text forms, for error messages.
        minimum: smallest value allowed, if there is one.
        maximum: largest value allowed, if there is one.
        doc: what the option decides.
        deprecated_keys: former keys; the first that is set counts where `key` is not.
    """

    __slots__ = ("accepted", "default", "deprecated_keys", "doc", "key", "maximum", "minimum", "parse")

    def __init__(
        self,
        key: str,
        parse: Callable[[str], T],
        default: T,
        accepted: str,
        minimum: Any = None,
        doc: str = "",
        deprecated_keys: tuple[str, ...] = (),
        maximum: Any = None,
    ) -> None:
        self.key = key
        self.deprecated_keys = deprecated_keys
        self.parse = parse
        self.default = default
        bounds = [f", at least {minimum}"] * (minimum is not None) + [f", at most {maximum}"] * (maximum is not None)
        self.accepted = accepted + "".join(bounds)
        self.minimum = minimum
        self.maximum = maximum
        self.doc = doc

    def read(self, text: str, key: str | None = None) -> T:
        """Return the value of a text.

        Args:
            text: as set.
            key: under which it was set, if that is a former key.

        Raises:
            ConfigurationError: the text has none of the accepted forms.
        """
        try:
            value = self.parse(text)
        except ValueError:
            raise ConfigurationError(key or self.key, text, self.accepted) from None
        is_low = self.minimum is not None and value < self.minimum
        if is_low or (self.maximum is not None and value > self.maximum):
            raise ConfigurationError(key or self.key, text, self.accepted)
        return value

    def __repr__(self) -> str:
        return f"ConfigOption({self.key!r}, default={self.default!r})"


class OptionBuilder:
    """Second step: the type of the option's value."""

    __slots__ = ("_key",)

    def __init__(self, key: str) -> None:
        self._key = key

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        return TypedConfigOptionBuilder(self._key, parse_boolean, "true or false")

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        return TypedConfigOptionBuilder(self._key, int, "a whole number")

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        return TypedConfigOptionBuilder(self._key, int, "a whole number")

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        return TypedConfigOptionBuilder(self._key, float, "a number")

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        return TypedConfigOptionBuilder(self._key, float, "a number")

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        return TypedConfigOptionBuilder(self._key, str, "text")

    def duration_type(self) -> TypedConfigOptionBuilder[Duration]:
        return TypedConfigOptionBuilder(self._key, Duration.parse, DURATION_FORMS)

    def memory_type(self) -> TypedConfigOptionBuilder[int]:
        """Make an option of sizes; the value is in bytes."""
        return TypedConfigOptionBuilder(self._key, parse_memory_bytes, MEMORY_FORMS)

    def map_type(self) -> TypedConfigOptionBuilder[Mapping[str, str]]:
        """Make an option of names and texts."""
        return TypedConfigOptionBuilder(self._key, parse_map, MAP_FORMS)

    def choice_type(self, *choices: str) -> TypedConfigOptionBuilder[str]:
        """Make an option of one of a few words, in any case; the value is in lower case."""

        def parse(text: str) -> str:
            word = text.strip().lower()
            if word not in choices:
                raise ValueError(text)
            return word

        return TypedConfigOptionBuilder(self._key, parse, " | ".join(choices))


class TypedConfigOptionBuilder(Generic[T]):
    """Last step: the default."""

    __slots__ = ("_accepted", "_deprecated_keys", "_doc", "_key", "_maximum", "_minimum", "_parse")

    def __init__(self, key: str, parse: Callable[[str], T], accepted: str) -> None:
        self._key = key
        self._parse = parse
        self._accepted = accepted
        self._minimum: T | None = None
        self._maximum: T | None = None
        self._doc = ""
        self._deprecated_keys: tuple[str, ...] = ()

    def at_least(self, minimum: T) -> TypedConfigOptionBuilder[T]:
        """Refuse smaller values."""
        self._minimum = minimum
        return self

    def at_most(self, maximum: T) -> TypedConfigOptionBuilder[T]:
        """Refuse larger values."""
        self._maximum = maximum
        return self

    def with_description(self, doc: str) -> TypedConfigOptionBuilder[T]:
        """Set the description: what the option decides."""
        self._doc = doc
        return self

    def with_deprecated_keys(self, *keys: str) -> TypedConfigOptionBuilder[T]:
        """Set former keys of the option, which are read where it is not set itself."""
        self._deprecated_keys = keys
        return self

    def default_value(self, value: T) -> ConfigOption[T]:
        return ConfigOption(
            self._key,
            self._parse,
            value,
            self._accepted,
            self._minimum,
            self._doc,
            self._deprecated_keys,
            self._maximum,
        )

    def no_default_value(self) -> ConfigOption[T | None]:
        return ConfigOption[T | None](
            self._key, self._parse, None, self._accepted, self._minimum, self._doc, self._deprecated_keys, self._maximum
        )


# inside the class, the nested name hides the module's
_FirstStep = OptionBuilder


class ConfigOptions:
    """Entry to the builder of options: `ConfigOptions.key("a.b").int_type().default_value(3)`."""

    OptionBuilder = OptionBuilder
    TypedConfigOptionBuilder = TypedConfigOptionBuilder

    def __init__(self) -> None:
        raise TypeError("use ConfigOptions.key(...)")

    @staticmethod
    def key(key: str) -> _FirstStep:
        """Start an option."""
        return _FirstStep(key)


def parse_boolean(text: str) -> bool:
    """Read true/false, yes/no, on/off or 1/0.

    Raises:
        ValueError: the text is none of these.
    """
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"not a boolean: {text!r}")


def parse_map(text: str) -> Mapping[str, str]:
    """Read a map as Flink writes it, or a JSON object of texts.

    Raises:
        ValueError: the text has none of MAP_FORMS.
    """
    text = text.strip()
    if text.startswith("{"):
        parsed = json.loads(text)
        return {str(key): str(value) for key, value in parsed.items()}
    pairs = [item.partition(":") for item in text.split(",") if item.strip()]
    if not all(colon for _, colon, _ in pairs):
        raise ValueError(f"not a map: {text!r}; accepted: {MAP_FORMS}")
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_memory_bytes(text: str) -> int:
    """Read a size as Flink writes it; units are powers of 1024. The result is in bytes.

    Raises:
        ValueError: the text has none of MEMORY_FORMS.
    """
    match = _MEMORY.fullmatch(text.strip().lower())
    if match is None or match[2] not in _MEMORY_UNITS:
        raise ValueError(f"not a memory size: {text!r}; accepted: {MEMORY_FORMS}")
    return int(match[1]) * _MEMORY_UNITS[match[2]]
