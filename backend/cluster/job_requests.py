"""JobRequests: operations that one job's JobMaster is carrying out, and their results.

Begun and read by the jobmanager's loop, answered by the driver's thread. A result (a savepoint's location, or an error)
is a JSON value for the operation's row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from backend.cluster.models import Operation
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.driver import JobMasterDriver, JobNotRunningError
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.rescaling import RescaleError

Document = dict[str, Any]

SAVEPOINT_FORMATS: Mapping[str, SnapshotKind] = {"CANONICAL": SnapshotKind.CANONICAL, "NATIVE": SnapshotKind.FULL}
CHECKPOINT_TYPES: Mapping[str, SnapshotKind | None] = {
    "CONFIGURED": None,
    "FULL": SnapshotKind.FULL,
    "INCREMENTAL": SnapshotKind.INCREMENTAL,
}


class JobRequests:
    """Requests that are open for one job.

    Args:
        driver: the driver of its JobMaster.
        rescale: carries out a RESCALE operation with these parameters; may raise RescaleError.
    """

    def __init__(
        self, driver: JobMasterDriver, rescale: Callable[[Mapping[str, Any]], Future[RequestAnswered]]
    ) -> None:
        self._driver = driver
        self._rescale = rescale
        self._begun: dict[str, tuple[Operation, Future[RequestAnswered]]] = {}

    @property
    def trigger_ids(self) -> frozenset[str]:
        """The operations that were handed over and not forgotten."""
        return frozenset(self._begun)

    @property
    def is_open(self) -> bool:
        """True if a request is not answered yet."""
        return not all(future.done() for _, future in self._begun.values())

    def begin(self, operation: Operation) -> None:
        """Hand an operation to the JobMaster; a savepoint goes to the directory in its progress."""
        try:
            asked = self._ask(operation)
        except RescaleError as error:
            asked = _refused(str(error))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            asked = _refused(f"its parameters cannot be read: {error!r}")
        self._begun[operation.trigger_id] = (operation, asked)

    def conclude(self, operation: Operation, location: str, checkpoint_id: CheckpointId) -> None:
        """Hand over an operation whose savepoint an earlier JobMaster has taken: the job is then cancelled."""
        self._begun[operation.trigger_id] = (operation, self._driver.cancel_behind(location, checkpoint_id))

    def answers(self, *, is_ending: bool) -> dict[str, Document]:
        """Return results by trigger id, until `forget`; premature requests have none.

        Args:
            is_ending: whether the job has ended or is CANCELLING. A successful stop, or savepoint with cancellation, is
                reported only when SQL records that its job ends: if it were saved earlier and the end lost with this
                process, the next leader would continue the job.
        """
        return {
            trigger_id: _result(future)
            for trigger_id, (operation, future) in self._begun.items()
            if future.done()
            and not _is_premature(future)
            and (is_ending or not _ends_job(operation) or future.exception() is not None)
        }

    @property
    def premature(self) -> Mapping[str, str]:
        """The operations that were not begun because the job did not run at that moment, with the reason; they may be
        handed over again.
        """
        begun = self._begun.items()
        return {name: str(future.exception()) for name, (_, future) in begun if future.done() and _is_premature(future)}

    def forget(self, trigger_ids: Iterable[str]) -> None:
        """Drop results that have been saved."""
        for trigger_id in trigger_ids:
            self._begun.pop(trigger_id, None)

    def _ask(self, operation: Operation) -> Future[RequestAnswered]:
        given = operation.parameters
        match operation.kind:
            case Operation.Kind.SAVEPOINT | Operation.Kind.STOP:
                directory = (operation.progress or {}).get("directory")
                return self._savepoint(given, _after(operation), directory)
            case Operation.Kind.CHECKPOINT:
                return self._driver.trigger_checkpoint(CHECKPOINT_TYPES[given.get("type", "CONFIGURED")])
            case Operation.Kind.RESCALE:
                return self._rescale(given)
            case _:
                return _refused(f"unknown operation {operation.kind!r}")

    def _savepoint(
        self, given: Mapping[str, Any], after: AfterSavepoint, directory: str | None
    ) -> Future[RequestAnswered]:
        kind, target = SAVEPOINT_FORMATS[given.get("format", "CANONICAL")], given.get("target_directory") or None
        return self._driver.trigger_savepoint(target, after=after, kind=kind, directory=directory)


def _ends_job(operation: Operation) -> bool:
    """Return whether the job ends with the operation, if that succeeds."""
    return operation.kind == Operation.Kind.STOP or bool(operation.parameters.get("cancel_job"))


def _after(operation: Operation) -> AfterSavepoint:
    """Return what the job does after the operation's savepoint."""
    given = operation.parameters
    if operation.kind == Operation.Kind.STOP:
        return AfterSavepoint.DRAIN if given.get("drain") else AfterSavepoint.SUSPEND
    return AfterSavepoint.CANCEL if given.get("cancel_job") else AfterSavepoint.GO_ON


class _Refused(Exception):
    """The operation was refused before it began."""


def _is_premature(future: Future[RequestAnswered]) -> bool:
    return isinstance(future.exception(), JobNotRunningError)


def _refused(why: str) -> Future[RequestAnswered]:
    future: Future[RequestAnswered] = Future()
    future.set_exception(_Refused(why))
    return future


def _result(future: Future[RequestAnswered]) -> Document:
    error = future.exception()
    if error is not None:
        # PostgreSQL keeps no NUL
        return {"error": str(error).replace("\0", "\ufffd")}
    answer = future.result()
    return {"location": answer.location, "checkpoint_id": answer.checkpoint_id}
