"""References in texts: how they are written, what they may name, and what keeps their values out of sight."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Mapping
from pathlib import Path

import cloudpickle
import pytest

from runtime.common import SecretRef, references, secret_text
from runtime.common.references import (
    MAX_FILE_BYTES,
    ReferenceFormatError,
    ReferenceRules,
    ReferenceValueError,
    filled,
    is_reference,
    references_in,
)
from runtime.common.secrets import (
    GivenSecrets,
    SecretMissingError,
    SecretName,
    SecretStore,
    finding,
    providing,
    revealed,
)
from tests.support.hung_storage import HungStorage
from tests.support.waiting import wait_until

URL = "postgresql://tide:${env:SHOP_PASSWORD}@db/${file:/run/secrets/shop}"
VALUES = {("env:", "SHOP_PASSWORD"): "c%40nary-9", ("file:", "/run/secrets/shop"): "goods"}
FULL = "postgresql://tide:c%40nary-9@db/goods"


def test_references_are_found_and_filled() -> None:
    assert references_in(URL) == list(VALUES)
    assert references_in("$HOME ${HOME} {env:X} $${x}") == []
    assert filled(URL, VALUES) == FULL
    assert filled("${env:A}", {("env:", "A"): "${env:B}", ("env:", "B"): "never"}) == "${env:B}", "values are values"
    assert filled("${env:A} ${env:B}", {("env:", "B"): "b"}) == "${env:A} b"
    assert is_reference("${env:A}${file:/b}") and not is_reference("x${env:A}") and not is_reference("")


@pytest.mark.parametrize(
    "text",
    [
        "${env:}",
        "${env:A B}",
        "${env:A:-b}",
        "${env:A",
        "${file:b}",
        "${file:}",
        "${file:/a\n}",
        "${env:ä}",
        "${env:" * 50_000,
    ],
)
def test_what_begins_as_a_reference_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(ReferenceFormatError, match=r"a reference is \$\{env:NAME\}"):
        references_in(text)
    with pytest.raises(ValueError, match="a reference is"):
        secret_text(f"redis://{text}")


def test_a_text_with_references_is_a_secret_that_pickles_without_its_values() -> None:
    assert secret_text("plain") == "plain"
    named = SecretRef("pg", "url")
    assert secret_text(named) is named
    text = secret_text(URL)
    assert isinstance(text, SecretRef)
    with finding() as found:
        data = cloudpickle.dumps(lambda: text)
    assert found == VALUES.keys()
    with providing(VALUES):
        bound = pickle.loads(data)()
    assert bound == text and hash(bound) == hash(text) and bound != named and revealed(bound) == FULL
    assert b"anary" not in pickle.dumps(bound) and "anary" not in f"{bound!r} {bound}"
    assert str(bound) == "${env:SHOP_PASSWORD}, ${file:/run/secrets/shop}"
    for values in ({}, {("env:", "SHOP_PASSWORD"): "c%40nary-9"}):
        with providing(values), pytest.raises(SecretMissingError, match="has no value here"):
            pickle.loads(data)().reveal()


def rules(environment: Mapping[str, str], files: str = "", home: Path | None = None) -> ReferenceRules:
    listed = {"TIDEMARK_REFERENCE_FILES": files} if files else {}
    return ReferenceRules.of_environment({**environment, **listed}, () if home is None else (home,))


def test_variables_have_to_be_listed_and_those_of_the_cluster_cannot_be() -> None:
    variables = {"SHOP_PASSWORD": "canary", "SHOP_URL": "u", "OTHER": "o", "EMPTY": ""}
    own = {
        "DATABASE_URL": "d",
        "REDIS_URL": "r",
        "TIDEMARK_SECRET_KEY": "k",
        "TIDEMARK_CLUSTER_KEY": "c",
        "TIDEMARK_SECRET_PG_URL": "s",
    }
    nothing = rules(variables)
    assert nothing.variables() == []
    with pytest.raises(ReferenceValueError, match="TIDEMARK_REFERENCE_VARIABLES of the JobManager does not list it"):
        nothing.value_of(("env:", "SHOP_PASSWORD"))
    listed = rules({**variables, "TIDEMARK_REFERENCE_VARIABLES": "SHOP_*, EMPTY"})
    assert listed.variables() == ["SHOP_PASSWORD", "SHOP_URL", "EMPTY"]
    assert listed.value_of(("env:", "SHOP_PASSWORD")) == "canary"
    with pytest.raises(ReferenceValueError, match="no such variable"):
        listed.value_of(("env:", "EMPTY"))
    # what is not listed is told alike, whether it is there or not
    for name in ("OTHER", "NOWHERE"):
        with pytest.raises(ReferenceValueError, match="does not list it"):
            listed.value_of(("env:", name))
    everything = rules({**variables, **own, "TIDEMARK_REFERENCE_VARIABLES": "S*,O*,E*,D*,R*,T*,TIDEMARK_SECRET_KEY"})
    assert everything.variables() == list(variables)
    for pattern in ("*", "?ATH", "[A-Z]*"):
        with pytest.raises(ValueError, match="is not the name of a variable"):
            rules({"TIDEMARK_REFERENCE_VARIABLES": pattern})
    for name in own:
        with pytest.raises(ReferenceValueError, match="does not list it"):
            everything.value_of(("env:", name))


def test_files_have_to_be_listed_and_links_do_not_lead_out(tmp_path: Path) -> None:
    listed, home, outside = tmp_path / "listed", tmp_path / "listed" / "home", tmp_path / "outside"
    (listed / "..data").mkdir(parents=True)
    home.mkdir()
    outside.mkdir()
    (outside / "key").write_text("stolen")
    (home / "secret-key").write_text("stolen")
    (listed / "..data" / "db").write_text("canary\n")
    # as Kubernetes mounts secrets
    (listed / "db").symlink_to(Path("..data", "db"))
    (listed / "out").symlink_to(outside / "key")
    (listed / "inner").symlink_to(home)
    (listed / "empty").write_text("\n")
    (listed / "binary").write_bytes(b"canary\xff")
    (listed / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    os.mkfifo(listed / "queue")
    store = rules({}, str(listed), home)
    assert store.value_of(("file:", f"{listed}/db")) == "canary"
    refusals = {
        f"{listed}/../outside/key": "does not list it",
        f"{outside}/key": "does not list it",
        f"{outside}/nothing": "does not list it",
        f"{listed}2/key": "does not list it",
        f"{home}/secret-key": "does not list it",
        f"{listed}/out": "it leads out of what",
        f"{listed}/inner/secret-key": "it leads out of what",
        f"{listed}/nothing": "cannot read it: No such file",
        f"{listed}/..data": "it is not a file|Is a directory",
        f"{listed}/queue": "it is not a file",
        f"{listed}/empty": "it is empty",
        f"{listed}/binary": "it is not a text in UTF-8",
        f"{listed}/large": "it has more than",
    }
    for path, reason in refusals.items():
        with pytest.raises(ReferenceValueError, match=reason) as caught:
            store.value_of(("file:", path))
        assert "canary" not in str(caught.value) and caught.value.__cause__ is None
    with pytest.raises(ValueError, match="'secrets' is not an absolute path"):
        rules({}, "secrets")


def test_a_store_has_both_kinds_and_names_all_that_are_missing(tmp_path: Path) -> None:
    environment = {"TIDEMARK_SECRET_PG_URL": "named", "SHOP": "referred", "TIDEMARK_REFERENCE_VARIABLES": "SHOP"}
    store = SecretStore(environment, tmp_path / "secrets.json", ReferenceRules.of_environment(environment))
    names: list[SecretName] = [("pg", "url"), ("env:", "SHOP")]
    assert store.resolve(names) == {("pg", "url"): "named", ("env:", "SHOP"): "referred"}
    with pytest.raises(SecretMissingError, match=r"\$\{env:X\} \(TIDEMARK_REFERENCE.*SecretRef\('pg', 'user'\)"):
        store.resolve([*names, ("env:", "X"), ("pg", "user")])
    with pytest.raises(SecretMissingError, match=r"no value for \$\{env:X\}: a preview"):
        GivenSecrets({}).resolve([("env:", "X")])
    # nobody reaches a variable by a name that only looks like it
    with pytest.raises(ValueError, match="does not name a secret"):
        SecretRef("env:", "SHOP")


def test_a_file_whose_storage_does_not_answer_is_waited_for_by_one_thread_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "listed"
    listed.mkdir()
    (listed / "db").write_text("canary\n")
    store, name = rules({}, str(listed)), ("file:", str(listed / "db"))
    storage = HungStorage(listed, monkeypatch)
    storage.hang()
    with monkeypatch.context() as impatient:
        impatient.setattr(references, "FILE_TIMEOUT_S", 0.01)
        for _ in range(3):
            with pytest.raises(ReferenceValueError, match="its storage has not answered the JobManager within") as told:
                store.value_of(name)
            assert told.value.__cause__ is None
    assert [thread.name for thread in threading.enumerate()].count("reference-file") == 1
    storage.answer()
    assert store.value_of(name) == "canary"
    wait_until(lambda: "reference-file" not in [thread.name for thread in threading.enumerate()], 20, "the thread")
    # whose caller would have waited for what other rules allow is told by its own
    with pytest.raises(ReferenceValueError, match="does not list it"):
        rules({}, str(tmp_path / "other")).value_of(name)
