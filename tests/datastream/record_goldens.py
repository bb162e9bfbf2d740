"""Records what real Flink prints for each program of pyflink_programs/, into goldens/<name>.txt.

Not run by the tests. Needs a Python that has apache-flink 2.3.0, and Java 17 on PATH:

    PYTHON_WITH_PYFLINK tests/datastream/record_goldens.py [--batch] [program ...]

With --batch the programs are executed as batches, and goldens_in_batch/ has what they print then.

The programs about Avro need flink-sql-avro-2.3.0.jar, whose path HADOOP_CLASSPATH names.

Imports nothing of the runtime.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {
    **os.environ,
    # Flink starts its workers as `python`
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(HERE / "pyflink_support"),
    # a third of a JVM's work at its start is for compilers and collectors
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main() -> None:
    programs = sorted((HERE / "pyflink_programs").glob("*.py"))
    wanted = {name for name in sys.argv[1:] if name != "--batch"}
    in_batch = "--batch" in sys.argv
    goldens, runner = HERE / "goldens_in_batch" if in_batch else HERE / "goldens", [str(HERE / "in_batch.py")]
    for program in programs:
        if wanted and program.stem not in wanted:
            continue
        run = subprocess.run(
            [sys.executable, *(runner if in_batch else ()), str(program)],
            capture_output=True,
            text=True,
            check=False,
            env=ENVIRONMENT,
        )
        if run.returncode:
            print(f"{program.name} failed on Flink:\n{run.stderr[-3000:]}")
            continue
        golden = goldens / f"{program.stem}.txt"
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(run.stdout)
        print(f"{golden.name}: {len(run.stdout.splitlines())} lines")


if __name__ == "__main__":
    main()
