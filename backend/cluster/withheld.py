"""Secrets withheld from the row of a job: arguments, options and job parameters that look like some.

Columns have them hidden, as answers show them, so that no reader of rows has to think of it. The values are sealed in
one column more, under a key of the cluster's secret key: those that run the job, or start it again, ask for them here.
What functions hold is in the graph as they were pickled: for them there is `SecretRef`. Any thread.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from backend.audit.redaction import redacted, redacted_arguments, secret_arguments, secret_options
from backend.cluster.models import Job
from runtime.common import options
from runtime.common.config_options import ConfigOption
from runtime.common.secrets import SecretName, SecretStore

_PURPOSE: Final = "tidemark.withheld"
_KEY_BYTES: Final = 32
_PARTS_OF_GRAPH: Final = ("configuration", "job_parameters")
#: other processes look directories and limits up in the row; none of these options is for secrets
_READ_IN_ROWS: Final = frozenset(
    key
    for option in vars(options).values()
    if isinstance(option, ConfigOption) and option is not options.GLOBAL_JOB_PARAMETERS
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
    submission = dict(given.submission)
    if "configuration" in submission:
        submission["configuration"] = _shown(submission["configuration"])
    graph = {**given.graph, **{part: _shown(given.graph[part]) for part in _PARTS_OF_GRAPH}}
    shown = Given(graph, redacted_arguments(given.args), _shown(given.configuration), submission)
    rest = {
        "args": list(given.args) if list(shown.args) != list(given.args) else [],
        "options": _left(given.configuration, shown.configuration),
        "submission": _left(given.submission.get("configuration", {}), submission.get("configuration", {})),
        **{part: _left(given.graph[part], shown.graph[part]) for part in _PARTS_OF_GRAPH},
    }
    return shown, sealed(job_id, json.dumps(rest)) if any(rest.values()) else ""


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
    return Given(
        {**job.graph, **{part: {**job.graph[part], **rest[part]} for part in _PARTS_OF_GRAPH}},
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


def _shown(given: Mapping[str, str]) -> dict[str, str]:
    hidden = redacted(given)
    return {key: value if key in _READ_IN_ROWS else hidden[key] for key, value in given.items()}


def _left(given: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if shown[key] != value}


# --- the seal: Fernet (AES-128-CBC and HMAC-SHA-256), under a key of the secret key and the job's id --------------------


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
            "the job's secret arguments and options are damaged, or were sealed under another TIDEMARK_SECRET_KEY: put "
            "that one into TIDEMARK_FORMER_SECRET_KEYS, or submit the job again"
        ) from error


def _fernets(job_id: str) -> MultiFernet:
    """Return what seals with the secret key, and reads seals of former ones, too; of one row only."""
    return MultiFernet([Fernet(_key(job_id, key)) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(job_id: str, secret: str) -> bytes:
    derived = HKDF(hashes.SHA256(), _KEY_BYTES, salt=None, info=f"{_PURPOSE}:{job_id}".encode())
    return base64.urlsafe_b64encode(derived.derive(secret.encode()))
