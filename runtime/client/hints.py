"""Advice about errors of a submitted program that their messages do not give. Pure.

A program runs on the server's machine, alone in an empty directory: what lies beside it at home is not there.
"""

from __future__ import annotations

import errno
from pathlib import PurePath

PYFLINK = "pyflink"
_PACKAGES = "tidemark run -pyreq requirements.txt brings packages"


def hint(error: BaseException, name: str, *, is_archive: bool) -> str:
    """Return what its user should do about an error; "" where nothing helpful is known.

    Args:
        error: that ended the program.
        name: the program's file name, as its user knows it.
        is_archive: whether it brings modules of its own.
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _of_missing_module(error.name, name, is_archive)
    if isinstance(error, OSError) and error.errno == errno.ENOENT and isinstance(error.filename, str):
        return _of_missing_file(error.filename)
    return ""


def _of_missing_module(module: str, name: str, is_archive: bool) -> str:
    top = module.partition(".")[0]
    if top == PYFLINK:
        return "write runtime instead of pyflink in the program's imports: modules and names are the same"
    if top == "runtime":
        return ""
    if is_archive:
        return f"{name} has no {top} in it: add {top}.py; {_PACKAGES}"
    return (
        f"only {name} was uploaded: tidemark run {name} --py-files {top}.py brings your own module along, "
        f"tidemark run with a directory or a zip all of them; {_PACKAGES}"
    )


def _of_missing_file(path: str) -> str:
    if PurePath(path).is_absolute():
        return "programs run on the server: the file has to be there, and where the TaskManagers run"
    return (
        "programs run on the server, in an empty directory: use an absolute path that the server and the TaskManagers "
        "can read, or read the data with a FileSource in the job"
    )
