"""What the storage knows of earlier leaders: their epochs, and the attempts of jobs that have not ended.

A database that is restored from a backup knows less. A leader that used an epoch or an attempt again would be refused
by slots, TaskManagers and logs, which have seen it, and would take the output of a new attempt for that of the old one.
So each leader leaves its epoch in the storage, and the next one begins above whatever is found there.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as NoAnswerError
from contextlib import suppress
from dataclasses import dataclass, field

from backend.cluster.background import BackgroundWork
from backend.cluster.checkpoint_home import ClusterStorage, cluster_storage, with_cluster_options
from backend.cluster.job_logs import job_log_directory
from backend.cluster.log_segments import epoch_of
from backend.cluster.models import TERMINAL_STATES, Job
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.layout import job_directory, writer_of_directory
from runtime.checkpoint.locations import join
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.ids import JobId

logger = logging.getLogger(__name__)

#: a take-over waits that long for the storage. Longer: jobs go without a leader because their storage hangs; shorter: a
#: busy storage is not heard, which only matters if the database was restored from a backup
PATIENCE_S = 1.0

_EPOCH = re.compile(r"epoch-(\d{1,18})")
_ATTEMPT = re.compile(r"attempt-(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Traces:
    """Tells what earlier leaders have left in the storage."""

    epoch: int = 0
    """The highest epoch; 0: there is none."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Job → the number of its newest attempt; jobs of which there is nothing are left out."""


def find_traces(patience_s: float = PATIENCE_S) -> Traces:
    """Return what earlier leaders have left; nothing if the storage does not say so in time.

    Args:
        patience_s: how long the storage has.

    Raises:
        DatabaseError: the jobs cannot be read.
    """
    jobs = list(Job.objects.exclude(state__in=TERMINAL_STATES).only("graph"))
    work = BackgroundWork("storage-traces")
    # links in paths are resolved there, too: that waits for a storage that hangs
    search = work.submit(lambda: _search(cluster_storage(), jobs))
    try:
        return search.result(patience_s)
    except NoAnswerError:
        _only_the_database_counts(f"no answer within {patience_s:g} s")
        return Traces()
    except Exception as error:
        # whatever it is: if it ended the standby, nobody could lead
        _only_the_database_counts(repr(error))
        return Traces()
    finally:
        work.close()


def _only_the_database_counts(why: str) -> None:
    logger.warning("what earlier leaders left in the storage cannot be read, only the database counts: %s", why)


def leave_epoch(epoch: int) -> None:
    """Leave a leader's epoch in the storage, and remove those before it; nobody waits for that."""
    threading.Thread(target=_leave, args=(epoch,), name="storage-epoch", daemon=True).start()


def _leave(epoch: int) -> None:
    try:
        storage = cluster_storage()
        files = storage.files().file_system
        files.make_directory(storage.leaders)
        with suppress(FileExistsError):
            files.write_new(join(storage.leaders, f"epoch-{epoch}"), b"")
        for older, name in _epochs(files, storage):
            if older < epoch:
                files.delete_file(join(storage.leaders, name))
    except (OSError, CheckpointStorageError) as error:
        logger.warning("epoch %d could not be recorded in the storage: %s", epoch, error)


def _search(storage: ClusterStorage, jobs: Sequence[Job]) -> Traces:
    files = storage.files().file_system
    epochs, attempts = [epoch for epoch, _ in _epochs(files, storage)], {}
    for job in jobs:
        root = _checkpoint_root(job, storage)
        found = [*_in_logs(job.id), *([] if root is None else _in_checkpoints(files, root, job.id))]
        epochs += [epoch for epoch, _ in found]
        if found:
            attempts[job.id] = max(attempt for _, attempt in found)
    return Traces(max(epochs, default=0), attempts)


def _epochs(files: CheckpointFileSystem, storage: ClusterStorage) -> list[tuple[int, str]]:
    matches = (_EPOCH.fullmatch(entry.name) for entry in files.list(storage.leaders))
    return [(int(match[1]), match[0]) for match in matches if match is not None]


def _in_logs(job_id: str) -> list[tuple[int, int]]:
    """Return epochs and attempts that wrote logs of a job; of an attempt without output the epoch is 0."""
    found = []
    with suppress(FileNotFoundError):
        for directory in job_log_directory(job_id).iterdir():
            match = _ATTEMPT.fullmatch(directory.name)
            if match is None:
                continue
            # an old one may be deleted just now
            with suppress(FileNotFoundError):
                found.append((max((epoch_of(path) for path in directory.iterdir()), default=0), int(match[1])))
    return found


def _in_checkpoints(files: CheckpointFileSystem, root: str, job_id: str) -> list[tuple[int, int]]:
    """Return epochs and attempts that wrote checkpoints of a job."""
    writers = (writer_of_directory(entry.name) for entry in files.list(job_directory(root, JobId(job_id))))
    return [(writer.leader_epoch, int(writer.attempt)) for writer in writers if writer is not None]


def _checkpoint_root(job: Job, storage: ClusterStorage) -> str | None:
    """Return the directory of all jobs' checkpoints that a job uses; None if it has none: the job cannot run."""
    try:
        given = with_cluster_options(job.graph["configuration"], storage)
        return storage.checkpoints_of(Configuration.from_dict(given))
    except ConfigurationError:
        return None
    except Exception as error:
        # a row that somebody has damaged
        logger.warning("the directory of the checkpoints of job %s cannot be read: %r", job.id, error)
        return None
