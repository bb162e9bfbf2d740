"""References in texts: ${env:NAME} and ${file:/path} stand for a variable or a file of the JobManager.

Users write the reference, and nothing else is stored; the JobMaster looks the values up when an attempt begins, as it
does for a SecretRef. The cluster's administrator lists what may be named (`ReferenceRules`); the default is nothing.
Any thread; files are looked at by threads of their own, since one on a share may not answer, and are waited for.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

__all__ = ["ReferenceFormatError", "ReferenceRules", "ReferenceValueError"]

VARIABLES_VARIABLE: Final = "TIDEMARK_REFERENCE_VARIABLES"
FILES_VARIABLE: Final = "TIDEMARK_REFERENCE_FILES"
MAX_FILE_BYTES: Final = 64 * 1024
"""Certificates and keys are smaller; what is larger was not meant."""

FILE_TIMEOUT_S: Final = 10.0
"""Wait for a file. Shorter: a share that is only busy costs a job an attempt; longer: one that hangs is told late."""

ENVIRONMENT: Final = "env:"
FILE: Final = "file:"
KINDS: Final = (ENVIRONMENT, FILE)
"""First parts of the names of references; a SecretRef's has no colon."""

ReferenceName = tuple[str, str]
"""One of KINDS, and a variable or a path."""

#: longer than any path that is accepted: without a limit, text without an end would take quadratic time
_REFERENCE: Final = re.compile(r"\$\{(env:|file:)([^}]{0,1100})\}")
_ONLY_REFERENCES: Final = re.compile(rf"(?:{_REFERENCE.pattern})+")
_BEGINNING: Final = re.compile(r"\$\{(?:env|file):")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_PATH: Final = re.compile(r"/[^\x00-\x1f]{1,1023}")
#: of the cluster itself
_OWN_VARIABLES: Final = re.compile(r"TIDEMARK_.*|DATABASE_URL|REDIS_URL")


class ReferenceFormatError(ValueError):
    """A text begins like a reference and is not one."""


class ReferenceValueError(Exception):
    """A reference has no value here; the message says why and shows no value."""


def has_references(text: str) -> bool:
    """Return whether a text has references, or what begins as one."""
    return _BEGINNING.search(text) is not None


def is_reference(text: str) -> bool:
    """Return whether a text consists of references, and so tells nothing."""
    return _ONLY_REFERENCES.fullmatch(text) is not None


def references_in(text: str) -> list[ReferenceName]:
    """Return the names of the references in a text.

    Raises:
        ReferenceFormatError: one is malformed.
    """
    found = [(kind, key) for kind, key in _REFERENCE.findall(text)]
    well_formed = {ENVIRONMENT: _VARIABLE, FILE: _PATH}
    if len(found) != len(_BEGINNING.findall(text)) or not all(well_formed[kind].fullmatch(key) for kind, key in found):
        raise ReferenceFormatError("a reference is ${env:NAME}, or ${file:/absolute/path}")
    return found


def written(name: ReferenceName) -> str:
    """Return how a reference is written."""
    return f"${{{name[0]}{name[1]}}}"


def filled(text: str, values: Mapping[ReferenceName, str]) -> str:
    """Return a text with values in place of its references; those without a value stay, and values are not looked
    into."""
    return _REFERENCE.sub(lambda found: values.get((found[1], found[2]), found[0]), text)


def all_filled(texts: Mapping[str, str], values: Mapping[ReferenceName, str]) -> dict[str, str]:
    """Return texts by name, each with values in place of its references."""
    return {name: filled(text, values) for name, text in texts.items()}


