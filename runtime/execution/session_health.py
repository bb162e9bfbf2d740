"""Tells whether a SparkSession can still run anything. A broken one is never repaired: an application starts another
one, a TaskManager ends.

A JVM may also hang: frozen, out of memory, or swapped out. A call into it then never returns, and py4j knows no timeout
for single calls. So it is asked on a thread of its own, which a JVM that never answers keeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

ANSWER_TIMEOUT_S = 30.0
"""Time after which a JVM that does not answer is given up. Less: a long collection of garbage ends a sound session."""
PATIENCE_S = 1.0
"""Time for which a watch waits for an answer. More: heartbeats are late; less: a busy JVM answers the next question."""
STOPPED = "Spark stopped the session"
_SLICE_S = 1.0
"""Waits are this long and counted, so that the time for which this process itself was frozen counts as one of them."""


class JvmCall:
    """A call into the JVM, on a thread of its own.

    Args:
        call: the call; what it returns is the answer.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._done = threading.Event()
        self._answer: Any = None
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="jvm-call", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the call; returns whether it has ended."""
        left_s = timeout_s
        while left_s > 0 and not self._done.wait(min(left_s, _SLICE_S)):
            left_s -= _SLICE_S
        return self._done.is_set()

    def answer(self) -> Any:
        """Return the answer of a call that has ended.

        Raises:
            Py4JError, OSError: the JVM cannot be called.
        """
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._call()
        except Exception as error:
            self._error = error
        finally:
            self._done.set()


def session_defect(context: SparkContext, timeout_s: float = ANSWER_TIMEOUT_S) -> str | None:
    """Return why the session is useless, in a few words; None if it is sound. Waits for the JVM, within limits.

    Args:
        context: of the session.
        timeout_s: how long the JVM may take to answer.
    """
    ended = _end_of_jvm(context)
    return ended if ended is not None else _defect_by(_question(context), timeout_s)


class SessionWatch:
    """Tells whether a session is sound, again and again, without ever waiting long for its JVM. Any thread.

    Args:
        context: of the session.
        patience_s: how long one question may wait for the JVM.
        timeout_s: how long the JVM may take to answer, in all.
    """

    def __init__(
        self, context: SparkContext, patience_s: float = PATIENCE_S, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._context = context
        self._patience_s = patience_s
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._question: JvmCall | None = None
        self._waited_s = 0.0

    def defect(self) -> str | None:
        """Return why the session is useless, as `session_defect`. None, too, while the JVM may still answer."""
        with self._lock:
            ended = _end_of_jvm(self._context)
            if ended is not None:
                return ended
            question = self._question = self._question or _question(self._context)
            if not question.wait(self._patience_s):
                # only what was waited counts: this process may have been frozen in between
                self._waited_s += self._patience_s
                return _silent(self._timeout_s) if self._waited_s >= self._timeout_s else None
            self._question, self._waited_s = None, 0.0
            return _defect_by(question, 0)


def kill_jvm(context: SparkContext) -> None:
    """Kill the JVM if this process has started it: one that hangs ends in no other way."""
    process = getattr(context._gateway, "proc", None)
    if process is not None:
        process.kill()


def _question(context: SparkContext) -> JvmCall:
    return JvmCall(lambda: context._jsc.sc().isStopped())


def _end_of_jvm(context: SparkContext) -> str | None:
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return f"the JVM ended with {process.returncode}"
    return None


def _defect_by(question: JvmCall, timeout_s: float) -> str | None:
    if not question.wait(timeout_s):
        return _silent(timeout_s)
    try:
        return STOPPED if question.answer() else None
    except (Py4JError, OSError) as error:
        return f"the JVM does not answer: {error}"


def _silent(timeout_s: float) -> str:
    return f"the JVM has not answered for {timeout_s:g} s"
