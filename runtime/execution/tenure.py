"""Tenure: the time for which this process runs the job of an application that has a `high-availability.cluster-id`.

`begin` finds out which job the application has, ended or not, and takes it over from a process that has died. From then
on the log of the application, and that of the job's checkpoints, refuse whatever the replaced process still tries.
`end` must follow. The log says what is true; signs of life only tell others when to try.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.checkpoint.application_log import ApplicationEntry, ApplicationLog, Standing
from runtime.checkpoint.completed_store import CheckpointPointer
from runtime.checkpoint.errors import CheckpointStorageError, FencedError, JobOverError
from runtime.checkpoint.file_completed_store import FileCompletedStore, LogEntry
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.layout import completed_directory, job_directory
from runtime.checkpoint.locations import to_uri
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode
from runtime.checkpoint.state_files import default_file_system
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, JobId, new_job_id
from runtime.execution.errors import (
    ApplicationError,
    ApplicationReplacedError,
    ApplicationRunningError,
    ApplicationStateGoneError,
)
from runtime.execution.holder_watch import BEAT_MS, GONE_MS, LOOK_MS, START_MS, TAKE_OVER_MS, HolderWatch, Verdict
from runtime.execution.process_identity import has_ended, this_process
from runtime.state.handles import DamagedSnapshotError

logger = logging.getLogger(__name__)

_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NO_EPOCH: Final = 0

_lock = threading.Lock()
#: directories of the applications whose jobs this process runs, or has brought to an end; not those that it has found
#: ended; guarded by the lock
_served: set[str] = set()


@dataclass(frozen=True, slots=True)
class Application:
    """An application as its program names it."""

    application_id: str
    root: str
    """URI of the checkpoint directory."""
    restore_path: str = ""
    """URI of the snapshot that the program wants to start from; empty: none."""
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    """Ownership of that snapshot."""

    @classmethod
    def of(cls, configuration: Configuration) -> Application | None:
        """Return the application that a program's options name; None: it has none.

        Raises:
            ConfigurationError: the id cannot be one, or there is no directory for its checkpoints.
        """
        application_id = configuration.get(options.HA_CLUSTER_ID)
        if not application_id:
            return None
        if not _ID.fullmatch(application_id):
            raise ConfigurationError(
                options.HA_CLUSTER_ID.key, application_id, "1 to 100 letters, digits, '_', '.' and '-'"
            )
        settings = CheckpointSettings.from_configuration(configuration)
        if settings.directory is None:
            raise ConfigurationError(
                options.CHECKPOINT_DIRECTORY.key,
                "",
                f"a directory that outlives this process, for {options.HA_CLUSTER_ID.key} {application_id}",
            )
        if not settings.is_enabled:
            logger.warning(
                "application %s takes no checkpoints and can only start over: set %s",
                application_id,
                options.CHECKPOINTING_INTERVAL.key,
            )
        root = to_uri(settings.directory)
        if settings.restore is None:
            return cls(application_id, root)
        return cls(application_id, root, to_uri(settings.restore.path), settings.restore.claim_mode)


class Tenure:
    """An application's job in this process. Made by `begin`; methods may be called by any thread.

    Args:
        log: of the application.
        entry: its newest entry: this process's own, unless the job has ended.
        outcome: how the job has ended already; None: it has not, and is to be run here.
        advice: what to do if the job cannot resume.
        has_directory: whether the job's directory is there; may raise OSError.
    """

    def __init__(
        self,
        log: ApplicationLog,
        entry: ApplicationEntry,
        outcome: JobOutcome | None,
        advice: str = "",
        has_directory: Callable[[], bool] = lambda: True,
    ) -> None:
        assert entry.job_id is not None
        self.job_id: JobId = entry.job_id
        self.epoch = entry.epoch
        self.first_attempt = entry.attempt
        self.outcome = outcome
        self.advice = advice
        self._log = log
        self._has_directory = has_directory
        self._lock = threading.Lock()
        #: the newest entry of this process, guarded by the lock
        self._entry = entry
        #: one whose append failed, so that it may be in the log; guarded by the lock
        self._unsure: ApplicationEntry | None = None
        self._is_over = threading.Event()
        self._beats: threading.Thread | None = None

    def record_attempt(self, attempt: Attempt) -> None:
        """Make an attempt's number durable; it may begin when this has returned.

        Raises:
            ApplicationReplacedError: another process runs the application.
            OSError: the storage cannot be reached.
        """
        with self._lock:
            self._settle()
            if attempt > self._entry.attempt:
                self._amend(attempt=attempt)

    def has_begun_from(self, application: Application) -> bool:
        """Return whether the job began from the snapshot, and with the claim mode, that its program names now; else it
        must neither restore from that snapshot nor delete it.
        """
        with self._lock:
            begun_from = (self._entry.restore_path, self._entry.claim_mode)
        return begun_from == (application.restore_path, application.claim_mode)

    def record_restore(self, application: Application) -> None:
        """Make durable that the job begins from the snapshot that its program names now.

        Raises:
            ApplicationReplacedError: another process runs the application.
            OSError: the storage cannot be reached.
        """
        with self._lock:
            self._settle()
            self._amend(restore_path=application.restore_path, claim_mode=application.claim_mode)

    def _amend(self, **changes: Any) -> None:
        """Append the newest entry with changes; the lock is held."""
        self._append(replace(self._entry, number=self._entry.number + 1, **changes))

    def start_beating(self, fail: Callable[[Exception], None]) -> None:
        """Give signs of life from now on.

        Args:
            fail: called once, by a thread of its own, with the error that ends this tenure.
        """
        self._beats = threading.Thread(target=self._beat, args=(fail,), name="application-beats", daemon=True)
        self._beats.start()

    def end(self, *, is_job_over: bool) -> None:
        """Say that this process runs the job no more, so that the next one need not wait.

        Args:
            is_job_over: whether the job has ended for good: if it ran here, this process can run no other one under
                the id.
        """
        self._is_over.set()
        if self._beats is not None:
            self._beats.join(BEAT_MS / 1000.0)
        if not is_job_over or self.outcome is not None:
            with _lock:
                _served.discard(self._log.directory)
        if self.outcome is not None:
            return
        try:
            with self._lock:
                self._settle()
                self._append(replace(self._entry, number=self._entry.number + 1, holder=None))
        except Exception:
            # the next process waits for a sign of life; whoever waits for this job's end must not
            logger.info("the log %s was left as it is", self._log.directory, exc_info=True)

    def _append(self, entry: ApplicationEntry) -> None:
        self._unsure = entry
        if not self._log.append(entry):
            self._unsure = None
            raise self._replaced()
        self._entry, self._unsure = entry, None

    def _settle(self) -> None:
        """Find out whether an entry is in the log whose append failed: else it would be taken for another process's.

        Raises:
            OSError: the storage cannot be reached; it is not known yet.
        """
        if self._unsure is not None:
            if self._log.last() == self._unsure:
                self._entry = self._unsure
            self._unsure = None

    def _replaced(self) -> ApplicationReplacedError:
        try:
            last = self._log.last()
        except (OSError, DamagedSnapshotError):
            last = None
        who = "another process" if last is None or last.holder is None else str(last.holder)
        return ApplicationReplacedError(
            f"{who} has taken over job {self.job_id} of {self._log.directory}: "
            "this process was taken for dead, and has completed nothing since"
        )

    def _beat(self, fail: Callable[[Exception], None]) -> None:
        count = 0
        gone_since_ms: float | None = None
        while not self._is_over.wait(0.0 if count == 0 else BEAT_MS / 1000.0):
            count += 1
            try:
                with self._lock:
                    self._settle()
                    standing = self._log.beat(self._entry, count)
                    if standing is Standing.HOLDS and not self._has_directory():
                        standing = Standing.GONE
            except (OSError, DamagedSnapshotError) as error:
                # nobody else can take over as long as the storage does not answer
                logger.warning("application log %s cannot be written: %s", self._log.directory, error)
                continue
            if standing is Standing.HOLDS:
                gone_since_ms = None
            elif standing is Standing.REPLACED:
                fail(self._replaced())
                return
            else:
                now_ms = time.monotonic() * 1000.0
                gone_since_ms = now_ms if gone_since_ms is None else gone_since_ms
                if now_ms - gone_since_ms >= GONE_MS:
                    fail(
                        ApplicationStateGoneError(
                            f"{self._log.directory}, or the directory of its job {self.job_id} beside it, was deleted "
                            "while the job was running: nothing can be completed any more"
                        )
                    )
                    return


def begin(application: Application, files: CheckpointFileSystem | None = None) -> Tenure:
    """Begin to run an application's job; waits until a former process is known to be dead.

    Returns:
        The tenure of the job, or with an `outcome` if it has ended and nothing is to be run.

    Raises:
        ApplicationRunningError: the application is running.
        ApplicationStateGoneError: the job's directory is gone.
        ApplicationError: its log cannot be read or written.
    """
    files = files if files is not None else default_file_system()
    log = ApplicationLog(application.root, application.application_id, files)
    with _lock:
        if log.directory in _served:
            raise ApplicationRunningError(
                f"this process has run the job of application {application.application_id} already: give each job an "
                f"id of its own, by setting {options.HA_CLUSTER_ID.key} anew before execute()"
            )
        _served.add(log.directory)
    try:
        return _begin(application, log, files)
    except BaseException as error:
        with _lock:
            _served.discard(log.directory)
        if isinstance(error, OSError | CheckpointStorageError | DamagedSnapshotError):
            raise ApplicationError(f"application {application.application_id} cannot be begun: {error}") from error
        raise


def forget(application: Application, files: CheckpointFileSystem | None = None) -> JobId | None:
    """Forget an application's job, ended or not, and delete its checkpoints; the next start begins a new one.

    Returns:
        The job, also if it was forgotten before and only its checkpoints were left; None: there was none.

    Raises:
        ApplicationRunningError: the application is running.
        ApplicationError: its files cannot be read, written or deleted.
    """
    files = files if files is not None else default_file_system()
    log = ApplicationLog(application.root, application.application_id, files)
    try:
        while (last := _vacant(application, log)) is not None:
            if last.job_id is not None:
                leftovers = (*last.leftovers, last.job_id)
                number, epoch = last.number + 1, last.epoch + 1
                empty = replace(
                    last,
                    number=number,
                    epoch=epoch,
                    job_id=None,
                    restore_path="",
                    claim_mode=None,
                    holder=None,
                    leftovers=leftovers,
                )
                if not log.append(empty):
                    continue
                last = empty
            if not last.leftovers:
                break
            for job_id in last.leftovers:
                files.delete_directory(job_directory(application.root, job_id))
            # if another process has begun meanwhile, it finds them gone
            log.append(replace(last, number=last.number + 1, leftovers=()))
            return last.leftovers[-1]
    except (OSError, CheckpointStorageError, DamagedSnapshotError) as error:
        raise ApplicationError(f"application {application.application_id} cannot be forgotten: {error}") from error
    return None


def _begin(application: Application, log: ApplicationLog, files: CheckpointFileSystem) -> Tenure:
    me = this_process()
    while True:
        last = log.last()
        life = None if last is None or last.job_id is None else _life(application, last.job_id, files)
        is_over = False
        if last is not None and life is not None and life.outcome is not None:
            is_over = True
            if application.restore_path in ("", last.restore_path):
                return _ended(application, log, last, life.outcome)
        if _vacant(application, log) != last:
            continue
        taken = ApplicationEntry(
            number=0 if last is None else last.number + 1,
            job_id=None if last is None or is_over else last.job_id,
            epoch=1 if last is None else last.epoch + 1,
            attempt=Attempt(0 if last is None else last.attempt + 1),
            restore_path="" if last is None else last.restore_path,
            claim_mode=None if last is None else last.claim_mode,
            holder=me,
            leftovers=_leftovers(application, last, files),
        )
        if taken.job_id is None:
            taken = replace(
                taken,
                job_id=(job_id := new_job_id()),
                attempt=Attempt(0),
                restore_path=application.restore_path,
                claim_mode=application.claim_mode,
            )
            # first of all: a job that the log names has a directory
            FileCompletedStore.open(application.root, job_id, taken.epoch, files)
            if log.append(taken):
                logger.info("application %s begins as job %s", application.application_id, job_id)
                return _tenure(log, taken, application, files)
            files.delete_directory(job_directory(application.root, job_id))
        elif life is not None and log.append(taken):
            return _resumed(log, taken, life.retained, application, files)


def _resumed(
    log: ApplicationLog,
    entry: ApplicationEntry,
    retained: Sequence[CheckpointPointer],
    application: Application,
    files: CheckpointFileSystem,
) -> Tenure:
    """Return the tenure of a job that another process has begun.

    Args:
        log: of the application.
        entry: this process's own.
        retained: the job's checkpoints before that entry.
        application: as its program names it now.
        files: the file system.
    """
    tenure = _tenure(log, entry, application, files)
    try:
        if not tenure.has_begun_from(application):
            # the other process may have completed a checkpoint since; from now on it cannot
            retained = FileCompletedStore.open(application.root, tenure.job_id, entry.epoch, files).retained()
            if not retained:
                tenure.record_restore(application)
    except (FencedError, JobOverError):
        # whoever opens the job's log to run it is told the same
        return tenure
    except BaseException:
        tenure.end(is_job_over=False)
        raise
    _tell_resumed(application, tenure.job_id, retained)
    return tenure


def _leftovers(
    application: Application, last: ApplicationEntry | None, files: CheckpointFileSystem
) -> tuple[JobId, ...]:
    """Delete the directories of forgotten jobs; return the jobs whose directories could not be deleted."""
    left = []
    for job_id in () if last is None else last.leftovers:
        try:
            files.delete_directory(job_directory(application.root, job_id))
        except OSError as error:
            logger.warning("what is left of job %s could not be deleted: %s", job_id, error)
            left.append(job_id)
    return tuple(left)


def _vacant(application: Application, log: ApplicationLog) -> ApplicationEntry | None:
    """Wait until nobody runs the application; returns the newest entry, None if there is none.

    Raises:
        ApplicationRunningError: somebody does.
    """
    watch, has_waited = HolderWatch(), False
    while True:
        begun_ms = time.monotonic() * 1000.0
        last = log.last()
        beat = log.newest_beat()
        ended_ms = time.monotonic() * 1000.0
        holder = None if last is None else last.holder
        if holder is None:
            return last
        has_beaten = last is not None and beat.startswith(f"beat-{last.epoch}-")
        match watch.looked(holder.token, beat, has_ended(holder), begun_ms, ended_ms, has_beaten):
            case Verdict.TAKE:
                return last
            case Verdict.REFUSE:
                raise ApplicationRunningError(
                    f"application {application.application_id} is running: {holder} has just given a sign of "
                    f"life. End it first, or set another {options.HA_CLUSTER_ID.key}"
                )
            case Verdict.WAIT if not has_waited:
                has_waited = True
                logger.warning(
                    "application %s was run by %s: waiting %d s for a sign of life from it",
                    application.application_id,
                    holder,
                    (TAKE_OVER_MS if has_beaten else START_MS) // 1000,
                )
        time.sleep(LOOK_MS / 1000.0)


def _tenure(
    log: ApplicationLog, entry: ApplicationEntry, application: Application, files: CheckpointFileSystem
) -> Tenure:
    assert entry.job_id is not None
    directory = completed_directory(application.root, entry.job_id)
    advice = (
        f"The state of application {application.application_id} is kept. Correct the program or its options and start "
        f"it again, or start over: {_forget(application)}, or another {options.HA_CLUSTER_ID.key}"
    )
    return Tenure(log, entry, None, advice, lambda: files.exists(directory))


def _life(application: Application, job_id: JobId, files: CheckpointFileSystem) -> LogEntry:
    """Return what the job's log of checkpoints says.

    Raises:
        ApplicationStateGoneError: there is no such log.
    """
    last = FileCompletedStore(application.root, job_id, _NO_EPOCH, files, "").last_entry()
    if last.number < 0:
        raise ApplicationStateGoneError(
            f"application {application.application_id} cannot resume job {job_id}: its directory "
            f"{job_directory(application.root, job_id)} is gone. Restore the directory, or start over: "
            f"{_forget(application)}"
        )
    return last


def _ended(application: Application, log: ApplicationLog, last: ApplicationEntry, outcome: JobOutcome) -> Tenure:
    logger.warning(
        "job %s of application %s is %s already, so nothing is run. To run it again: %s; or start it from another "
        "snapshot with %s",
        last.job_id,
        application.application_id,
        outcome.value,
        _forget(application),
        options.RECOVERY_PATH.key,
    )
    return Tenure(log, last, outcome)


def _tell_resumed(application: Application, job_id: JobId, retained: Sequence[CheckpointPointer]) -> None:
    what = f"checkpoint {retained[-1].checkpoint_id}" if retained else "its beginning: it has no checkpoint"
    logger.info("application %s resumes job %s from %s", application.application_id, job_id, what)
    if application.restore_path and retained:
        logger.warning(
            "%s is ignored: application %s resumes from its own checkpoint",
            options.RECOVERY_PATH.key,
            application.application_id,
        )


def _forget(application: Application) -> str:
    return f"`tidemark application forget {application.root} {application.application_id}`"
