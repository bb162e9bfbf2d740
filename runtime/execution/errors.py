"""Errors that keep a job from running, each a single line that says what to do."""

from __future__ import annotations


class ExecutionError(Exception):
    """Base of this package's errors."""


class JavaMissingError(ExecutionError):
    """Spark needs Java 17 or newer, and none was found."""


class SparkUnavailableError(ExecutionError):
    """The Spark session could not be started, or the cluster's master cannot be reached."""


class UnknownTargetError(ExecutionError):
    """`execution.target` names no kind of execution."""


class ApplicationError(ExecutionError):
    """An application with a `high-availability.cluster-id` cannot run its job here; nothing of it was changed."""


class ApplicationRunningError(ApplicationError):
    """Another process runs the application, or this one has done so."""


class ApplicationReplacedError(ApplicationError):
    """Another process has taken the application over, and this one may complete nothing any more."""


class ApplicationStateGoneError(ApplicationError):
    """Files that say what the application is to resume from were deleted."""


class JobExecutionError(ExecutionError):
    """The job ended without finishing.

    Args:
        message: one line: the job, its state and the first cause.
        details: the cause in full, as it was logged in the slot; may be empty.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class JobCanceledError(JobExecutionError):
    """The job was cancelled."""
