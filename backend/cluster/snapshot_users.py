"""Users of snapshots: who needs one, so that nobody deletes or claims it, and what a job started from.

Whoever begins to use a snapshot, or deletes it, looks here twice: before, when storages may be asked where the
locations of other jobs lead, and behind `lock_snapshots`, in the transaction that records it. In between, jobs may have
been submitted: what they start from is in their rows, with no links in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.module_loading import import_string

from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import TERMINAL_STATES, Checkpoint, ClusterIdentity, Job, Operation
from backend.cluster.storage_calls import ask_location, check_in_time
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.layout import METADATA, writer_of_directory
from runtime.checkpoint.locations import join, name_of, parent_of, to_uri
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.checkpoint.snapshot_files import snapshot_directory
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration

_ENDINGS: Final = {"stop": JobOutcome.FINISHED, "cancel": JobOutcome.CANCELED}
_STARTED_FROM = (options.RECOVERY_PATH.key, *options.RECOVERY_PATH.deprecated_keys)


@dataclass(frozen=True, slots=True)
class Need:
    """Somebody who needs a snapshot."""

    job_id: str
    """Of the job that may have to restore from it."""
    who: str
    """In words for users."""
    is_owner: bool = False
    """Whether that job may also delete it at any time."""


SnapshotKeeper = Callable[[Collection[str]], Mapping[str, Need]]
"""Returns who needs the snapshots in some directories, by those, for an app above the cluster's; asks the database
only."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The snapshot that a job started from, as long as it may go back to it."""

    job_id: str
    directory: str
    claims: bool
    silent: StorageSilentError | None = None
    """Which storage has not said yet where the location leads."""


@dataclass(frozen=True, slots=True)
class SnapshotUses:
    """The snapshots that jobs which have not ended were started from."""

    starts: tuple[_Start, ...]
    live: frozenset[str]
    """Ids of the jobs that were looked at."""

    @classmethod
    def read(cls, check: CheckLocation | None) -> SnapshotUses:
        """Read it.

        Args:
            check: checks the locations that jobs were started from; None: take them as they are.
        """
        live = frozenset(_live().values_list("id", flat=True))
        return cls(tuple(_starts(_live(), check)), live)

    def renewed(self) -> SnapshotUses:
        """Return it with the jobs that were submitted since; asks the database only."""
        live = frozenset(_live().values_list("id", flat=True))
        new = live - self.live
        added = _starts(_live().filter(id__in=new), None) if new else ()
        return replace(self, starts=(*self.starts, *added), live=live)

    def hindering_deletion(self, directory: str) -> Need | None:
        """Return who may have to restore from the snapshot in a directory, or is about to write one there.

        Args:
            directory: URI returned by `SnapshotFiles.directory_of`.

        Raises:
            StorageSilentError: a storage has not said yet what a job was started from.
        """
        own = Checkpoint.objects.filter(location=directory)
        found = _owner(own) or _writer(directory) or self._started(lambda start: start.directory == directory)
        return self._or_silent(found or _keeper(directory))

    def hindering_claim(self, directory: str) -> Need | None:
        """Return who needs the snapshot in a directory, or one that it may share files with, so that no other job may
        own it: checkpoints of one job do share files.

        Raises:
            StorageSilentError: a storage has not said yet what a job was started from.
        """
        found = _sharing_owner(directory, Checkpoint.objects.all()) or _writer(directory) or _taker(directory)
        found = found or self._started(lambda start: _may_share(start.directory, directory))
        return self._or_silent(found or _keeper(directory))

    def hindering_restore(self, directory: str) -> Need | None:
        """Return the job that owns the snapshot in a directory, or one that it may share files with: it deletes them
        at some time, whoever restores from it.
        """
        found = _sharing_owner(directory, Checkpoint.objects.filter(is_owned=True))
        return found or self._started(lambda start: start.claims and _may_share(start.directory, directory))

    def _started(self, is_it: Callable[[_Start], bool]) -> Need | None:
        found = (start for start in self.starts if is_it(start) and _still_goes_back(start))
        start = next(found, None)
        return None if start is None else Need(start.job_id, f"job {start.job_id}", is_owner=start.claims)

    def _or_silent(self, need: Need | None) -> Need | None:
        silent = next((start.silent for start in self.starts if start.silent is not None), None)
        if need is None and silent is not None:
            raise silent
        return need


