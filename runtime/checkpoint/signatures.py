"""Signatures of snapshots: an HMAC of `_metadata` under a key that its writer has and slots have not. Pure; any thread.

`_metadata` lists the sha256 of every file, so whoever can write to the storage, but has no key, can neither change what
is restored nor make a snapshot. What they can do is put one snapshot of the cluster in the place of another.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from runtime.checkpoint.errors import ForeignSnapshotError
from runtime.state.handles import DamagedSnapshotError

SIGNATURE: Final = "signature"
"""Member of the signed document: "<name of the key>:<MAC>"."""
_NAME_CHARS: Final = 16


class Signed(NamedTuple):
    """Signature and digest of a document, to be checked."""

    signature: str
    """"": it has none."""
    digest: str
    """Sha256, hex, of the document without it."""


@dataclass(frozen=True, slots=True)
class SnapshotKeys:
    """The keys of whoever writes and restores snapshots; without any, nothing is signed and everything is taken."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The first signs; the others are former ones, whose signatures are good as well."""
    takes_foreign: bool = True
    """Whether what none of the keys has signed is taken: of other clusters, of applications, or without a signature."""

    def signed(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a JSON document with its signature."""
        if not self.keys:
            return dict(document)
        key = self.keys[0]
        return {**document, SIGNATURE: f"{_name_of(key)}:{_mac(key, _digest_of(document))}"}

    def check(self, document: Mapping[str, Any], location: str) -> None:
        """Check the signature of a document that was read from `location`.

        Raises:
            DamagedSnapshotError: it was signed with one of the keys, and changed since, or is none of ours.
            ForeignSnapshotError: none of the keys has signed it, and only such snapshots are taken.
        """
        if not self.keys:
            return
        try:
            signed = _signed_of(document)
        except RecursionError as error:
            # what can just be decoded cannot always be encoded
            raise DamagedSnapshotError(location, "its content is nested too deeply") from error
        self.check_signed(signed, location)

    def check_signed(self, signed: Signed, location: str) -> None:
        """Check what a `Witness` has read from `location`; raises as `check`."""
        name, _, mac = signed.signature.partition(":")
        key = next((key for key in self.keys if _name_of(key) == name), None)
        if key is not None:
            if not hmac.compare_digest(mac.encode(errors="replace"), _mac(key, signed.digest).encode()):
                raise DamagedSnapshotError(location, "its signature is not that of its content")
        elif self.keys and not self.takes_foreign:
            raise ForeignSnapshotError(location, is_signed=bool(signed.signature))


NO_KEYS: Final = SnapshotKeys()


@dataclass(frozen=True, slots=True)
class Witness(SnapshotKeys):
    """Has no keys and takes everything, and notes what somebody who has them is to check."""

    seen: list[Signed] = field(default_factory=list)

    def check(self, document: Mapping[str, Any], location: str) -> None:
        self.seen.append(_signed_of(document))


def _signed_of(document: Mapping[str, Any]) -> Signed:
    unsigned = {member: value for member, value in document.items() if member != SIGNATURE}
    return Signed(str(document.get(SIGNATURE, "")), _digest_of(unsigned))


def _digest_of(document: Mapping[str, Any]) -> str:
    # decoded and encoded again, JSON of ours is the same text
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _name_of(key: bytes) -> str:
    """Return what tells a key from others, and nothing else about it."""
    return hmac.new(key, b"name", hashlib.sha256).hexdigest()[:_NAME_CHARS]


def _mac(key: bytes, digest: str) -> str:
    return hmac.new(key, digest.encode(errors="replace"), hashlib.sha256).hexdigest()
