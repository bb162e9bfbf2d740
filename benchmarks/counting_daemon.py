"""Spark's daemon of Python workers, for measurements: it writes down how much CPU time each worker has taken.

Nobody else knows: the daemon does not wait for its workers, so that no figure of their parents has them in it.
`spark.python.daemon.module` names this module.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from runtime.execution import zygote

#: environment variable: the file, a line of seconds for each worker that has ended
CPU_FILE = "TIDEMARK_BENCH_CPU"


def main() -> None:
    """Be the daemon."""
    end, path = os._exit, Path(os.environ[CPU_FILE])

    def end_counted(status: int) -> NoReturn:
        # a worker's last call; a fork begins with none of its parent's time
        times = os.times()
        with path.open("a") as file:
            file.write(f"{times.user + times.system}\n")
        end(status)

    os._exit = end_counted
    zygote.run_daemon()


def seconds_of_workers(path: Path) -> float:
    """Return the CPU time of all workers that have ended."""
    return sum(map(float, path.read_text().split())) if path.exists() else 0.0


if __name__ == "__main__":
    main()
