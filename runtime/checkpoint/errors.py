"""Errors of stored checkpoints, one class for each reaction that a caller has.

A file that is corrupt raises `runtime.state.handles.DamagedSnapshotError`; what the storage itself refuses
is an OSError.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.checkpoint.outcome import JobOutcome


class CheckpointStorageError(Exception):
    """Base of the errors of `runtime.checkpoint`'s storage.

    Attributes:
        location: the URI or path in question.
    """

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True

    def __init__(self, location: str, why: str) -> None:
        super().__init__(why)
        self.location = location


class NotASnapshotError(CheckpointStorageError):
    """A path is neither a checkpoint nor a savepoint."""

    def __init__(self, location: str, why: str) -> None:
        super().__init__(location, f"{location} is not a checkpoint or savepoint: {why}")


class NewerSnapshotError(CheckpointStorageError):
    """A snapshot was written by a newer version of this program."""

    def __init__(self, location: str, version: int, readable: int) -> None:
        super().__init__(
            location, f"{location} has version {version}; this program reads up to version {readable}: use a newer one"
        )
        self.version = version


class ForeignSnapshotError(CheckpointStorageError):
    """No key of this cluster has signed a snapshot, and it restores no others."""

    def __init__(self, location: str, is_signed: bool) -> None:
        why = (
            "it is signed with a key that this cluster does not have: it is another cluster's, or the key has changed "
            "and the former one is not in TIDEMARK_FORMER_CLUSTER_KEYS (or TIDEMARK_FORMER_SECRET_KEYS)"
            if is_signed
            else "it is not signed: it is older than signatures, or was written by an application"
        )
        super().__init__(
            location,
            f"this cluster takes its own snapshots only (TIDEMARK_FOREIGN_SNAPSHOTS=0), and not {location}: {why}",
        )
        self.is_signed = is_signed


class LocationNotAllowedError(CheckpointStorageError):
    """A path lies outside the allowed roots."""

    def __init__(self, location: str, roots: tuple[str, ...]) -> None:
        super().__init__(
            location,
            f"{location} is not below a directory that is allowed: {', '.join(roots) or 'none'}; "
            "a cluster takes further ones from TIDEMARK_STORAGE_ROOTS",
        )
        self.roots = roots


class UnknownFileSystemError(CheckpointStorageError):
    """Checkpoints cannot be stored to URIs of this scheme."""

    def __init__(self, location: str, why: str) -> None:
        super().__init__(location, f"{location} cannot be used for checkpoints: {why}")


class FencedError(CheckpointStorageError):
    """A JobMaster of a newer leader epoch has taken over."""

    def __init__(self, location: str, mine: int, newer: int) -> None:
        super().__init__(location, f"leader epoch {mine} was replaced by epoch {newer}")
        self.mine = mine
        self.newer = newer


class JobOverError(CheckpointStorageError):
    """The log of the job's checkpoints says that the job has ended."""

    def __init__(self, location: str, outcome: JobOutcome) -> None:
        super().__init__(location, f"the job is over: for an earlier JobMaster it is {outcome.value}")
        self.outcome = outcome


class CheckpointLogGoneError(CheckpointStorageError):
    """The log of a running job's completed checkpoints was deleted: it can complete none any more."""

    def __init__(self, location: str) -> None:
        super().__init__(
            location,
            f"{location} was deleted while the job was running: no checkpoint can be completed any more. Start the job "
            "again from a savepoint or another copy of its checkpoints; without one, it starts over",
        )


class StorageAwayError(OSError):
    """Nothing of a completed snapshot can be found: no damage as long as its storage may become available again.

    Attributes:
        location: URI of the snapshot's directory.
    """

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True

    def __init__(self, location: str) -> None:
        super().__init__(f"nothing was found at {location}: its storage is unavailable, or all of it was deleted")
        self.location = location


class NoSuchStateError(CheckpointStorageError):
    """A snapshot has no such operator or state."""

    def __init__(self, location: str, why: str, known: Sequence[str]) -> None:
        super().__init__(location, f"{why}; there are {', '.join(map(repr, known)) or 'none'}")
        self.known = known


class KeyTypeError(CheckpointStorageError):
    """A key that is looked up is not of the type of the operator's keys."""

    def __init__(self, location: str, key_type: str, why: str) -> None:
        declared = f"the keys are of the type {key_type}: " if key_type not in ("", "any") else ""
        super().__init__(location, f"{declared}{why}")


class UnknownKeyColumnsError(CheckpointStorageError):
    """Columnar state does not say which of its columns are the key, and its rows do not show it."""

    def __init__(self, location: str, state: str, why: str) -> None:
        super().__init__(location, f"the key columns of state {state!r} are not known: {why}")


class PickledStateError(CheckpointStorageError):
    """State holds pickled values, and the caller has not allowed unpickling."""

    def __init__(self, location: str, what: str) -> None:
        super().__init__(
            location,
            f"{what} holds pickled values, and unpickling runs whatever the writer put there: "
            "allow_pickle=True reads them if you trust the snapshot",
        )


def described(error: Exception) -> str:
    """Return an error's message, with its class unless the message says everything."""
    return str(error) if getattr(error, "is_self_explanatory", False) else f"{type(error).__name__}: {error}"
