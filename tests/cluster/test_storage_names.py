"""The storage of a location is named without asking it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.cluster.storage_names import storage_of

TOLD = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/share rw,relatime - nfs4 server:/share rw
41 22 0:36 / /mnt/my\040share rw,relatime - nfs4 server:/other rw
""".lstrip()


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/mnt/share", "/mnt/share"),
        ("/mnt/share/checkpoints", "/mnt/share"),
        ("/mnt/share/../elsewhere", "/"),
        ("/mnt/shared/checkpoints", "/"),
        ("file:///mnt/my%20share/a", "/mnt/my share"),
        ("s3://bucket/checkpoints", "s3://bucket"),
        ("hdfs://name:8020/checkpoints", "hdfs://name:8020"),
        ("ftp://host/a", "ftp://host/a"),
        ("file://[", "file://["),
    ],
)
def test_a_location_is_on_a_mount_or_a_host(tmp_path: Path, location: str, name: str) -> None:
    (tmp_path / "mounts").write_text(TOLD)
    assert storage_of(location, tmp_path / "mounts") == name


def test_where_nobody_tells_what_is_mounted_each_path_is_for_itself(tmp_path: Path) -> None:
    assert storage_of("/mnt/share", tmp_path / "none") == "/mnt/share"
