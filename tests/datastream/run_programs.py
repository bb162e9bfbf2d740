"""Runs programs one after the other in this process, and tells what each printed; one interpreter start for them all.

    python tests/datastream/run_programs.py PROGRAM ...

`pyflink` is replaced by `runtime` in each. Writes one JSON list [[name, printed, error or null], ...] to stdout.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
import types
from pathlib import Path


def run(program: Path) -> tuple[str, str, str | None]:
    """(name, what it printed, traceback if it failed)."""
    main = types.ModuleType("__main__")
    main.__file__ = str(program)
    code = compile(program.read_text(encoding="utf-8").replace("pyflink", "runtime"), str(program), "exec")
    printed = io.StringIO()
    error = None
    # user classes are pickled by value because they belong to the main program
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    arguments, sys.argv = sys.argv, [str(program)]
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, main.__dict__)
    except BaseException:
        error = traceback.format_exc()
    finally:
        sys.modules["__main__"] = before
        sys.argv = arguments
    return program.stem, printed.getvalue(), error


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent / "pyflink_support"))
    # the list goes to the real stdout; what a program leaves in a thread must not mix with it
    print(json.dumps([run(Path(name)) for name in sys.argv[1:]]))
