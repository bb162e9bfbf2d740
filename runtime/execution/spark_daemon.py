"""The process from which Spark forks its Python workers, with the slots' imports done once, before the forks.

Imports were most of what a start and a restart cost: a second of CPU in each worker. Runs as `python -m`, started by
Spark's JVM on this machine. A fork copies only the thread that forks, so nothing may be imported here that starts
threads which hold locks: gRPC begins with the first server, `FORK_SAFE_ENVIRONMENT` of spark_session.py sees to the
allocators and to OpenBLAS. Polars starts one thread, which sleeps until there are spilled files to delete.
"""

from __future__ import annotations

import gc
import importlib
import sys
import zipimport

from pyspark import daemon

#: What the operators and functions of jobs are unpickled from, and Spark's own loop of a worker. By name: the public
#: packages lie above this one, and are no part of its code.
PRELOADED = (
    "runtime.execution.spark_slot",
    "pyspark.worker",
    "runtime.connectors",
    "runtime.datastream",
    "runtime.datastream.connectors.file_system",
    "runtime.datastream.formats",
    "numpy.random",
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


def main() -> None:
    """Fork workers until Spark ends this process."""
    preload()
    # a collection in a worker would write into every page that it shares with this process
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
