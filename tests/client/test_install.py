"""The launcher that setup writes runs the command line, from wherever it is called."""

from __future__ import annotations

import os
import shutil
import signal
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


def test_ctrl_c_while_the_command_line_loads_ends_it_without_a_traceback(tmp_path: Path) -> None:
    # stands in for a module that takes its time
    (tmp_path / "argparse.py").write_text("import threading\nprint('loading', flush=True)\nthreading.Event().wait()\n")
    command = [sys.executable, "-m", "runtime.client", "list"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    # a test run in the background may have it ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None and process.stdout.readline() == "loading\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (process.returncode, errors) == (-signal.SIGINT, "")


def test_setup_installs_the_launcher() -> None:
    assert "\nscripts/install_cli.sh\n" in (ROOT / "scripts" / "setup.sh").read_text()
