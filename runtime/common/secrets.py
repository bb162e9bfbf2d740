"""SecretRef: a secret by its name. Programs, job graphs and snapshots hold the name; slots get the value.

The JobMaster looks the values up in a SecretStore when an attempt begins and sends them with `Deploy`. A slot provides
them while it loads the job's code, and each reference that is loaded then is bound to its value. A value is in memory
only, of the JobMaster and of the slots: pickling a reference leaves it out, and `Redaction` takes it out of what a slot
reports. Loading happens on one thread; bound references may be used by any. Texts may have references of their own,
${env:NAME} and ${file:/path} (`references`): a `secret_text` is one of them as a SecretRef.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from runtime.common.references import (
    KINDS,
    ReferenceRules,
    ReferenceValueError,
    filled,
    has_references,
    references_in,
    written,
)

__all__ = ["SecretMissingError", "SecretRef", "SecretStore", "secret_text"]

ENVIRONMENT_PREFIX = "TIDEMARK_SECRET_"
SECRETS_FILE = "secrets.json"
"""In the home: {"name": {"key": "value"}}, readable by its owner only."""

SecretName = tuple[str, str]
"""Name and key; of references in texts, their kind and what they name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NO_LETTER_OR_DIGIT = re.compile(r"[^A-Z0-9]")
#: values for what is being loaded; None: nobody provides any
_PROVIDED: ContextVar[Mapping[SecretName, str] | None] = ContextVar("provided", default=None)
#: takes the names of what is being pickled
_FOUND: ContextVar[set[SecretName] | None] = ContextVar("found", default=None)


class SecretMissingError(Exception):
    """A secret has no value where it is needed; the message names it."""

    is_fatal = True
    is_self_explanatory = True


class SecretRef:
    """A secret by its name, in place of a text such as a connector's URL.

    Args:
        name: of what the secret belongs to, as "pg-main"; letters, digits and _ . -, at most 100.
        key: which of its values, as "url"; likewise.

    Raises:
        ValueError: the name or the key has other characters.
    """

    __slots__ = ("_value", "key", "name")

    def __init__(self, name: str, key: str) -> None:
        for part in (name, key):
            if not _NAME.fullmatch(part):
                raise ValueError(f"{part!r} does not name a secret: letters, digits and _ . - do")
        self.name = name
        self.key = key
        self._value: str | None = None

    def reveal(self) -> str:
        """Return the value. In functions and connectors while a job runs, not in the program that builds it.

        Raises:
            SecretMissingError: this reference came into a slot by another way than as a part of the job's code.
        """
        if self._value is None:
            raise SecretMissingError(
                f"{self} has no value here: only slots have it, and only for references that the program made and "
                "handed to its functions, sources and sinks"
            )
        return self._value

    def __reduce__(self) -> tuple[Callable[[str, str], SecretRef], SecretName]:
        found = _FOUND.get()
        if found is not None:
            found.add((self.name, self.key))
        return _loaded, (self.name, self.key)

    def __copy__(self) -> SecretRef:
        return self

    def __deepcopy__(self, memo: object) -> SecretRef:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretRef) and (self.name, self.key) == (other.name, other.key)

    def __hash__(self) -> int:
        return hash((self.name, self.key))

    def __repr__(self) -> str:
        return f"SecretRef({self.name!r}, {self.key!r})"


