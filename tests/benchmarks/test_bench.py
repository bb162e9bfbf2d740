"""`make bench --quick`: every work runs and all results agree. Nothing is said of speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.timeout(300)
def test_all_works_run_and_agree(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--execution", "mini-cluster"]
    command += ["--directory", str(tmp_path), "--output", str(output)]
    # a process of its own, as a user's: its Polars threads and its children do not outlive it
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    run = json.loads(output.read_text(encoding="utf-8"))
    names = {work["name"] for work in run["works"]}
    assert {
        "ndjson tumbling",
        "parquet sliding",
        "columns ndjson",
        "columns parquet",
        "nexmark q12",
        "state memory",
        "chain reuse off",
    } <= names
    assert {"latency 70 %", "start", "slots state", "keys", "windows records"} <= names
    assert {"checkpoints hashmap few", "checkpoints rocksdb many", "checkpoints incremental", "backends many"} <= names
    assert "| nexmark q11 | tidemark |" in done.stdout
