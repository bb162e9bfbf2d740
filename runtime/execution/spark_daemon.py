"""The process that Spark forks its Python workers from, with what every slot imports imported once, before the forks.

Imports were most of what a restart cost: a second of CPU in each worker. Runs as `python -m`, started by Spark's JVM on
this machine. A fork copies only the thread that forks, so nothing that starts threads may be imported here: gRPC begins
with the first server, Polars is left to the slots, `FORK_SAFE_ENVIRONMENT` of spark_session.py sees to the rest.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import runtime.execution.spark_slot  # noqa: F401 - for what it imports


def main() -> None:
    """Fork workers until Spark has had enough."""
    # a collection in a worker would write into every page that it shares with this process
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
