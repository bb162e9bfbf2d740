"""Secrets in what a job is submitted with: not in its row, and still there for those who run it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils.crypto import salted_hmac
from pytest_django import Settings

from backend.cluster import withheld
from backend.cluster.models import Job
from backend.cluster.services import submit_job
from backend.cluster.withheld import Given, JobSecrets, UnsealedError, given_of, withhold
from runtime.common.secrets import GivenSecrets
from runtime.core.redaction import Redaction
from runtime.graph.codec import job_graph_from_json
from runtime.jobmaster.rescaling import rescaled
from tests.cluster.graphs import graph_json

migration = import_module("backend.cluster.migrations.0018_seals_by_fernet")
JOB = "a" * 32
CANARY = "c4n4ry-Withheld"
OTHER = "another-canary"
FUNCTION = base64.b64encode(f"a pickled {CANARY}".encode()).decode()
BARE: dict[str, Any] = {"configuration": {"b": "c"}, "job_parameters": {"rate": "3"}, "vertices": [], "edges": []}
GIVEN = Given(
    graph={
        "name": "shop",
        "configuration": {
            "a.password": CANARY,
            "pipeline.name": f"shop {CANARY}",
            "execution.checkpointing.dir": "file:///token=kept",
            "b": "c",
        },
        "job_parameters": {"db.url": f"postgresql://me:{CANARY}@db/shop", "rate": "3"},
        "vertices": [{"operators": [{"factory": FUNCTION}, {"factory": "c291cmNl"}]}, {"operators": []}],
        "edges": [{"partitioner": None}, {"partitioner": FUNCTION}],
    },
    args=["--db-password", CANARY, f"--url=postgresql://me:{OTHER}@db/shop", "--rate", "3", "--max-tokens", "1000"],
    configuration={"s3.secret-key": CANARY, "pipeline.global-job-parameters": f"api.token:{CANARY},rate:3"},
    submission={"entry": None, "parallelism": 2, "configuration": {"s3.secret-key": CANARY, "b": "c"}},
)


def _row(given: Given) -> Job:
    shown, withheld = withhold(JOB, given)
    return Job(
        id=JOB,
        name="shop",
        created_at=1,
        graph=dict(shown.graph),
        program_args=list(shown.args),
        configuration=dict(shown.configuration),
        submission=dict(shown.submission),
        withheld=withheld,
        plan={},
        parallelism=1,
        slots_required=1,
    )


@pytest.mark.django_db
def test_a_row_holds_no_secret_and_whoever_runs_the_job_gets_all() -> None:
    _row(GIVEN).save()
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM cluster_job")
        stored = str(cursor.fetchall())
    assert CANARY not in stored and OTHER not in stored and FUNCTION not in stored
    row = Job.objects.get()
    assert base64.urlsafe_b64decode(row.withheld).find(CANARY.encode()) == -1
    assert given_of(row) == GIVEN
    assert row.program_args[-4:] == ["--rate", "3", "--max-tokens", "******"]
    assert row.submission == {"entry": None, "parallelism": 2, "configuration": {"s3.secret-key": "******", "b": "c"}}
    # what others look up in rows is as it was given
    assert row.graph["configuration"]["execution.checkpointing.dir"] == "file:///token=kept"
    assert row.graph["job_parameters"]["rate"] == "3"


def test_a_job_without_secrets_has_no_seal() -> None:
    functions = {"vertices": [{"operators": [{"factory": FUNCTION}]}]}
    plain = Given({**BARE, **functions}, ["--rate", "3"], {"b": "c"}, {})
    assert withhold(JOB, plain) == (plain, "")
    assert given_of(_row(plain)) == plain


def test_options_and_arguments_that_quote_a_secret_are_hidden_and_directories_stay() -> None:
    given = Given(
        {**BARE, "job_parameters": {"api.token": CANARY, "note": f"see {CANARY}"}},
        ["--title", f"with {CANARY}", "--db-password", OTHER],
        {
            "pipeline.name": f"shop of {CANARY}",
            "pipeline.tags": f"a;{OTHER}",
            "execution.checkpointing.dir": "file:///a",
        },
        {},
    )
    shown, seal = withhold(JOB, given)
    assert CANARY not in str(shown) and OTHER not in str(shown)
    assert shown.configuration["execution.checkpointing.dir"] == "file:///a"
    assert shown.args[:3] == ["--title", "******", "--db-password"]
    assert seal and given_of(_row(given)) == given


def test_a_row_without_functions_is_still_a_graph_to_those_who_look_into_it() -> None:
    given = Given(graph_json(2), ["--db-password", CANARY], {}, {})
    row = _row(given)
    bare = job_graph_from_json(row.graph)
    assert not any(operator.factory for vertex in bare.vertices for operator in vertex.operators)
    assert [v.vertex_id for v in rescaled(bare, {}).vertices] == [v["vertex_id"] for v in given.graph["vertices"]]
    assert given_of(row) == given


@pytest.mark.django_db
@pytest.mark.parametrize("tags", [f"shop;{CANARY}", "shop;nightly"])
def test_a_tag_that_quotes_a_secret_is_left_out_with_its_neighbours(tags: str) -> None:
    graph = graph_json(2, **{"api.token": CANARY, "pipeline.tags": tags})
    row = submit_job(graph, None, [], {"api.token": CANARY, "pipeline.tags": tags}, None)
    assert row.tags == ([] if CANARY in tags else ["shop", "nightly"])


def test_a_seal_is_read_after_a_change_of_keys_and_not_without_its_key(settings: Settings) -> None:
    row = _row(GIVEN)
    settings.TIDEMARK_CLUSTER_KEYS = ["n" * 40, *settings.TIDEMARK_CLUSTER_KEYS]
    assert given_of(row) == GIVEN
    settings.TIDEMARK_CLUSTER_KEYS = ["n" * 40]
    with pytest.raises(UnsealedError, match="TIDEMARK_FORMER_CLUSTER_KEYS"):
        given_of(row)


def test_equal_secrets_have_different_seals_and_one_that_was_changed_or_moved_is_refused() -> None:
    row = _row(GIVEN)
    assert _row(GIVEN).withheld != row.withheld
    other = _row(GIVEN)
    other.id = "b" * 32
    with pytest.raises(UnsealedError):
        given_of(other)
    raw = base64.urlsafe_b64decode(row.withheld)
    for place in (0, 40, len(raw) - 1):
        row.withheld = base64.urlsafe_b64encode(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]).decode()
        with pytest.raises(UnsealedError):
            given_of(row)
    for damaged in ("AAAA", "no base64", "é"):
        row.withheld = damaged
        with pytest.raises(UnsealedError):
            given_of(row)


def test_slots_hide_what_the_job_was_submitted_with_and_no_numbers() -> None:
    secrets = JobSecrets(GivenSecrets({("pg", "url"): "redis://:hunter22@h"}), GIVEN).resolve([("pg", "url")])
    redact = Redaction(secrets)
    text = json.dumps([CANARY, OTHER, "hunter22", "1000 rows"])
    shown: Any = json.loads(redact(text))
    assert shown[0].startswith("<") and shown[1].startswith("<") and shown[2:] == ["<pg.url>", "1000 rows"]


@pytest.mark.django_db
def test_rows_of_earlier_releases_are_sealed_by_the_migration(settings: Settings) -> None:
    by_hand, plain, harmless, lost = (replace_id(_row(GIVEN), each * 32) for each in "cdef")
    for row in (plain, harmless):
        row.withheld = ""
    plain.graph, plain.program_args = dict(GIVEN.graph), list(GIVEN.args)
    plain.configuration, plain.submission = dict(GIVEN.configuration), dict(GIVEN.submission)
    harmless.graph, harmless.program_args = BARE, ["--rate", "3"]
    harmless.configuration, harmless.submission = {}, {}
    former = "f" * 40
    settings.SECRET_KEY_FALLBACKS = [former]
    text = json.dumps(sealed_values(by_hand))
    by_hand.withheld, lost.withheld = sealed_by_hand(by_hand.id, text, former), sealed_by_hand(lost.id, text, "l" * 40)
    for row in (by_hand, plain, harmless, lost):
        row.save()
    migration.seal(apps, SimpleNamespace(connection=connection))
    rows = {row.id: row for row in Job.objects.all()}
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM cluster_job")
        stored = str(cursor.fetchall())
    assert CANARY not in stored and OTHER not in stored and FUNCTION not in stored
    settings.SECRET_KEY_FALLBACKS = []
    assert given_of(rows[by_hand.id]) == given_of(rows[plain.id]) == GIVEN
    assert rows[harmless.id].withheld == "" and rows[harmless.id].program_args == ["--rate", "3"]
    # nobody could read it before, and it says so
    assert rows[lost.id].withheld == lost.withheld
    with pytest.raises(UnsealedError):
        given_of(rows[lost.id])


def replace_id(row: Job, job_id: str) -> Job:
    row.id = job_id
    return row


def sealed_values(row: Job) -> dict[str, Any]:
    """Return what the seal of the rows above has in it."""
    row.withheld = withhold(row.id, GIVEN)[1]
    rest: dict[str, Any] = json.loads(withheld.unsealed(row.id, row.withheld))
    # which left functions in the graph
    row.graph["vertices"], row.graph["edges"] = GIVEN.graph["vertices"], GIVEN.graph["edges"]
    return {name: value for name, value in rest.items() if name != "functions"}


def sealed_by_hand(job_id: str, text: str, secret: str) -> str:
    """Return a seal as releases before Fernet made it."""

    def key(salt: str) -> bytes:
        return salted_hmac(f"tidemark.withheld.{salt}", "", secret, algorithm="sha256").digest()

    nonce, plain = os.urandom(32), text.encode()
    stream = hashlib.shake_256(key("cipher") + nonce).digest(len(plain))
    cipher = bytes(a ^ b for a, b in zip(plain, stream, strict=True))
    return base64.b64encode(
        nonce + hmac.digest(key("tag"), job_id.encode() + nonce + cipher, "sha256") + cipher
    ).decode()
