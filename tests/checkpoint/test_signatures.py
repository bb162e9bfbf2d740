"""Signatures of snapshots: what was signed is believed, what was changed is damage, and the rest is a setting's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.checkpoint.errors import ForeignSnapshotError
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.metadata import decode_metadata, encode_metadata
from runtime.checkpoint.signatures import NO_KEYS, SIGNATURE, SnapshotKeys, Witness
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.state.handles import DamagedSnapshotError
from tests.checkpoint.faulty import NO_PAUSES, FaultyFileSystem
from tests.checkpoint.snapshots import savepoint_options, stored, with_checksum
from tests.checkpoint.test_metadata import DIRECTORY, METADATA

OURS, FORMER, THEIRS = (hashlib.sha256(name).digest() for name in (b"ours", b"former", b"theirs"))
KEYS = SnapshotKeys((OURS, FORMER), takes_foreign=False)
LENIENT = SnapshotKeys((OURS, FORMER))


@settings(max_examples=100)
@given(METADATA)
def test_what_was_signed_is_read_with_and_without_keys(metadata: CheckpointMetadata) -> None:
    data = encode_metadata(metadata, KEYS)
    for keys in (KEYS, LENIENT, NO_KEYS):
        assert decode_metadata(data, DIRECTORY, keys) == metadata


def document_of(data: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data.partition(b"\n")[2])
    return document


def rewritten(document: dict[str, Any]) -> bytes:
    """Return what somebody writes who knows the format, and no key."""
    return with_checksum(b"1", json.dumps(document).encode())


def test_what_is_nested_as_deep_as_can_be_decoded_is_damage() -> None:
    """Encoding it again needs a little more of the stack."""
    for depth in range(900, 1000):
        nested = ("[" * depth + "]" * depth).encode()
        for member in (b"more", SIGNATURE.encode()):
            with pytest.raises(DamagedSnapshotError):
                decode_metadata(with_checksum(b"1", b'{"%s":%s}' % (member, nested)), DIRECTORY, LENIENT)


@settings(max_examples=100)
@given(METADATA, st.data())
def test_whatever_is_changed_is_found(metadata: CheckpointMetadata, data: st.DataObject) -> None:
    document = document_of(encode_metadata(metadata, KEYS))
    # written otherwise, it says the same
    assert decode_metadata(rewritten(document), DIRECTORY, KEYS) == metadata
    member = data.draw(st.sampled_from(sorted(document.keys() - {SIGNATURE})))
    changed = [rewritten({**document, member: [document[member]]}), rewritten({**document, "more": 1})]
    changed += [rewritten({name: value for name, value in document.items() if name != member})]
    for each in changed:
        for keys in (KEYS, LENIENT):
            with pytest.raises(DamagedSnapshotError, match="its signature is not that of its content"):
                decode_metadata(each, DIRECTORY, keys)


@pytest.fixture
def metadata(tmp_path: Path) -> CheckpointMetadata:
    return stored(FaultyFileSystem(), savepoint_options(tmp_path / "sp"))


def files(keys: SnapshotKeys) -> SnapshotFiles:
    return SnapshotFiles(FaultyFileSystem(), retries=NO_PAUSES, keys=keys)


@pytest.mark.parametrize("signature", ["", ":", "x", 7, None, {}, "a:b:c", "é:é"])
def test_a_signature_that_is_none_is_a_foreign_one(metadata: CheckpointMetadata, signature: Any) -> None:
    directory = metadata.options.directory
    data = rewritten({**document_of(encode_metadata(metadata)), SIGNATURE: signature})
    with pytest.raises(ForeignSnapshotError):
        decode_metadata(data, directory, KEYS)
    assert decode_metadata(data, directory, LENIENT) == metadata


def test_a_signature_with_a_known_name_and_another_mac_is_damage(metadata: CheckpointMetadata) -> None:
    document = document_of(encode_metadata(metadata, KEYS))
    name = document[SIGNATURE].partition(":")[0]
    for mac in ("", "0" * 64, "é"):
        with pytest.raises(DamagedSnapshotError):
            decode_metadata(rewritten({**document, SIGNATURE: f"{name}:{mac}"}), metadata.options.directory, LENIENT)


def test_a_key_that_was_replaced_is_still_believed_and_signs_no_more(metadata: CheckpointMetadata) -> None:
    files(SnapshotKeys((FORMER,))).write_metadata(metadata)
    location = metadata.options.directory
    assert files(KEYS).load(location) == files(KEYS).read_metadata(location) == metadata
    with pytest.raises(ForeignSnapshotError, match=r"that this cluster does not have.*TIDEMARK_FORMER_CLUSTER_KEYS"):
        files(SnapshotKeys((OURS,), takes_foreign=False)).load(location)
    assert encode_metadata(metadata, KEYS) == encode_metadata(metadata, SnapshotKeys((OURS,)))


def test_others_are_a_setting_s(metadata: CheckpointMetadata) -> None:
    location = metadata.options.directory
    files(NO_KEYS).write_metadata(metadata)
    for read in (files(KEYS).load, files(KEYS).read_metadata):
        with pytest.raises(ForeignSnapshotError, match=r"TIDEMARK_FOREIGN_SNAPSHOTS=0.*it is not signed"):
            read(location)
    assert files(LENIENT).load(location) == metadata


def test_who_has_no_keys_notes_what_there_is_to_check(metadata: CheckpointMetadata) -> None:
    location = metadata.options.directory
    witness = Witness()
    files(KEYS).write_metadata(metadata)
    assert files(witness).load(location) == metadata
    [signed] = witness.seen
    KEYS.check_signed(signed, location)
    NO_KEYS.check_signed(signed._replace(signature=""), location)
    with pytest.raises(DamagedSnapshotError):
        LENIENT.check_signed(signed._replace(digest="0" * 64), location)
    with pytest.raises(ForeignSnapshotError):
        KEYS.check_signed(signed._replace(signature=""), location)


def test_keys_are_not_printed() -> None:
    assert str(OURS) not in repr(KEYS) and repr(KEYS) == "SnapshotKeys(takes_foreign=False)"
