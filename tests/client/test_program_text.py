"""The text of programs for the page: what is a program's and small, and nothing that costs more than it says."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import pytest

from runtime.client.program_text import MAX_FILE_BYTES, MAX_FILES, texts_of

TEXT = "print('größer')\n"


def archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as target:
        for name, data in members.items():
            target.writestr(name, data)
    return path


def test_the_text_of_a_file(tmp_path: Path) -> None:
    program = tmp_path / "stored.py"
    program.write_text(TEXT, encoding="utf-8")
    assert texts_of(program, "job.py", ["job.py", "/etc/passwd", ""]) == {"job.py": TEXT}


def test_the_texts_of_an_archives_modules(tmp_path: Path) -> None:
    program = archive(tmp_path / "stored.zip", {"a.py": TEXT.encode(), "b/c.py": b"pass", "data.py": b"\xff\xfe"})
    wanted = ["job.zip/a.py", "job.zip/b/c.py", "job.zip/data.py", "job.zip/gone.py", "a.py", "/etc/passwd"]
    assert texts_of(program, "job.zip", wanted) == {"job.zip/a.py": TEXT, "job.zip/b/c.py": "pass"}


def test_a_large_file_and_too_many_are_left_out(tmp_path: Path) -> None:
    members = {f"m{number:03}.py": b"pass" for number in range(MAX_FILES + 10)} | {"a.py": b"x" * (MAX_FILE_BYTES + 1)}
    program = archive(tmp_path / "stored.zip", members)
    texts = texts_of(program, "job.zip", [f"job.zip/{name}" for name in members])
    assert len(texts) == MAX_FILES - 1
    assert "job.zip/a.py" not in texts


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_is_larger_than_it_says_is_not_inflated(tmp_path: Path, compression: int) -> None:
    honest, claimed = 64 << 20, 100
    program = archive(tmp_path / "stored.zip", {"m.py": b"x" * honest}, compression)
    # the size in the directory and in the local header
    data = program.read_bytes().replace(honest.to_bytes(4, "little"), claimed.to_bytes(4, "little"))
    program.write_bytes(data)
    tracemalloc.start()
    try:
        assert texts_of(program, "job.zip", ["job.zip/m.py"]) == {}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert texts_of(tmp_path / "gone.py", "job.py", ["job.py"]) == {}
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK" * 40)
    assert texts_of(broken, "job.zip", ["job.zip/a.py"]) == {}
