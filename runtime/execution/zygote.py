"""A process with the slots' imports done, from which Spark's Python daemon and its workers are forked.

Imports were most of what a start and a restart cost: a second of CPU in each worker. On local masters the program
starts its zygote together with the JVM, so that both are ready at the same time; `spark_daemon`, which the JVM starts,
hands over its streams. A fork copies only the thread that forks, so nothing may be imported here that starts threads
which hold locks: gRPC begins with the first server, `FORK_SAFE_ENVIRONMENT` of spark_session.py sees to the allocators
and to OpenBLAS. Polars starts one thread, which sleeps until there are spilled files to delete.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
import zipimport
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pyspark import daemon

from runtime.execution.spark_daemon import STANDARD_STREAMS

#: What the operators and functions of jobs are unpickled from, and Spark's own loop of a worker. By name: the public
#: packages lie above this one, and are no part of its code.
PRELOADED = (
    "runtime.execution.spark_slot",
    "runtime.execution.passes.stage_functions",
    "pyspark.worker",
    "runtime.connectors",
    "runtime.datastream",
    "runtime.datastream.connectors.file_system",
    "runtime.datastream.formats",
    "numpy.ma",
    "numpy.random",
    # Spark's shuffle asks it how much memory a worker has taken
    "psutil",
    "pyarrow.compute",
    "pyarrow.parquet",
)


def preload() -> None:
    """Import all that workers will need."""
    for name in PRELOADED:
        importlib.import_module(name)
    # Each worker begins with importlib.invalidate_caches(), at which every finder of a zip reads that zip's directory
    # anew: PySpark's has one finder per package, together 0.15 s of CPU. They are made again when they are needed.
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def read_zips(path: Iterable[str]) -> None:
    """Read the directories of the zips on a path, which this process and its workers then know.

    A worker that imports a module which it does not have yet, or which there is not, asks every place of its path; it
    would read those of PySpark's zips itself, 0.04 s of CPU in each task.
    """
    for place in path:
        # a directory is none
        with suppress(ImportError):
            zipimport.zipimporter(place)


def run_daemon() -> None:
    """Fork workers until Spark ends this process."""
    preload()
    _settle()
    daemon.manager()


def serve(listener: socket.socket) -> None:
    """Fork a daemon for each process that asks for one, until stdin ends."""
    preload()
    _settle()
    # children are reaped by the kernel
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    waiting = select.poll()
    for file in (sys.stdin.fileno(), listener.fileno()):
        waiting.register(file, select.POLLIN)
    while True:
        ready = [file for file, _ in waiting.poll()]
        if sys.stdin.fileno() in ready:
            return
        with listener.accept()[0] as connection:
            if os.fork() == 0:
                listener.close()
                _become_daemon(connection)


def _become_daemon(connection: socket.socket) -> NoReturn:
    """Take over the streams, arguments and environment of the process that asks, and be Spark's daemon."""
    code = 1
    try:
        head, files, _, _ = socket.recv_fds(connection, 8, len(STANDARD_STREAMS))
        with connection.makefile("rb") as body:
            request = json.loads(body.read(int.from_bytes(head, "big")))
        for file, stream in zip(files, STANDARD_STREAMS, strict=True):
            os.dup2(file, stream)
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["directory"])
        sys.argv[:] = request["arguments"]
        sys.path[:] = request["path"]
        read_zips(sys.path)
        connection.sendall(b"y")
        daemon.manager()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _settle() -> None:
    # a collection in a worker would write into every page that it shares with this process
    gc.collect()
    gc.freeze()


def main() -> None:
    """Serve at the socket of which the argument is the file descriptor; take its directory away in the end, as whoever
    has started this process may have been killed."""
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        place = Path(listener.getsockname())
        serve(listener)
        shutil.rmtree(place.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
