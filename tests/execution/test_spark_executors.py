"""Executors of a session, as Spark tells them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from runtime.execution.spark_executors import SparkExecutors

ROOT = Path(__file__).resolve().parent.parent.parent

LOCAL = """
from runtime.common.configuration import Configuration
from runtime.execution.spark_executors import SparkExecutors
from runtime.execution.spark_session import acquire_context

context = acquire_context(Configuration(), 2)
executors = SparkExecutors(context, 60.0)
context.parallelize(range(8), 4).count()
while (found := executors.look())[0]["completed_tasks"] < 4:
    pass
[driver] = found
assert (driver["id"], driver["is_active"], driver["failed_tasks"]) == ("driver", True, 0), driver
assert driver["cores"] >= 2 and driver["memory_max"] > 0 and ":" in driver["address"], driver
assert SparkExecutors(context, 60.0).look()[0]["id"] == "driver"
context.stop()
"""

STAGES = """
from runtime.common.configuration import Configuration
from runtime.execution.spark_pass import beginning, beginning_anew
from runtime.execution.spark_session import acquire_context

def output_of_two_stages(rows):
    pairs = rows.mapPartitions(lambda _: [(0, 0)]).repartitionAndSortWithinPartitions(2).mapPartitions(list)
    return pairs._jrdd.rdd().outputDeterministicLevel().toString()

context = acquire_context(Configuration(), 2)
assert output_of_two_stages(beginning(context, 2)) != "INDETERMINATE"
anew = beginning_anew(context, 3)
assert output_of_two_stages(anew) == "INDETERMINATE"
assert anew.glom().collect() == [[(0, 0)], [(1, 1)], [(2, 2)]]
context.stop()
"""


def test_a_local_session_has_its_driver_alone() -> None:
    ran = subprocess.run([sys.executable, "-c", LOCAL], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


def test_spark_knows_that_output_of_a_batch_which_an_executor_loses_is_another_one_next_time() -> None:
    ran = subprocess.run([sys.executable, "-c", STAGES], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


class HungJvm:
    """Stands for a context whose JVM does not answer before it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.questions = 0
        self._jsc = self

    def sc(self) -> HungJvm:
        self.questions += 1
        self.may_answer.wait(30)
        raise OSError("the JVM has ended")


def test_a_jvm_that_does_not_answer_is_asked_once_and_not_waited_for() -> None:
    jvm: Any = HungJvm()
    executors = SparkExecutors(jvm, 0.01)
    assert executors.look() == executors.look() == []
    assert jvm.questions == 1
    jvm.may_answer.set()
    assert executors.look() == []
