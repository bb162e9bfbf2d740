"""Terminal: the output of a command, its questions and waits; and the meaning of its exit code."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

SUCCESS = 0
FAILURE = 1
INTERRUPTED = 130


@dataclass(slots=True)
class Terminal:
    """Writes a command's output, asks and waits."""

    out: TextIO
    err: TextIO
    ask: Callable[[str], bool] | None = None
    """Asks a yes-or-no question; None if nobody is there to answer."""
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    as_json: bool = False
    """For a script: `out` gets the result as JSON and nothing else, everything for people goes to `err`."""
    is_wide: bool = False
    """Whether tables are shown whole, however narrow the terminal is."""
    _open_line: int = field(default=0, init=False)

    @property
    def people(self) -> TextIO:
        """Return the stream for lines that people read."""
        return self.err if self.as_json else self.out

    @property
    def columns(self) -> int | None:
        """Return the width that tables must fit into; None where nothing is cut: in a file, a pipe, or if so wished."""
        if self.is_wide or not self.people.isatty():
            return None
        return shutil.get_terminal_size().columns

    def line(self, text: str) -> None:
        """Write a line of output."""
        self.close_line()
        print(text, file=self.people, flush=True)

    def result(self, document: Any, *lines: str) -> None:
        """Write the command's result: the document as JSON if that was asked for, else the lines."""
        if self.as_json:
            self.close_line()
            print(json.dumps(document, indent=1), file=self.out, flush=True)
        else:
            for line in lines:
                self.line(line)

    def status(self, text: str) -> None:
        """Replace the line at the bottom of a terminal."""
        # a line that wraps could not be replaced
        text = text[: shutil.get_terminal_size().columns - 1]
        padding = " " * max(0, self._open_line - len(text))
        print(f"\r{text}{padding}", end="", file=self.people, flush=True)
        self._open_line = len(text)

    def close_line(self) -> None:
        """Leave the status line as it is."""
        if self._open_line:
            self._open_line = 0
            print(file=self.people, flush=True)

    def complain(self, text: str) -> None:
        """Write a line to stderr."""
        self.close_line()
        print(f"tidemark: {text}", file=self.err, flush=True)
