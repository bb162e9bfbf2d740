"""Configuration: flat option keys with text values, read through typed getters or `ConfigOption`s.

Travels to the slots as a plain dict. Not thread-safe while it is being written. Source: PyFlink,
common/configuration.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runtime.common.config_options import ConfigOption, ConfigurationError, parse_boolean
from runtime.common.time import Duration
from runtime.common.yaml_values import read_yaml

__all__ = ["Configuration", "ConfigurationError"]

T = TypeVar("T")

HIDDEN = "******"
"""Text in place of a secret."""
_SENSITIVE = (
    *("password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params", "service-key", "token"),
    *("basic-auth", "jaas.config", "http-headers"),
)


class Configuration:
    """Options of a job or of a cluster.

    Args:
        other: a configuration to start as a copy of.
    """

    __slots__ = ("_options",)

    def __init__(self, other: Configuration | None = None) -> None:
        #: as set: text, or a number, a bool or bytes
        self._options: dict[str, Any] = {} if other is None else dict(other._options)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> Configuration:
        """Make a configuration of keys and values: text, numbers, bools, Durations, or lists of them."""
        configuration = cls()
        for key, value in options.items():
            configuration._options[key] = _text_of(value)
        return configuration

    def get(self, option: ConfigOption[T]) -> T:
        """Return the option's value; where its key is not set that of the first former key that is, else its default.

        Raises:
            ConfigurationError: the value that is set cannot be read; the message says which forms can.
        """
        for key in (option.key, *option.deprecated_keys):
            if key in self._options:
                return option.read(_text_of(self._options[key]), key)
        return option.default

    def set(self, option: ConfigOption[Any] | str, value: Any) -> Configuration:
        """Set an option.

        Raises:
            ConfigurationError: the option does not accept the value.
        """
        text = _text_of(value)
        kept = value if isinstance(value, (int, float)) else text
        if isinstance(option, str):
            self._options[option] = kept
        else:
            option.read(text)
            self._options[option.key] = kept
        return self

    def get_string(self, key: str, default_value: str | None = None) -> str:
        """Return the value's text; "" if neither it nor a default is there."""
        if key in self._options:
            return _text_of(self._options[key])
        return default_value if default_value is not None else ""

    def set_string(self, key: str, value: str) -> Configuration:
        self._options[key] = value
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        return self._read(key, default_value, int, "a whole number")

    def set_integer(self, key: str, value: int) -> Configuration:
        return self.set(key, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        return self._read(key, default_value, parse_boolean, "true or false")

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self.set(key, value)

    def get_float(self, key: str, default_value: float) -> float:
        return self._read(key, default_value, float, "a number")

    def set_float(self, key: str, value: float) -> Configuration:
        return self.set(key, value)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return bytes, kept as base64 text."""
        return self._read(key, default_value, _from_base64, "base64 text")

    def set_bytearray(self, key: str, value: bytes | bytearray) -> Configuration:
        self._options[key] = bytes(value)
        return self

    @staticmethod
    def parse_list_value(value: str | None) -> list[Any]:
        """Return the items of a list option: those of a YAML list if the text is one, else what semicolons separate.

        A YAML list is in brackets, or has an item a line (`- a`); its items are what YAML 1.2 says: text, numbers,
        bools, None, dates, lists, dicts. Of None and "" there are none.

        Raises:
            ValueError: the text is not YAML; in PyFlink, too, what semicolons separate has to be.
        """
        if not value:
            return []
        items = read_yaml(value)
        return items if isinstance(items, list) else value.split(";")

    def contains_key(self, key: str) -> bool:
        return key in self._options

    def key_set(self) -> frozenset[str]:
        return frozenset(self._options)

    def remove_config(self, key: str) -> bool:
        """Forget an option; returns whether it was set."""
        return self._options.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Set everything that `other` has, each key with `prefix` in front."""
        for key, value in other._options.items():
            self._options[(prefix or "") + key] = value
        return self

    def add_all_to_dict(self, target: dict[str, Any]) -> None:
        """Put all options into a dict, each value as it was set."""
        target.update(self._options)

    def to_dict(self) -> dict[str, str]:
        """Return a copy of keys and texts."""
        return {key: _text_of(value) for key, value in self._options.items()}

    def _read(self, key: str, default: T, parse: Callable[[str], T], accepted: str) -> T:
        if key not in self._options:
            return default
        text = _text_of(self._options[key])
        try:
            return parse(text)
        except ValueError:
            raise ConfigurationError(key, text, accepted) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and other._options == self._options

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __str__(self) -> str:
        """Return Flink's form; values of keys that name secrets are hidden."""
        shown = (f"{key}={HIDDEN if is_sensitive(key) else text}" for key, text in self.to_dict().items())
        return f"{{{', '.join(shown)}}}"

    def __repr__(self) -> str:
        return f"Configuration({self})"


def is_sensitive(key: str) -> bool:
    """Return whether an option's value is a secret, by its key. Source: Flink, GlobalConfiguration."""
    return any(word in key.lower() for word in _SENSITIVE)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Duration)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, tuple)):
        return json.dumps([_text_of(item) for item in value])
    if isinstance(value, dict):
        return json.dumps({str(key): _text_of(item) for key, item in value.items()})
    raise TypeError(f"an option's value must be text, a number, a bool, a Duration, a list or a dict, not {value!r}")


def _from_base64(text: str) -> bytearray:
    try:
        return bytearray(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