def lock_snapshots() -> None:
    """Have nobody else begin to use a snapshot, or to delete one, before the end of the transaction."""
    ClusterIdentity.get_id()
    ClusterIdentity.objects.select_for_update().get(name="cluster")


def is_being_deleted(directory: str) -> bool:
    """Return whether a disposal of the snapshot in a directory has begun and is not answered."""
    open_ones = Operation.objects.filter(kind=Operation.Kind.DISPOSE, state=Operation.State.IN_PROGRESS)
    return open_ones.filter(progress__directory=directory).exists()


def who_needs(directory: str, check: CheckLocation = check_in_time) -> Need | None:
    """Return who may have to restore from the snapshot in a directory, if there is somebody.

    Args:
        directory: URI returned by `SnapshotFiles.directory_of`.
        check: checks the locations that jobs were started from.

    Raises:
        StorageSilentError: `check` has no answer yet.
    """
    return SnapshotUses.read(check).hindering_deletion(directory)


def kept_by_apps(directories: Collection[str]) -> Mapping[str, Need]:
    """Return who needs the snapshots in some directories without being a job, by those."""
    found: dict[str, Need] = {}
    for name in settings.TIDEMARK_SNAPSHOT_KEEPERS:
        keeper: SnapshotKeeper = import_string(name)
        found |= keeper(directories)
    return found


def savepoints_of_stop(trigger_id: str) -> set[str]:
    """Return where the savepoint of a stop is, or will be; for keepers whose job is stopped."""
    stop = Operation.objects.filter(trigger_id=trigger_id).first()
    left = () if stop is None else ((stop.result or {}).get("location"), (stop.progress or {}).get("directory"))
    return {str(location) for location in left if location}


def checkpoint_settings(job: Job) -> CheckpointSettings:
    """Return the checkpoint settings that a job was submitted with.

    Raises:
        ConfigurationError: this release cannot read an option.
    """
    return CheckpointSettings.from_configuration(Configuration.from_dict(dict(job.graph["configuration"])))


def deleting_endings(job: Job) -> tuple[str, ...]:
    """Return the endings of a job that delete its own checkpoints, of "stop" and "cancel"; none once it has ended."""
    if job.is_terminal:
        return ()
    try:
        retention = checkpoint_settings(job).retention
    except ConfigurationError:
        # whoever relies on a snapshot must not lose it
        return tuple(_ENDINGS)
    return tuple(ending for ending, outcome in _ENDINGS.items() if not retention.keeps(outcome))


def left_of_start(job: Job) -> RestoreSettings | None:
    """Return the snapshot that a job was started from; None if there is none or it was since replaced or deleted."""
    try:
        settings = checkpoint_settings(job)
    except ConfigurationError:
        return None
    restore = settings.restore
    if restore is None or restore.claim_mode is ClaimMode.NO_CLAIM:
        return restore
    # a claimed snapshot is deleted only when as many of the job's own have taken its place
    is_replaced = job.checkpoints.count() >= settings.num_retained
    # an ended job may have deleted it, too: only the storage knows
    return None if is_replaced or (job.is_terminal and not _is_there(restore.path)) else restore


def _is_there(path: str) -> bool:
    files = cluster_storage().files()
    try:
        return ask_location(path, lambda: files.file_system.exists(join(files.directory_of(path), METADATA)))
    except CheckpointStorageError:
        return False
    except (OSError, StorageSilentError):
        # the storage is unavailable
        return True


