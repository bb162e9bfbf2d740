"""Locations: how they are written as URIs, and that nothing leads out of the allowed roots."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.checkpoint.errors import LocationNotAllowedError, UnknownFileSystemError
from runtime.checkpoint.layout import (
    checkpoint_directory,
    file_name,
    savepoint_directory,
    writer_of_directory,
    writer_of_file,
)
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots, join, local_path, name_of, parent_of, to_uri
from runtime.core.ids import Attempt, CheckpointId, JobId
from tests.support.hung_storage import HungStorage


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("/a/b", "file:///a/b"),
        ("/a/b/", "file:///a/b"),
        ("/a b/ü", "file:///a%20b/%C3%BC"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a%20b/", "file:///a%20b"),
        ("file://localhost/a", "file:///a"),
        ("/", "file://"),
        ("S3://bucket/a/", "s3://bucket/a"),
        ("hdfs://name:8020/a", "hdfs://name:8020/a"),
    ],
)
def test_locations_become_uris(given: str, uri: str) -> None:
    assert to_uri(given) == uri
    assert to_uri(uri) == uri


def test_relative_paths_start_here() -> None:
    assert local_path(to_uri("a/b")) == Path.cwd() / "a" / "b"


def test_uris_are_taken_apart() -> None:
    assert join("s3://b/", "c", "d") == "s3://b/c/d"
    assert (name_of("s3://b/c/"), parent_of("s3://b/c/d")) == ("c", "s3://b/c")
    assert local_path(join(to_uri("/"), "a")) == Path("/a")


OUTSIDE = [
    "/allowed/../etc/passwd",
    "/allowed/sub/../../etc",
    "/allowedish",
    "/allow",
    "/",
    "file:///allowed/%2e%2e/etc",
    "file:///allowed/..%2fetc",
    "s3://bucket",
    "s3://bucket/other",
    "s3://bucket/data/../other",
    "s3://bucket/database",
    "s3://other/data/x",
    "hdfs://bucket/data/x",
]


@pytest.mark.parametrize("location", OUTSIDE)
def test_what_is_outside_of_the_roots_is_refused(location: str) -> None:
    with pytest.raises(LocationNotAllowedError, match="not below a directory that is allowed"):
        AllowedRoots.of(["/allowed", "s3://bucket/data"]).check(location)


def test_what_is_inside_of_the_roots_is_resolved() -> None:
    roots = AllowedRoots.of(["/allowed/", "s3://bucket/data"])
    assert roots.check("/allowed") == "file:///allowed"
    assert roots.check("/x/../allowed/./a") == "file:///allowed/a"
    assert roots.check("s3://bucket/data//a/../b/") == "s3://bucket/data/b"
    assert EVERYWHERE.check("/anything") == "file:///anything"


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    roots = AllowedRoots.of([tmp_path / "in"])
    with pytest.raises(LocationNotAllowedError):
        roots.check(tmp_path / "in" / "link" / "savepoint")
    with pytest.raises(LocationNotAllowedError):
        roots.check(tmp_path / "in" / "link")


def test_a_root_may_be_called_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    roots = AllowedRoots.of([tmp_path / "root"])
    assert roots.check(tmp_path / "root" / "a") == (tmp_path / "disk" / "a").as_uri()
    assert roots.check(tmp_path / "disk" / "a") == (tmp_path / "disk" / "a").as_uri()
    with pytest.raises(LocationNotAllowedError):
        roots.check(tmp_path / "rooted")
    # whoever changes the link moves the root
    (tmp_path / "root").unlink()
    (tmp_path / "root").symlink_to(tmp_path / "other")
    with pytest.raises(LocationNotAllowedError):
        roots.check(tmp_path / "disk" / "a")


def test_a_root_that_does_not_answer_holds_up_nothing_below_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = HungStorage(tmp_path / "share", monkeypatch)
    hung.hang()
    roots = AllowedRoots.of([tmp_path / "share", tmp_path / "disk"])
    assert roots.check(tmp_path / "disk" / "a") == (tmp_path / "disk" / "a").as_uri()
    assert not hung.touched
    with pytest.raises(LocationNotAllowedError):
        roots.check(tmp_path / "elsewhere")
    assert hung.touched, "only that storage knows whether a link in it leads there"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(UnknownFileSystemError, match="leads nowhere"):
        AllowedRoots.of([tmp_path]).check(tmp_path / "circle")


def test_no_roots_allow_nothing() -> None:
    with pytest.raises(LocationNotAllowedError, match="none"):
        AllowedRoots.of([]).check("/a")


@pytest.mark.parametrize("location", ["http://x/y", "ftp://x", "s3://b/c?endpoint_override=evil", "file://host/x"])
def test_what_cannot_hold_checkpoints_is_refused(location: str) -> None:
    with pytest.raises(UnknownFileSystemError):
        EVERYWHERE.check(location)


def test_names_say_who_wrote() -> None:
    job = JobId("0123456789abcdef" * 2)
    directory = checkpoint_directory("s3://b/c", job, CheckpointId(7), 3, Attempt(2))
    assert directory == f"s3://b/c/{job}/chk-7-3.2"
    writer = writer_of_directory(directory)
    assert writer is not None
    assert (writer.checkpoint_id, writer.fence) == (7, (3, 2))
    name = file_name(directory, "map → filter (1/2)", "keyed state/../x", "abc")
    assert name == "7-3.2-map_filter_1_2_-keyed_state_.._x-abc"
    assert writer_of_file(name) == writer_of_file(f".{name}.123.tmp") == writer
    assert file_name(savepoint_directory("/t", job, "0" * 12), "m" * 500, "", "abc") == f"{'m' * 60}-_-abc"
    assert savepoint_directory("s3://b", job, "0" * 12) == "s3://b/savepoint-012345-000000000000"
    assert writer_of_directory("s3://b/savepoint-012345-000000000000") is None
    assert writer_of_file("notes.txt") is None