class SecretText(SecretRef):
    """A text with references, in place of a text; made by `secret_text`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        references_in(text)
        self._text = text
        self._value = None
        self.name = self.key = ""

    def __reduce__(self) -> tuple[Callable[[str], SecretRef], tuple[str]]:  # type: ignore[override]
        found = _FOUND.get()
        if found is not None:
            found.update(references_in(self._text))
        return _loaded_text, (self._text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        # not the rest of it: it may have a password, too
        return ", ".join(map(written, references_in(self._text)))


def secret_text(text: str | SecretRef) -> str | SecretRef:
    """Return a text with references, such as ${env:DB_PASSWORD} or ${file:/run/secrets/db}, as a secret; else what was
    given. Connectors do this to their URLs and properties; programs to texts for their functions, which `reveal` it.

    Raises:
        ValueError: a reference is malformed.
    """
    return SecretText(text) if isinstance(text, str) and has_references(text) else text


def revealed(value: str | SecretRef) -> str:
    """Return a text, or the value of a reference.

    Raises:
        SecretMissingError: see `SecretRef.reveal`.
    """
    return value.reveal() if isinstance(value, SecretRef) else value


def _loaded(name: str, key: str) -> SecretRef:
    reference = SecretRef(name, key)
    provided = _PROVIDED.get()
    if provided is not None:
        reference._value = provided.get((name, key))
    return reference


def _loaded_text(text: str) -> SecretRef:
    reference = SecretText(text)
    provided = _PROVIDED.get()
    if provided is not None and all(name in provided for name in references_in(text)):
        reference._value = filled(text, provided)
    return reference


@contextmanager
def providing(values: Mapping[SecretName, str]) -> Iterator[None]:
    """Bind the references that are loaded within the block to their values."""
    token = _PROVIDED.set(values)
    try:
        yield
    finally:
        _PROVIDED.reset(token)


@contextmanager
def finding() -> Iterator[set[SecretName]]:
    """Note the names of the references that are pickled within the block."""
    found = set[SecretName]()
    token = _FOUND.set(found)
    try:
        yield found
    finally:
        _FOUND.reset(token)


class SecretStore:
    """Values of secrets: variables of the environment, then a file. Read again at each call; any thread.

    Args:
        environment: TIDEMARK_SECRET_<NAME>_<KEY> is a value; upper case, with _ for all other signs.
        file: JSON as of SECRETS_FILE, which need not exist.
        rules: what references in texts may name; None: nothing.
    """

    def __init__(self, environment: Mapping[str, str], file: Path, rules: ReferenceRules | None = None) -> None:
        self._environment = environment
        self._file = file
        self._rules = rules or ReferenceRules({})

    @staticmethod
    def of_process() -> SecretStore:
        """Return the store of this process: its environment and the file in TIDEMARK_HOME, else in .tidemark.

        Raises:
            ValueError: see `ReferenceRules`.
        """
        home = Path(os.environ.get("TIDEMARK_HOME") or ".tidemark")
        return SecretStore(os.environ, home / SECRETS_FILE, ReferenceRules.of_environment(os.environ, (home,)))

    def resolve(self, names: Iterable[SecretName]) -> dict[SecretName, str]:
        """Return the values of secrets.

        Raises:
            SecretMissingError: at least one has none; the message names all of them, or the file cannot be used.
        """
        found: dict[SecretName, str] = {}
        left: list[SecretName] = []
        reasons: list[str] = []
        for name in names:
            if name[0] in KINDS:
                try:
                    found[name] = self._rules.value_of(name)
                except ReferenceValueError as error:
                    reasons.append(f"{written(name)} ({error})")
                continue
            value = self._environment.get(variable_of(name))
            if value:
                found[name] = value
            else:
                left.append(name)
        if left:
            kept = self._kept()
            for name in left:
                if name in kept:
                    found[name] = kept[name]
        reasons += [
            f"{SecretRef(*name)} (variable {variable_of(name)} of the JobMaster, or an entry of {self._file})"
            for name in left
            if name not in found
        ]
        if reasons:
            raise SecretMissingError(f"no value for the job's secrets: {', '.join(reasons)}")
        return found

    def _kept(self) -> dict[SecretName, str]:
        try:
            # of the file that is open: another one may take its place
            with self._file.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise SecretMissingError(
                        f"{self._file} holds secrets, and others than its owner may use it: chmod 600 {self._file}"
                    )
                text = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SecretMissingError(f"{self._file} cannot be read: {error.strerror}") from error
        try:
            return {
                (name, key): _text(value) for name, entry in _object(json.loads(text)) for key, value in _object(entry)
            }
        except ValueError:
            # without its cause: that could quote a value
            raise SecretMissingError(f'{self._file} is not of the form {{"name": {{"key": "value"}}}}') from None


class GivenSecrets(SecretStore):
    """The store of a program that is given the values of some secrets, as in a preview.

    Args:
        values: by name and key.
    """

    def __init__(self, values: Mapping[SecretName, str]) -> None:
        self._values = dict(values)

    def resolve(self, names: Iterable[SecretName]) -> dict[SecretName, str]:
        wanted = list(names)
        missing = ", ".join(_told(name) for name in wanted if name not in self._values)
        if missing:
            raise SecretMissingError(
                f"no value for {missing}: a preview has those of the connections that sources and look-ups name"
            )
        return {name: self._values[name] for name in wanted}


def _told(name: SecretName) -> str:
    return written(name) if name[0] in KINDS else str(SecretRef(*name))


def _object(value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError
    return value.items()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def variable_of(name: SecretName) -> str:
    """Return the variable of the environment that may hold a secret."""
    return ENVIRONMENT_PREFIX + _NO_LETTER_OR_DIGIT.sub("_", "_".join(name).upper())
