"""Secrets by name: where values come from, which references have one, and what keeps them out of texts."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import cloudpickle
import pytest

from runtime.common import SecretRef
from runtime.common.secrets import (
    GivenSecrets,
    SecretMissingError,
    SecretStore,
    finding,
    providing,
    revealed,
    variable_of,
)

URL = SecretRef("pg-main", "url")
VALUE = "postgresql://tide:c%40nary-9@db/shop"


def test_a_reference_pickles_as_its_name() -> None:
    with providing({("pg-main", "url"): VALUE}):
        bound = pickle.loads(cloudpickle.dumps(URL))
    assert bound == URL and hash(bound) == hash(URL) and bound.reveal() == revealed(bound) == VALUE
    assert copy.copy(bound).reveal() == copy.deepcopy([bound])[0].reveal() == VALUE
    for data in (pickle.dumps(bound), cloudpickle.dumps(lambda: bound)):
        assert b"anary" not in data
    assert "anary" not in f"{bound!r} {bound}"
    with pytest.raises(SecretMissingError, match=r"SecretRef\('pg-main', 'url'\) has no value here"):
        pickle.loads(pickle.dumps(bound)).reveal()


def test_references_are_found_in_what_is_pickled() -> None:
    with finding() as found:
        cloudpickle.dumps({"deep": [lambda: URL, SecretRef("redis", "url")]})
    assert found == {("pg-main", "url"), ("redis", "url")}


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "ü", "x" * 101, "a\n"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="does not name a secret"):
        SecretRef(name, "url")
    with pytest.raises(ValueError, match="does not name a secret"):
        SecretRef("pg", name)


def test_values_come_from_variables_and_then_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    file.write_text('{"pg-main": {"url": "from the file", "user": "tide"}}')
    file.chmod(0o600)
    assert variable_of(("pg-main", "url")) == "TIDEMARK_SECRET_PG_MAIN_URL"
    store = SecretStore({"TIDEMARK_SECRET_PG_MAIN_URL": "from a variable"}, file)
    both = [("pg-main", "url"), ("pg-main", "user")]
    assert store.resolve(both) == {both[0]: "from a variable", both[1]: "tide"}
    assert SecretStore({}, file).resolve(both)[both[0]] == "from the file"
    with pytest.raises(SecretMissingError, match=r"SecretRef\('a', 'b'\) \(variable TIDEMARK_SECRET_A_B .*'c', 'd'"):
        store.resolve([("a", "b"), ("c", "d"), both[0]])
    assert SecretStore({}, tmp_path / "no-file").resolve([]) == {}


@pytest.mark.parametrize("text", ["canary", '["canary"]', '{"a": "canary"}', '{"a": {"b": 5}}', "\xff"])
def test_a_file_that_cannot_be_used_is_refused_without_its_text(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets.json"
    file.write_bytes(text.encode("latin-1"))
    file.chmod(0o600)
    with pytest.raises(SecretMissingError, match="is not of the form") as caught:
        SecretStore({}, file).resolve([("a", "b")])
    assert "canary" not in str(caught.value) and caught.value.__cause__ is None
    file.chmod(0o640)
    with pytest.raises(SecretMissingError, match="chmod 600"):
        SecretStore({}, file).resolve([("a", "b")])


def test_values_that_are_given_are_known_by_name_and_key() -> None:
    store = GivenSecrets({("pg-main", "url"): "one", ("pg_main", "url"): "two"})
    assert store.resolve([("pg_main", "url")]) == {("pg_main", "url"): "two"}
    with pytest.raises(SecretMissingError, match="no value for SecretRef\\('other', 'url'\\): a preview has those"):
        store.resolve([("pg-main", "url"), ("other", "url")])
