"""A Spark standalone cluster from the pip package: one Master and workers, real processes on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent


@contextmanager
def standalone_cluster(directory: Path, workers: int, cores: int) -> Iterator[str]:
    """Start a cluster; gives its master URL, and ends every process of it.

    Args:
        directory: for logs and work directories.
        workers: how many.
        cores: of each worker.
    """
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(directory / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as target:
            command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
            processes.append(subprocess.Popen(command, env=environment, stdout=target, stderr=subprocess.STDOUT))
        return log

    try:
        master = "org.apache.spark.deploy.master.Master"
        log = start("master", master, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = re.compile(r"Starting Spark master at (spark://\S+)")
        wait_until(lambda: url.search(log.read_text()) is not None, 60, "the master's start")
        match = url.search(log.read_text())
        assert match is not None
        for index in range(workers):
            worker = "org.apache.spark.deploy.worker.Worker"
            start(f"worker-{index}", worker, "--cores", str(cores), "--memory", "2g", "--webui-port", "0", match[1])
        wait_until(
            lambda: log.read_text().count("Registering worker") == workers, 60, f"registration of {workers} workers"
        )
        yield match[1]
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(20)
