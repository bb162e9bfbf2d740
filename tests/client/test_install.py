"""The launcher that setup writes runs the command line, from wherever it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from runtime import __version__

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_launcher_runs_the_command_line_through_a_link(tmp_path: Path) -> None:
    tree = tmp_path / "a tree"
    (tree / "scripts").mkdir(parents=True)
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").symlink_to(sys.executable)
    script = shutil.copy(ROOT / "scripts" / "install_cli.sh", tree / "scripts")
    subprocess.run(["sh", script], check=True)
    link = tmp_path / "tidemark"
    link.symlink_to(tree / ".venv" / "bin" / "tidemark")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([link, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == f"tidemark {__version__}\n"


def test_setup_installs_the_launcher() -> None:
    assert "\nscripts/install_cli.sh\n" in (ROOT / "scripts" / "setup.sh").read_text()
