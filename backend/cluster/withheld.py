"""Secrets withheld from the row of a job: arguments, options and job parameters that look like some.

Columns have them hidden, as answers show them, so that no reader of rows has to think of it, and so are options and
arguments that quote one. The values are sealed in one column more, under a key of the cluster's secret key: those that
run the job, or start it again, ask for them here. Functions of such a job are sealed, too, as they may have been given
what is hidden; those of a job without secrets hold what its program does. Any thread.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from backend.audit.redaction import HIDDEN, redacted, redacted_arguments, secret_arguments, secret_options
from backend.cluster.models import Job
from runtime.common import options
from runtime.common.config_options import ConfigOption
from runtime.common.secrets import SecretName, SecretStore
from runtime.core.redaction import Redaction

_PURPOSE: Final = "tidemark.withheld"
_KEY_BYTES: Final = 32
_PARTS_OF_GRAPH: Final = ("configuration", "job_parameters")
#: as users like
_FREE_TEXTS: Final = (
    options.GLOBAL_JOB_PARAMETERS,
    options.PIPELINE_NAME,
    options.PIPELINE_TAGS,
    options.PYTHON_FILES,
    options.PYTHON_REQUIREMENTS,
    options.SPARK_MASTER,
    options.PEEK_MASKED_COLUMNS,
)
#: other processes look directories and limits up in the row; none of these options is for secrets, and a directory with
#: a password in its URI is refused
_READ_IN_ROWS: Final = frozenset(
    key
    for option in vars(options).values()
    if isinstance(option, ConfigOption) and option not in _FREE_TEXTS
    for key in (option.key, *option.deprecated_keys)
)


class UnsealedError(Exception):
    """The withheld values were sealed by a cluster with another secret key, or are damaged."""


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments, options and graph with which a job was submitted.

    Attributes:
        graph: `runtime.graph.codec`'s JSON.
        args: of the program.
        configuration: the submitter's options.
        submission: see `Job.submission`.
    """

    graph: Mapping[str, Any]
    args: Sequence[str]
    configuration: Mapping[str, str]
    submission: Mapping[str, Any]


def withhold(job_id: str, given: Given) -> tuple[Given, str]:
    """Return what the columns of a job's row may have, and the seal of the rest; "": that is nothing."""
    hide = _Hiding(given)
    submission = dict(given.submission)
    if "configuration" in submission:
        submission["configuration"] = hide.options(submission["configuration"])
    graph = {**given.graph, **{part: hide.options(given.graph[part]) for part in _PARTS_OF_GRAPH}}
    shown = Given(graph, hide.arguments(given.args), hide.options(given.configuration), submission)
    rest: dict[str, Any] = {
        "args": list(given.args) if list(shown.args) != list(given.args) else [],
        "options": _left(given.configuration, shown.configuration),
        "submission": _left(given.submission.get("configuration", {}), submission.get("configuration", {})),
        **{part: _left(given.graph[part], shown.graph[part]) for part in _PARTS_OF_GRAPH},
    }
    if not any(rest.values()):
        return shown, ""
    bare, rest["functions"] = _without_functions(graph)
    return replace(shown, graph=bare), sealed(job_id, json.dumps(rest))


def given_of(job: Job) -> Given:
    """Return what a job was submitted with.

    Raises:
        UnsealedError: parts of it cannot be read.
    """
    if not job.withheld:
        return Given(job.graph, job.program_args, job.configuration, job.submission)
    rest = json.loads(unsealed(job.id, job.withheld))
    submission = dict(job.submission)
    if rest["submission"]:
        submission["configuration"] = {**submission["configuration"], **rest["submission"]}
    graph = {**job.graph, **{part: {**job.graph[part], **rest[part]} for part in _PARTS_OF_GRAPH}}
    return Given(
        # seals of the first releases have no functions
        _with_functions(graph, rest["functions"]) if "functions" in rest else graph,
        rest["args"] or job.program_args,
        {**job.configuration, **rest["options"]},
        submission,
    )


