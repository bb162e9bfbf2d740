"""requirements.lock: the image installs what requirements.txt pins, and compares the hash of each file."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.M)


def pins(name: str) -> dict[str, str]:
    """Return package → version of a file of requirements; packages by their normalized names."""
    text = (ROOT / name).read_text()
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in PIN.findall(text)}


def test_the_lock_has_the_pinned_versions_and_no_others() -> None:
    assert pins("requirements.lock") == pins("requirements.txt"), "run `make lock`"


def test_every_package_has_hashes() -> None:
    entries = PIN.split((ROOT / "requirements.lock").read_text())[3::3]
    assert len(entries) == len(pins("requirements.txt"))
    for entry in entries:
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry)
        assert hashes and entry.count("--hash") == len(hashes)


def test_the_image_is_made_from_the_lock() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    [install] = re.findall(r"pip install .*", text)
    assert "--require-hashes" in install and "requirements.lock" in install and "COPY requirements.lock" in text


def test_every_pin_is_exact() -> None:
    for name in ("requirements.txt", "requirements-dev.txt", "requirements-tools.txt"):
        lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
        assert all(PIN.match(line) or line.startswith("-r ") for line in lines if line), name
