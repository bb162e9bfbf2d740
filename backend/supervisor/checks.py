"""Start-up checks of `make run`; each failure is reported in one line that says what to do."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from pathlib import Path
from typing import TextIO


class StartProblem(Exception):
    """A required resource is missing or taken; the message is one line for the user."""


def prepare_home(home: Path) -> None:
    """Create TIDEMARK_HOME, keep other users of the machine out of it, and check that it is writable.

    A home of an earlier release is closed too, with the files that would let their reader in, should it be moved.

    Raises:
        StartProblem: it cannot.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        for directory in (home / "logs", home / "redis"):
            directory.mkdir(mode=0o700, exist_ok=True)
        for path in home.iterdir():
            if path.is_file() and not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o700)
        probe = home / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StartProblem(f"TIDEMARK_HOME {home} cannot be written to: {error.strerror}") from error


def lock_home(home: Path) -> TextIO:
    """Lock the home for this process; the lock ends when the returned file is closed, or with the process.

    Raises:
        StartProblem: another process holds the lock.
    """
    file = (home / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip()
        file.close()
        by = f" (process {holder})" if holder else ""
        raise StartProblem(
            f"Tidemark already runs in {home}{by}; stop it, or set TIDEMARK_HOME and TIDEMARK_PORT for a second one"
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def check_port(host: str, port: int) -> None:
    """Check that the web process can listen on this address.

    Raises:
        StartProblem: it cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartProblem(
                f"port {port} on {host} cannot be used ({error.strerror}); choose another with TIDEMARK_PORT"
            ) from error


def check_java() -> None:
    """Check that there is a Java installation for Spark.

    Raises:
        StartProblem: there is none.
    """
    java_home = os.environ.get("JAVA_HOME")
    if java_home and not (Path(java_home) / "bin" / "java").exists():
        raise StartProblem(f"JAVA_HOME is {java_home}, but there is no bin/java in it; Spark needs Java 17 or 21")
    if not java_home and shutil.which("java") is None:
        raise StartProblem("no Java was found in JAVA_HOME or PATH; install Java 17 or 21 (`make setup` says how)")


def free_port() -> int:
    """Return a currently free port of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