class _Reads:
    """Reads that are under way, one for each file and set of rules: those that hang do not pile up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[object, ...], Future[str]] = {}

    def wait_for(self, key: tuple[object, ...], read: Callable[[], str], timeout_s: float) -> str:
        """Return what a read returns, or raise what it raises.

        Raises:
            NotInTime: it does not answer; it goes on, and whoever asks next waits for it, too.
        """
        with self._lock:
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = Future[str]()
                arguments = (key, read, running)
                threading.Thread(target=self._run, args=arguments, name="reference-file", daemon=True).start()
        return running.result(timeout_s)

    def _run(self, key: tuple[object, ...], read: Callable[[], str], answer: Future[str]) -> None:
        value, problem = "", None
        try:
            value = read()
        except BaseException as error:  # whoever waits is told
            problem = error
        with self._lock:
            # before the answer: who asks after it has to get what the file has then
            del self._running[key]
        if problem is None:
            answer.set_result(value)
        else:
            answer.set_exception(problem)


_READS: Final = _Reads()


class ReferenceRules:
    """Decides what references may name in this process, and looks their values up, anew at each call.

    Args:
        environment: variables of the process.
        variables: names of those that may be named, perhaps with `*` behind their beginning; those of the cluster
            itself never may.
        files: files that may be named, and directories of which all files may.
        forbidden: directories of which none may, whatever `files` has.

    Raises:
        ValueError: a file is relative, or a name has no beginning.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        variables: Sequence[str] = (),
        files: Sequence[str] = (),
        forbidden: Sequence[Path] = (),
    ) -> None:
        for file in files:
            if not Path(file).is_absolute():
                raise ValueError(f"{file!r} is not an absolute path")
        for name in variables:
            # those that may be named are taken from processes that run users' code: PATH would be, too
            if not _VARIABLE.match(name):
                raise ValueError(f"{name!r} is not the name of a variable, or the beginning of one with a * behind it")
        self._environment = environment
        self._variables = tuple(variables)
        self._files = tuple(files)
        self._forbidden = tuple(forbidden)

    @staticmethod
    def of_environment(environment: Mapping[str, str], forbidden: Sequence[Path] = ()) -> ReferenceRules:
        """Return the rules that TIDEMARK_REFERENCE_VARIABLES and TIDEMARK_REFERENCE_FILES list, comma-separated.

        Raises:
            ValueError: a file is relative, or the name of a variable has no beginning.
        """
        variables, files = _items(environment, VARIABLES_VARIABLE), _items(environment, FILES_VARIABLE)
        return ReferenceRules(environment, variables, files, forbidden)

    def variables(self) -> list[str]:
        """Return the names of those variables that there are and that may be named."""
        return [name for name in self._environment if self._allows_variable(name)]

    def value_of(self, name: ReferenceName) -> str:
        """Return the value of a reference; a file's without the line end at its end. Waits for a file as long as
        FILE_TIMEOUT_S says.

        Raises:
            ReferenceValueError: it may not be named, or has no value.
        """
        kind, key = name
        if kind == ENVIRONMENT:
            return self._of_variable(key)
        rules = (key, self._files, self._forbidden)
        try:
            return _READS.wait_for(rules, lambda: self._of_file(key), FILE_TIMEOUT_S)
        except NotInTime:
            raise ReferenceValueError(
                f"its storage has not answered the JobManager within {FILE_TIMEOUT_S:.0f} s"
            ) from None

    def _allows_variable(self, name: str) -> bool:
        if _OWN_VARIABLES.fullmatch(name):
            return False
        return any(fnmatchcase(name, pattern) for pattern in self._variables)

    def _of_variable(self, name: str) -> str:
        if not self._allows_variable(name):
            raise ReferenceValueError(f"{VARIABLES_VARIABLE} of the JobManager does not list it")
        value = self._environment.get(name)
        if not value:
            raise ReferenceValueError("the JobManager has no such variable")
        return value

    def _of_file(self, path: str) -> str:
        # its text first: nothing is looked at outside of what is listed
        if not self._allows_file(os.path.normpath(path)):
            raise ReferenceValueError(f"{FILES_VARIABLE} of the JobManager does not list it")
        real = os.path.realpath(path)
        if not self._allows_file(real):
            raise ReferenceValueError(f"it leads out of what {FILES_VARIABLE} of the JobManager lists")
        try:
            # a queue would never be opened otherwise
            with os.fdopen(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ReferenceValueError("it is not a file")
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ReferenceValueError(f"the JobManager cannot read it: {error.strerror}") from None
        if len(content) > MAX_FILE_BYTES:
            raise ReferenceValueError(f"it has more than {MAX_FILE_BYTES} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            # without its cause, which has the content
            raise ReferenceValueError("it is not a text in UTF-8") from None
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise ReferenceValueError("it is empty")
        return text

    def _allows_file(self, path: str) -> bool:
        def is_in(directories: Iterable[str]) -> bool:
            return any(Path(path).is_relative_to(one) for one in directories)

        is_forbidden = is_in(os.path.realpath(one) for one in self._forbidden)
        return not is_forbidden and (is_in(self._files) or is_in(map(os.path.realpath, self._files)))


def _items(environment: Mapping[str, str], variable: str) -> list[str]:
    return [item.strip() for item in environment.get(variable, "").split(",") if item.strip()]
