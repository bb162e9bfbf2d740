"""The zygote of this process: started with the first embedded session, and ended with the process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

#: Seconds in which a zygote ends once its stdin is closed.
END_S: Final = 5.0


class ZygoteProcess:
    """A process that imports the engine, and then forks Spark's daemons.

    Args:
        environment: for its workers, beside this process's own variables.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        # nobody else may enter: who connects has code run
        self._directory = Path(tempfile.mkdtemp(prefix="tidemark-zygote-"))
        self.socket = self._directory / "socket"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(self.socket))
                listener.listen()
                self._process = subprocess.Popen(
                    # the last word is for those who look at a list of processes: workers have the same command line
                    [sys.executable, "-m", "runtime.execution.zygote", str(listener.fileno()), "pyspark.worker"],
                    stdin=subprocess.PIPE,
                    env={**os.environ, **environment},
                    pass_fds=[listener.fileno()],
                    # an interrupt at the terminal is for the program
                    start_new_session=True,
                )
        except OSError:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it; daemons that it has forked live on."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
