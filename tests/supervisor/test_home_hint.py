"""A second terminal is told how it finds a cluster with a home of its own."""

from __future__ import annotations

from pathlib import Path

from backend.supervisor.supervisor import home_hint


def test_a_home_that_tidemark_does_not_find_by_itself_is_told(tmp_path: Path) -> None:
    assert home_hint(tmp_path / ".tidemark", tmp_path) == ""
    assert home_hint(Path(".tidemark"), Path.cwd()) == ""
    home = tmp_path / "my home"
    assert home_hint(home, tmp_path).endswith(f"export TIDEMARK_HOME='{home}'")