def _live() -> QuerySet[Job]:
    return Job.objects.exclude(state__in=TERMINAL_STATES)


def _starts(jobs: QuerySet[Job], check: CheckLocation | None) -> Iterator[_Start]:
    own = Checkpoint.objects.filter(job=OuterRef("pk"))
    # of the graphs, which may be large, only the options
    rows = jobs.filter(graph__configuration__has_any_keys=_STARTED_FROM).annotate(has_own=Exists(own))
    for job_id, given, has_own in rows.values_list("id", "graph__configuration", "has_own"):
        configuration = Configuration.from_dict(given)
        try:
            path = configuration.get(options.RECOVERY_PATH) or ""
            claims = ClaimMode(configuration.get(options.RECOVERY_CLAIM_MODE)) is ClaimMode.CLAIM
            # later checkpoints may refer to a claimed snapshot's files; otherwise the first one is self-contained
            if path and (claims or not has_own):
                directory, silent = _checked(path, check)
                yield _Start(job_id, snapshot_directory(directory), claims, silent)
        except (CheckpointStorageError, ConfigurationError):
            # no longer allowed or readable: the job cannot restore from it either
            continue


def _checked(path: str, check: CheckLocation | None) -> tuple[str, StorageSilentError | None]:
    if check is None:
        return to_uri(path), None
    try:
        return check(path), None
    except StorageSilentError as silent:
        return to_uri(path), silent


def _still_goes_back(start: _Start) -> bool:
    if not _live().filter(id=start.job_id).exists():
        return False
    return start.claims or not Checkpoint.objects.filter(job_id=start.job_id).exists()


def _may_share(one: str, other: str) -> bool:
    """Return whether two snapshots may refer to the same files."""
    if one == other:
        return True
    is_sibling = parent_of(one) == parent_of(other)
    return is_sibling and writer_of_directory(one) is not None and writer_of_directory(other) is not None


def _owner(checkpoints: QuerySet[Checkpoint]) -> Need | None:
    found = checkpoints.exclude(job__state__in=TERMINAL_STATES).values_list("job_id", flat=True).first()
    return None if found is None else Need(found, f"job {found}", is_owner=True)


def _sharing_owner(directory: str, checkpoints: QuerySet[Checkpoint]) -> Need | None:
    found = _owner(checkpoints.filter(location=directory))
    if found is None and writer_of_directory(directory) is not None:
        parent = parent_of(directory)
        beside = checkpoints.filter(location__startswith=f"{parent}/").exclude(job__state__in=TERMINAL_STATES)
        locations = beside.values_list("job_id", "location")
        found_id = next((job_id for job_id, location in locations if _may_share(location, directory)), None)
        # its directory is named by its id
        found_id = found_id or _live().filter(id=name_of(parent)).values_list("id", flat=True).first()
        found = None if found_id is None else Need(found_id, f"job {found_id}", is_owner=True)
    return found


def _writer(directory: str) -> Need | None:
    """Return the job of which a savepoint is being taken into a directory."""
    kinds = (Operation.Kind.SAVEPOINT, Operation.Kind.STOP)
    begun = Operation.objects.filter(kind__in=kinds, progress__directory=directory)
    job_id = begun.exclude(state=Operation.State.COMPLETED).values_list("job_id", flat=True).first()
    return None if job_id is None else Need(job_id, f"job {job_id}")


def _taker(directory: str) -> Need | None:
    """Return the job of a savepoint, if it goes on: its sinks have prepared more since."""
    taken = Operation.objects.filter(result__location=directory, job__isnull=False)
    job_id = taken.exclude(job__state__in=TERMINAL_STATES).values_list("job_id", flat=True).first()
    return None if job_id is None else Need(job_id, f"job {job_id}")


def _keeper(directory: str) -> Need | None:
    return kept_by_apps((directory,)).get(directory)
