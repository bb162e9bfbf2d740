"""Errors on the way from a program to a job, each with a one-line message."""

from __future__ import annotations

OUTPUT_HEADING = "Output of the program:"
"""Line among the errors of a refused program after which its output follows."""


class ClientError(Exception):
    """Base of this package's errors; the message is one line for the user."""


class ExtractionAbandonedError(ClientError):
    """Nobody wants the job of a program any more; the program was killed."""


class ExtractionError(ClientError):
    """A program did not yield a job.

    Args:
        message: one line; names the user's file and line where there is one.
        traceback: the frames of the user's own code, and the error; "" if there are none.
        output: what the program printed last.
    """

    def __init__(self, message: str, traceback: str = "", output: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback
        self.output = output


def late_text(name: str, timeout_s: float) -> str:
    """Describe that a program has used up its time."""
    return f"{name} did not get to execute() within {timeout_s:g} s and was stopped"
