"""URIs of checkpoint files: writes, joins and splits them, and checks which of them are allowed.

A location is a URI; plain paths become `file://` URIs. Pure, except that links in local paths are resolved before a
comparison, so that neither `..` nor a link leads out of an allowed root: `resolved` and `AllowedRoots.check` wait for
the storage.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from runtime.checkpoint.errors import LocationNotAllowedError, UnknownFileSystemError
from runtime.core.well_formed import well_formed

SCHEMES: Final = ("file", "s3", "s3a", "hdfs", "viewfs", "gs", "gcs", "abfs", "abfss", "mock")
"""Schemes for checkpoints; `mock` is pyarrow's in-memory file system, for tests."""


def to_uri(location: str | Path) -> str:
    """Return a location as a URI without a trailing slash; a plain path, also a relative one, becomes a `file` URI.

    Raises:
        UnknownFileSystemError: checkpoints cannot be stored to such a URI.
    """
    text = str(location)
    scheme, colon, _ = text.partition("://")
    if not colon:
        return _uri_of(Path(text.removeprefix("file:")).absolute())
    if scheme.lower() not in SCHEMES:
        raise UnknownFileSystemError(
            text, f"there is no file system for {scheme}://, only for {', '.join(SCHEMES[:-1])}"
        )
    if "?" in text or "#" in text:
        # an object's name may contain them, a URI's options must not be lost: guessing would be wrong
        raise UnknownFileSystemError(text, "a URI with options or a fragment cannot be extended by file names")
    try:
        user, at, host = urlsplit(text).netloc.rpartition("@")
    except ValueError as error:
        # half an address of version 6, or characters that no host has
        raise UnknownFileSystemError(well_formed(text), str(error)) from error
    if at and ":" in user:
        # an error's text ends up in logs and on the page
        raise UnknownFileSystemError(f"{scheme}://{host}", "credentials do not belong in a URI")
    if scheme.lower() == "file":
        return _uri_of(local_path(text))
    return f"{scheme.lower()}://{text[len(scheme) + 3 :].rstrip('/')}"


def join(directory: str, *names: str) -> str:
    """Return the URI of an entry below a directory. Names have no characters that a URI would quote."""
    base = directory if directory.endswith("://") else directory.rstrip("/")
    return "/".join([base, *names])


def name_of(uri: str) -> str:
    """Return the last part of a URI."""
    return uri.rstrip("/").rpartition("/")[2]


def parent_of(uri: str) -> str:
    """Return the directory that a URI is in."""
    return uri.rstrip("/").rpartition("/")[0]


def local_path(uri: str) -> Path:
    """Return the path of a `file` URI or of a plain path.

    Raises:
        UnknownFileSystemError: it is on another host, or not in the local file system.
    """
    if "://" not in uri:
        return Path(uri).absolute()
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise UnknownFileSystemError(uri, "it is not on this machine")
    return Path(unquote(parts.path) or "/").absolute()


def _uri_of(path: Path) -> str:
    # the root is "file://", so that a slash and a name can follow any directory
    try:
        return path.as_uri() if path.name else "file://"
    except UnicodeEncodeError as error:
        raise UnknownFileSystemError(well_formed(str(path)), "no path has such characters in it") from error


def is_local(uri: str) -> bool:
    """Return whether a location is in the local file system."""
    return "://" not in uri or uri.lower().startswith("file://")


def resolved(location: str | Path) -> str:
    """Return a location as a URI with neither `..` nor links in it."""
    uri = to_uri(location)
    if is_local(uri):
        return _uri_of(local_path(uri).resolve())
    parts = urlsplit(uri)
    path = posixpath.normpath(parts.path) if parts.path else ""
    return f"{parts.scheme}://{parts.netloc}{'' if path in ('.', '/') else path}"


@dataclass(frozen=True, slots=True)
class AllowedRoots:
    """Directories below which checkpoints and savepoints may be written, read and deleted."""

    roots: tuple[str, ...] | None = None
    """URIs; None: everything is allowed (for a program that runs under its user's account)."""

    @classmethod
    def of(cls, locations: Iterable[str | Path]) -> AllowedRoots:
        """Allow exactly these roots; does not look at them.

        Raises:
            UnknownFileSystemError: checkpoints cannot be stored to one of them.
        """
        return cls(tuple(dict.fromkeys(to_uri(location) for location in locations)))

    def check(self, location: str | Path) -> str:
        """Return the location as a resolved URI, for all further use.

        Raises:
            LocationNotAllowedError: it is below none of the roots.
            UnknownFileSystemError: checkpoints cannot be stored to such a URI, or its links lead nowhere.
        """
        try:
            uri = resolved(location)
        except (RuntimeError, ValueError) as error:
            # links in a circle, or what no path can have in it: however often that is asked, it leads nowhere
            raise UnknownFileSystemError(str(location), f"it leads nowhere ({error})") from error
        if self.roots is not None and not _is_below(uri, self.roots):
            raise LocationNotAllowedError(str(location), self.roots)
        return uri


def _is_below(uri: str, roots: Iterable[str]) -> bool:
    """Return whether a resolved URI is below one of some roots, which may be called by links."""
    if any(uri == root or uri.startswith(root + "/") for root in roots):
        # nothing below it is a link, so that is where it is; another root may be on a storage that does not answer
        return True
    return any(uri == root or uri.startswith(root + "/") for root in map(resolved, roots))


EVERYWHERE: Final = AllowedRoots()