class JobSecrets(SecretStore):
    """The secrets of one job: those that it names, and those that it was submitted with. Slots hide both in texts.

    Args:
        named: has the values of those that it names.
        given: what the job was submitted with.
    """

    def __init__(self, named: SecretStore, given: Given) -> None:
        self._named = named
        self._values = secrets_of(given.args, {**given.configuration, **given.graph["job_parameters"]})

    def resolve(self, names: Iterable[SecretName]) -> dict[SecretName, str]:
        return {**self._values, **self._named.resolve(names)}


def secrets_of(args: Sequence[str], given_options: Mapping[str, str]) -> dict[SecretName, str]:
    """Return the secrets in arguments and options, by names under which texts tell of them."""
    of_options = {("options", key): value for key, value in secret_options(given_options).items()}
    return {("arguments", key): value for key, value in secret_arguments(args).items()} | of_options


class _Hiding:
    """Hides secrets: what looks like one, and what quotes one of the same submission."""

    def __init__(self, given: Given) -> None:
        parts = [given.configuration, given.submission.get("configuration", {})]
        parts += [given.graph[part] for part in _PARTS_OF_GRAPH]
        known: dict[SecretName, str] = {}
        for number, part in enumerate(parts):
            known |= {(str(number), key): value for (_, key), value in secrets_of((), part).items()}
        self._redact = Redaction(known | secrets_of(given.args, {}))

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        hidden = redacted(given)
        return {key: value if key in _READ_IN_ROWS else self._text(hidden[key]) for key, value in given.items()}

    def arguments(self, given: Sequence[str]) -> list[str]:
        return [self._text(text) for text in redacted_arguments(given)]

    def _text(self, text: str) -> str:
        return text if self._redact(text) == text else HIDDEN


def _without_functions(graph: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a graph without its pickled functions, and these in their order."""
    bare: dict[str, Any] = copy.deepcopy(dict(graph))
    functions = []
    for holder, name in _places(bare):
        functions.append(holder[name])
        holder[name] = ""
    return bare, functions


def _with_functions(bare: Mapping[str, Any], functions: Sequence[str]) -> dict[str, Any]:
    """Return the graph that `_without_functions` was given."""
    graph: dict[str, Any] = copy.deepcopy(dict(bare))
    for (holder, name), function in zip(_places(graph), functions, strict=True):
        holder[name] = function
    return graph


def _places(graph: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return where a graph has pickled functions."""
    operators = [(operator, "factory") for vertex in graph["vertices"] for operator in vertex["operators"]]
    return operators + [(edge, "partitioner") for edge in graph["edges"] if edge["partitioner"] is not None]


def _left(given: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if shown[key] != value}


# --- the seal: Fernet (AES-128-CBC, HMAC-SHA-256), under a key of the cluster's key and the job's id -----------------


def sealed(job_id: str, text: str) -> str:
    """Return the seal of a text, for the row of a job."""
    return _fernets(job_id).encrypt(text.encode()).decode()


def unsealed(job_id: str, seal: str) -> str:
    """Return the text of a seal.

    Raises:
        UnsealedError: no key of the cluster's has made it for this row.
    """
    try:
        return _fernets(job_id).decrypt(seal.encode()).decode()
    except InvalidToken as error:
        raise UnsealedError(
            "the job's secret arguments and options are damaged, or were sealed under another key of the cluster: put "
            "that one into TIDEMARK_FORMER_CLUSTER_KEYS (TIDEMARK_FORMER_SECRET_KEYS if the cluster has no key of its "
            "own), or submit the job again"
        ) from error


def _fernets(job_id: str) -> MultiFernet:
    """Return what seals with the cluster's key, and reads seals of former ones, too; of one row only."""
    return MultiFernet([Fernet(_key(job_id, key)) for key in settings.TIDEMARK_CLUSTER_KEYS])


def _key(job_id: str, secret: str) -> bytes:
    derived = HKDF(hashes.SHA256(), _KEY_BYTES, salt=None, info=f"{_PURPOSE}:{job_id}".encode())
    return base64.urlsafe_b64encode(derived.derive(secret.encode()))
