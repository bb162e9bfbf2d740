"""A directory that does not answer, as a share whose server is gone: whoever touches what is below it waits."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: what the operating system is asked about a path
_CALLS = ("lstat", "stat", "open", "scandir", "listdir", "mkdir", "readlink", "rename", "replace", "unlink", "rmdir")


class HungStorage:
    """Answers until `hang`, and again after `answer`.

    The thread that made it, which plays the leader's loop, never waits: that it would have is noted in `touched`.

    Args:
        directory: everything below it, and itself, hangs.
        monkeypatch: undoes the patches.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = str(directory)
        self._loop = threading.current_thread()
        self._answers = threading.Event()
        self._answers.set()
        #: where the loop would have waited
        self.touched: list[str] = []
        for name in _CALLS:
            monkeypatch.setattr(os, name, self._hanging(getattr(os, name)))

    def hang(self) -> None:
        """Answer nobody from now on."""
        self._answers.clear()

    def answer(self) -> None:
        """Answer all who wait, and who comes."""
        self._answers.set()

    def _hanging(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def touch(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if not self._answers.is_set() and self._is_below(path):
                if threading.current_thread() is self._loop:
                    self.touched.append("".join(traceback.format_stack(limit=12)))
                    raise TimeoutError(f"{path} does not answer")
                assert self._answers.wait(60), "the test has forgotten that it hangs"
            return call(path, *arguments, **named)

        return touch

    def _is_below(self, path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        text = os.fsdecode(path)
        return text == self._directory or text.startswith(f"{self._directory}/")
