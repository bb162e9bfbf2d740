"""Runs a PyFlink program on Flink as a batch, although it sets no mode; record_goldens.py does so.

    PYTHON_WITH_PYFLINK tests/datastream/in_batch.py PROGRAM

Imports nothing of the runtime.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def main() -> None:
    program = sys.argv[1]
    get = StreamExecutionEnvironment.get_execution_environment

    def in_batch(*args: Any, **kwargs: Any) -> Any:
        environment = get(*args, **kwargs)
        environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
        return environment

    StreamExecutionEnvironment.get_execution_environment = staticmethod(in_batch)
    sys.argv = [program]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
