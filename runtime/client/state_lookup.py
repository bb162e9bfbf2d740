"""Looks for keys in the state of a checkpoint or savepoint, in a confined child: every byte of it may be a user's.

Blocking, `TIMEOUT_S` and a little at most, also if the storage hangs; any thread may call. The child's side is
`runtime.client.state_child`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from runtime.checkpoint.errors import ForeignSnapshotError
from runtime.checkpoint.locations import is_local, local_path
from runtime.checkpoint.signatures import NO_KEYS, Signed, SnapshotKeys
from runtime.client.children import AnswerTooLargeError, run_child
from runtime.client.confinement import USUAL, Confinement
from runtime.state.handles import DamagedSnapshotError

TIMEOUT_S: Final = 15.0
"""Time for an answer. Shorter: a storage that is only slow is taken for one that hangs; longer: users give up."""
LOOK_S: Final = 5.0
"""Time in which first keys are looked for; those found by then are the answer."""
CPU_S: Final = 20
MEMORY_BYTES: Final = 4 << 30
"""Address space, of which Arrow and Polars reserve more than 1 GiB."""
MAX_READ_BYTES: Final = 256 << 20
"""Bytes of a snapshot that one look may read, which a key group may have. More: decoding takes too long; less: large
state in few key groups cannot be looked into."""
MAX_KEYS: Final = 100
"""Maximum number of first keys."""
MAX_MESSAGE_CHARS: Final = 1_000
#: of the variables of this process, what clients of storages look at
_STORAGE_VARIABLES: Final = ("AWS_", "GOOGLE_", "AZURE_", "HADOOP_", "ARROW_", "CLASSPATH")
#: below a home, where they keep what they need
_STORAGE_FILES: Final = (".aws", ".config/gcloud", ".azure")


class StateLookupError(Exception):
    """A lookup has no answer; the message says why.

    Attributes:
        reason: key (it is not of the right type) | missing (no such operator or state) | too large | unreadable |
            silent (the storage has not answered in time).
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class StatePlace:
    """A keyed state of a snapshot.

    Attributes:
        location: of the snapshot.
        roots: URIs that the snapshot and its files must be below.
        operator: id of the operator.
        state: name of the state.
        keys: check the snapshot's signature. The child does not get them, and says what it has read.
    """

    location: str
    roots: Sequence[str]
    operator: str
    state: str
    keys: SnapshotKeys = NO_KEYS


def look_up(
    place: StatePlace,
    key: Any = None,
    *,
    encoded_key: str | None = None,
    key_type: str = "",
    masked: Sequence[str] = (),
    confinement: Confinement = USUAL,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, Any]:
    """Return what a snapshot has of a key, as `runtime.client.state_documents.lookup_document`, with "read_bytes".

    Args:
        place: the state.
        key: JSON, of the type that the program has declared for its keys.
        encoded_key: in its place, the key as first keys have it.
        key_type: of the key, if the program has declared none.
        masked: names of columns whose values are hidden, beside those that look like secrets; "*": all.
        confinement: what of this machine the child may see beside the snapshot.
        timeout_s: after so long it is ended.

    Raises:
        StateLookupError: there is no answer.
    """
    asked = {"ask": "lookup", "key": key, "encoded_key": encoded_key, "key_type": key_type, "masked": [*masked]}
    return _ask(place, asked, confinement, timeout_s)


def first_keys(
    place: StatePlace,
    limit: int,
    *,
    confinement: Confinement = USUAL,
    timeout_s: float = TIMEOUT_S,
    look_s: float = LOOK_S,
) -> dict[str, Any]:
    """Return some keys that have a state: {"keys": `key_document` of each, "is_all"}.

    Args:
        place, confinement, timeout_s: see `look_up`.
        limit: maximum number of keys.
        look_s: time for looking.

    Raises:
        StateLookupError: there is no answer.
    """
    return _ask(place, {"ask": "keys", "limit": limit, "look_s": look_s}, confinement, timeout_s)


def _ask(place: StatePlace, asked: Mapping[str, Any], confinement: Confinement, timeout_s: float) -> dict[str, Any]:
    is_remote = not is_local(place.location)
    environment = _storage_environment() if is_remote else {}
    request = {
        "location": place.location,
        "roots": list(place.roots),
        "operator": place.operator,
        "state": place.state,
        "environment": environment,
        "max_read_bytes": MAX_READ_BYTES,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
        **asked,
    }
    readable = [*confinement.readable, *(str(local_path(root)) for root in place.roots if is_local(root))]
    if is_remote:
        readable += [value for value in environment.values() if value.startswith("/")]
        readable += [str(Path(environment["HOME"]) / name) for name in _STORAGE_FILES]
    within = replace(confinement, readable=readable, has_network=is_remote)
    with tempfile.TemporaryDirectory(prefix="tidemark-state-") as directory:
        try:
            result = run_child(
                "runtime.client.state_child", json.dumps(request), Path(directory), timeout_s, confinement=within
            )
        except AnswerTooLargeError:
            raise StateLookupError("the value is too large to be shown", "too large") from None
    try:
        answer: dict[str, Any] = json.loads(result.answer)
    except ValueError:
        if result.timed_out:
            raise StateLookupError(f"there was no answer within {timeout_s:g} s", "silent") from None
        raise StateLookupError(f"the lookup has failed (exit code {result.exit_code})", "too large") from None
    if "error" in answer:
        raise StateLookupError(str(answer["error"])[:MAX_MESSAGE_CHARS], str(answer["reason"]))
    try:
        place.keys.check_signed(Signed(*map(str, answer.pop("signed"))), place.location)
    except (DamagedSnapshotError, ForeignSnapshotError) as error:
        raise StateLookupError(str(error), "unreadable") from error
    return answer


def _storage_environment() -> dict[str, str]:
    """Return what a client of a storage finds its credentials by."""
    found = {name: value for name, value in os.environ.items() if name.startswith(_STORAGE_VARIABLES)}
    return {**found, "HOME": str(Path.home())}
