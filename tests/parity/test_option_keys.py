"""Options are read from the former keys that Flink still reads them from, in Flink's order of precedence.

flink_former_keys.json was made by record_option_keys.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Configuration, ConfigurationError
from runtime.common import options as engine_options
from runtime.common.config_options import ConfigOption
from runtime.state.rocksdb import options as rocksdb_options
from runtime.state.rocksdb.options import RocksDBSettings

FORMER: dict[str, list[str]] = json.loads((Path(__file__).parent / "flink_former_keys.json").read_text())
OPTIONS: dict[str, ConfigOption[Any]] = {
    option.key: option
    for module in (engine_options, rocksdb_options)
    for option in vars(module).values()
    if isinstance(option, ConfigOption)
}
RENAMED = [(key, former) for key in sorted(OPTIONS) for former in FORMER.get(key, [])]


def test_former_keys_are_flinks() -> None:
    ours = {key: list(option.deprecated_keys) for key, option in OPTIONS.items() if option.deprecated_keys}
    assert ours == {key: former for key, former in FORMER.items() if key in OPTIONS}
    assert len(RENAMED) >= 18
    assert {"state.backend", "restart-strategy", "pipeline.operator-chaining", "execution.buffer-timeout"} <= {
        former for _, former in RENAMED
    }


@pytest.mark.parametrize(("key", "former"), RENAMED)
def test_an_option_is_read_from_its_former_key(key: str, former: str) -> None:
    option = OPTIONS[key]
    first, second = _two_values(option)
    assert Configuration.from_dict({former: first}).get(option) == option.read(first)
    assert Configuration.from_dict({former: first, key: second}).get(option) == option.read(second)
    older = option.deprecated_keys[option.deprecated_keys.index(former) + 1 :]
    assert Configuration.from_dict({former: first, **dict.fromkeys(older, second)}).get(option) == option.read(first)


def test_a_bad_value_is_refused_under_the_key_that_it_was_set_with() -> None:
    with pytest.raises(ConfigurationError, match=r"^state\.backend: 'filesystem' cannot be used"):
        Configuration.from_dict({"state.backend": "filesystem"}).get(engine_options.STATE_BACKEND)


def test_rocksdb_has_no_former_keys_in_flink() -> None:
    assert not [key for key in FORMER if key.startswith("state.backend.rocksdb.")]
    assert RocksDBSettings.of(Configuration()) == RocksDBSettings()


def _two_values(option: ConfigOption[Any]) -> tuple[str, str]:
    """Two texts that the option reads as different values, the first not as its default."""
    read: dict[Any, str] = {}
    for text in ["true", "false", "7 s", "9 s", "7", "9", *option.accepted.split(" | "), "/a", "/b"]:
        try:
            read.setdefault(option.read(text), text)
        except ConfigurationError:
            continue
    first = next(text for value, text in read.items() if value != option.default)
    return first, next(text for text in read.values() if text != first)
