"""Every template on a real cluster: it is deployed, runs, and its next version goes on from a savepoint."""

from __future__ import annotations

import copy
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from runtime.client.jobs import TERMINAL_STATES
from runtime.pipeline.templates import templates
from tests.cluster.stack import Stack, running_stack
from tests.pipeline.generator import SERVERS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

#: those that need no server: the others run with one in tests/pipeline/test_servers.py
ALONE = [
    name for name, document in templates().items() if not {node.type for node in document.nodes.values()} & SERVERS
]
#: the job runs that long before it is replaced
RUN_MS = 10_000
WAIT_S = 120
LINES = "id,country,amount,ordered_at\n1,DE,2.5,2026-01-01 12:00:00\nx,y,z,q\n"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="6") as running:
        # the demonstration has shown in other tests that it runs
        running.client.cancel(running.job("Flights live")["jid"])
        yield running


@pytest.fixture(autouse=True)
def no_jobs_left(stack: Stack) -> Iterator[None]:
    """Cancels what a failed test leaves running: it would take the slots of the next one."""
    yield
    for job in stack.client.jobs():
        if job["state"] not in TERMINAL_STATES:
            stack.client.cancel(job["jid"])


def send(stack: Stack, path: str, body: dict[str, Any] | None, **headers: str) -> dict[str, Any]:
    """POST to a route of pipelines, or GET it if there is no body."""
    token = (stack.home / "admin-token").read_text().strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.port}/api/v1/pipelines{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=90) as answer:
        return dict(json.load(answer))


def document(name: str, directory: Path) -> dict[str, Any]:
    """Return a template that reads and writes below a directory, with a checkpoint each second."""
    value = copy.deepcopy(dict(templates()[name].value))
    value["name"] = f"{value['name']} of a test"
    value["settings"] = {**value["settings"], "parallelism": 1, "checkpointing": {"interval": "1 s"}}
    for node in value["nodes"].values():
        if node["type"] == "source.files":
            # one that watches its directory does not end
            (directory / "in").mkdir()
            (directory / "in" / "a.csv").write_text(LINES)
            node["params"] |= {"paths": [str(directory / "in")], "watch": "1 s"}
        elif node["type"] == "sink.files":
            node["params"]["path"] = str(directory / node["uid"])
    return value


def deploy(stack: Stack, pipeline: str, version: int) -> dict[str, Any]:
    """Deploy a version; returns the deployment when it has a job, which is when the one before has been stopped."""
    body, key = {"version": version}, f"version-{version}-of-{pipeline}"
    made = send(stack, f"/{pipeline}/deployments", body, **{"Idempotency-Key": key})["id"]

    def deployed() -> dict[str, Any]:
        [found] = (d for d in send(stack, f"/{pipeline}/deployments", None)["deployments"] if d["id"] == made)
        assert found["state"] not in ("FAILED", "ROLLING_BACK", "ROLLED_BACK"), found["message"]
        return dict(found)

    wait_until(lambda: deployed()["job_state"] is not None, WAIT_S, f"the job of version {version}")
    return deployed()


def check_restore(stopped: dict[str, Any], restored: dict[str, Any], savepoint: str) -> None:
    """The second job began with the savepoint that the first one was stopped with, and with all that is in it."""
    last, first = stopped["latest"]["savepoint"], restored["latest"]["restored"]
    assert savepoint and last["external_path"] == savepoint
    assert (first["external_path"], first["id"], first["is_savepoint"]) == (savepoint, last["id"], True)
    report = restored["restore_report"]
    assert (report["location"], report["checkpoint_id"]) == (savepoint, last["id"])
    assert report["matched"] and not report["dropped"] and not report["new"], report
    # numbers go on from those of the first job
    assert all(int(checkpoint) > last["id"] for checkpoint in restored["history"])


@pytest.mark.parametrize("name", ALONE)
def test_a_template_runs_and_its_next_version_goes_on_from_a_savepoint(name: str, stack: Stack, tmp_path: Path) -> None:
    value = document(name, tmp_path)
    made = send(stack, "", {"document": value}, **{"Idempotency-Key": f"template-{name}"})
    job = deploy(stack, made["id"], 1)["job_id"]

    def live(job_id: str) -> dict[str, Any]:
        return dict(stack.client.live(job_id))

    def has_run() -> bool:
        document = live(job)
        assert document["state"] in ("INITIALIZING", "CREATED", "RUNNING"), document["exceptions"]
        moves = all(vertex["metrics"]["records_in"] or not vertex["is_source"] for vertex in document["vertices"])
        return document["state"] == "RUNNING" and moves and document["duration"] >= RUN_MS

    wait_until(has_run, WAIT_S, f"{name} runs")
    # the same nodes at another parallelism of the whole, then in another execution
    for version, changed in ((2, {"parallelism": 2}), (3, {"parallelism": 1, "execution_mode": "micro-batch"})):
        value["settings"] |= changed
        for node in value["nodes"].values():
            if version == 3 and node["type"] == "time.watermark":
                # in micro-batches it is for sources
                node["params"]["idle"] = None
        send(
            stack,
            f"/{made['id']}/versions",
            {"document": value, "message": "with other settings"},
            **{"If-Match": f'"{version - 1}"', "Idempotency-Key": f"{version}-{name}"},
        )
        deployment = deploy(stack, made["id"], version)
        following = deployment["job_id"]

        def is_replaced(job: str = job, following: str = following) -> bool:
            jobs = {listed["jid"]: listed["state"] for listed in stack.client.jobs()}
            newest = send(stack, f"/{made['id']}/deployments", None)["deployments"][0]
            return jobs.get(job) == "FINISHED" and jobs.get(following) == "RUNNING" and newest["state"] == "RUNNING"

        wait_until(is_replaced, WAIT_S, f"{name} goes on")
        restored = live(following)
        assert not restored["exceptions"], restored["exceptions"]
        check_restore(live(job)["checkpoints"], restored["checkpoints"], deployment["savepoint"])
        if (tmp_path / "in").exists():
            (tmp_path / "in" / f"version-{version}.csv").write_text(LINES)

        def reads(following: str = following) -> bool:
            return any(vertex["metrics"]["records_in"] for vertex in live(following)["vertices"])

        wait_until(reads, WAIT_S, f"{name} reads on")
        job = following
    stack.client.cancel(job)
    wait_until(lambda: live(job)["state"] == "CANCELED", WAIT_S, "the end")


def test_the_template_of_files_reads_the_file_that_comes_with_tidemark(stack: Stack, tmp_path: Path) -> None:
    value = copy.deepcopy(dict(templates()["12-csv-to-parquet"].value))
    value["name"] = "Orders that come with Tidemark"
    for node in value["nodes"].values():
        if node["type"] == "sink.files":
            node["params"]["path"] = str(tmp_path / node["uid"])
    made = send(stack, "", {"document": value}, **{"Idempotency-Key": "template-as-it-is"})
    job = deploy(stack, made["id"], 1)["job_id"]

    def has_ended() -> bool:
        document = dict(stack.client.live(job))
        assert document["state"] not in ("FAILING", "FAILED"), document["exceptions"]
        return bool(document["state"] == "FINISHED")

    wait_until(has_ended, WAIT_S, "the end of the file")
    kept = pl.read_parquet([*(tmp_path / "parquet").rglob("*.parquet")])
    bad = [line for file in (tmp_path / "bad-lines").rglob("*.ndjson") for line in file.read_text().splitlines()]
    assert kept.height > 200 and kept["id"].is_unique().all() and len(bad) == 4
