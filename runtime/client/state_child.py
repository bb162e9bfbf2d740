"""The child of `runtime.client.state_lookup`: looks for keys in a snapshot, and answers with what is there.

It runs no user code, and unpickles nothing. It is confined because whoever has written the snapshot has chosen every
byte that is decoded here. Its request is {"location", "roots", "environment", "ask", "operator", "state", …, "limits"};
its answer a document with "signed", which it cannot check, or {"error", "reason"}.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final

from polars.exceptions import PanicException

from runtime.checkpoint.errors import CheckpointStorageError, KeyTypeError, NoSuchStateError
from runtime.checkpoint.locations import AllowedRoots
from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.checkpoint.signatures import Witness
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import Retries, default_file_system
from runtime.client.child_process import begin, limit
from runtime.client.state_documents import KeyFormError, key_document, key_of, lookup_document
from runtime.core.keys import KeyDecodingError, decode_key
from runtime.state.errors import LookupTooLargeError, StateError
from runtime.state.handles import DamagedSnapshotError
from runtime.state.lookup import LookupTimeError, looking_until

MAX_KEYS_CHARS: Final = 8 << 20
"""Characters of encoded keys after which no more keys are looked for. More: with the keys themselves, which JSON
escapes, the answer is larger than one may be."""


def main() -> None:
    answer_fd, request = begin()
    limit(request["memory_bytes"], request["cpu_s"])
    # of the storage's client
    os.environ.update(request["environment"])
    with os.fdopen(answer_fd, "w", encoding="utf-8") as answer:
        json.dump(_answer(request), answer)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _found(request)
    except (KeyTypeError, KeyFormError, KeyDecodingError) as error:
        return {"error": str(error), "reason": "key"}
    except NoSuchStateError as error:
        return {"error": str(error), "reason": "missing"}
    except LookupTooLargeError as error:
        return {"error": str(error), "reason": "too large"}
    except (CheckpointStorageError, DamagedSnapshotError, StateError, OSError) as error:
        return {"error": str(error), "reason": "unreadable"}
    except MemoryError:
        return {"error": "the value takes more memory than a lookup may have", "reason": "too large"}
    except (Exception, PanicException) as error:
        # whoever has written the snapshot has chosen what fails here, and how
        return {"error": f"the state cannot be read: {_named(error)}", "reason": "unreadable"}


def _named(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _found(request: dict[str, Any]) -> dict[str, Any]:
    files = default_file_system()
    witness = Witness()
    snapshot = SnapshotFiles(files, AllowedRoots(tuple(request["roots"])), Retries((0.1,)), witness)
    reader = SavepointReader(snapshot.load(request["location"]), files, max_read_bytes=request["max_read_bytes"])
    return _looked_for(reader, request) | {"signed": witness.seen[0]}


def _looked_for(reader: SavepointReader, request: dict[str, Any]) -> dict[str, Any]:
    operator, state = request["operator"], request["state"]
    if request["ask"] == "keys":
        return _first_keys(reader, operator, state, request["limit"], time.monotonic() + request["look_s"])
    if request["encoded_key"] is not None:
        key = decode_key(bytes.fromhex(request["encoded_key"]))
    else:
        declared = next((each.key_type for each in reader.operators() if each.operator_id == operator), "")
        key = key_of(request["key_type"] if declared in ("", "any") else declared, request["key"])
    found = lookup_document(reader.lookup(operator, state, key), request["masked"])
    return found | {"read_bytes": reader.read_bytes}


def _first_keys(reader: SavepointReader, operator: str, state: str, limit: int, deadline: float) -> dict[str, Any]:
    keys: list[dict[str, Any]] = []
    found = reader.first_keys(operator, state)
    is_all, num_chars = False, 0
    try:
        with looking_until(deadline):
            while len(keys) < limit and num_chars < MAX_KEYS_CHARS and time.monotonic() < deadline:
                key = next(found, keys)
                if key is keys:
                    is_all = True
                    break
                keys.append(key_document(key))
                num_chars += len(keys[-1]["encoded_key"])
    except LookupTimeError:
        # there may be keys further on
        pass
    except LookupTooLargeError:
        if not keys:
            raise
    finally:
        found.close()
    return {"keys": keys, "is_all": is_all}


if __name__ == "__main__":
    main()
