"""Measures whole programs: from the start of Python to its end, start and stop of Spark included."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import TIDEMARK, Options, Outcome, Target, Work

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
#: what a program on Spark takes at least
BARE: Final = """
from pyspark import SparkConf, SparkContext
SparkContext(conf=SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")).stop()
"""
BARE_CONTEXT: Final = "bare SparkContext"


def program_works(options: Options) -> list[Work]:
    """Return the example of a word count beside a program that only starts and stops a SparkContext."""
    return [
        Work(
            "program",
            "examples/word_count.py as a whole, beside a program that only starts and stops a SparkContext",
            {
                BARE_CONTEXT: partial(_run, options, ["-c", BARE]),
                TIDEMARK: partial(_run, options, [str(EXAMPLES / "word_count.py")]),
            },
            (Target(TIDEMARK, BARE_CONTEXT, at_least=1 / 1.3),),
            compared=False,
        )
    ]


def _run(options: Options, arguments: list[str]) -> Outcome:
    began = time.perf_counter()
    # what it prints is the same each time
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=options.directory,
    )
    return Outcome(time.perf_counter() - began, 1, None)
