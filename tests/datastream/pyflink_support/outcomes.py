"""What became of a stream, told alike on Flink and here: its records, or the class of the exception that failed it.

Imported by the programs of pyflink_programs/; imports neither PyFlink nor the runtime.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Any


def show(label: object, stream: Any) -> None:
    """Run the program and print one line: the label, and the records that the stream has or what failed it.

    Args:
        label: what the line begins with.
        stream: a DataStream, or a function that makes one.
    """
    try:
        made = stream() if callable(stream) else stream
        with made.execute_and_collect() as results:
            print(f"{label}: {list(results)!r}")
    except Exception as error:
        print(f"{label}: {failure(error)}")


def show_together(streams: Mapping[str, Any]) -> None:
    """Run one program of many streams of texts and print a line of each; if it fails, one program for each.

    Args:
        streams: label → DataStream of type STRING. What one stream has stays in its order.
    """
    numbered = [
        stream.map(lambda text, number=number: f"{number:03}{text}", stream.get_type())
        for number, stream in enumerate(streams.values())
    ]
    try:
        with numbered[0].union(*numbered[1:]).execute_and_collect() as results:
            texts = list(results)
    except Exception:
        for label, stream in streams.items():
            show(label, stream)
        return
    for number, label in enumerate(streams):
        print(f"{label}: {[text[3:] for text in texts if text.startswith(f'{number:03}')]!r}")


def failure(error: Exception) -> str:
    """ "raised X", with X the builtin exception that a function or a conversion raised; "failed" if none is told."""
    if getattr(builtins, type(error).__name__, None) is type(error):
        return f"raised {type(error).__name__}"
    # a name behind a dot is one of Java's
    names = [name for name in re.findall(r"(?<![.\w])(\w+): ", str(error)) if _is_exception(name)]
    return f"raised {names[-1]}" if names else "failed"


def _is_exception(name: str) -> bool:
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, Exception)
