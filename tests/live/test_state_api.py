"""/api/v1/jobs/:id/state, …/state/keys and …/state/lookup."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster import services
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.models import Checkpoint, Job, Operation
from backend.cluster.storage_calls import ask_location
from backend.live import state_api
from runtime.checkpoint.handles import OperatorState, OperatorSubtaskState
from runtime.checkpoint.locations import join, local_path
from runtime.checkpoint.metadata import KIND, VERSION
from runtime.checkpoint.sealed import seal
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import TaskStateWriter, default_file_system
from runtime.client import state_lookup
from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import Row
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import CheckpointId
from runtime.core.keys import encode_key
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from runtime.state.handles import KeyedStateHandle
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from runtime.state.snapshot import KeyedSnapshot
from tests.checkpoint.snapshots import COUNTER, stored
from tests.dispatcher import rows

pytestmark = pytest.mark.usefixtures("bus_redis")
GROUPS = KeyGroupRange(0, 127)
STRING = Types.STRING()


@pytest.fixture
def job(home: Path, db: None) -> Job:
    return rows.running_job()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children have time, however busy the machine is."""
    monkeypatch.setattr(state_api, "look_up", partial(state_lookup.look_up, timeout_s=90.0))
    monkeypatch.setattr(state_api, "first_keys", partial(state_lookup.first_keys, timeout_s=90.0, look_s=60.0))


def written(directory: str, keys: dict[Any, int], key_type: TypeInformation | None) -> None:
    """A snapshot of an operator "count" with states "count", "names" and "raw", and a timer of each key."""
    backend = HashMapKeyedStateBackend(GROUPS, 128, SYSTEM_CLOCK)
    count = backend.get_state(ValueStateDescriptor("count", Types.LONG()))
    names = backend.get_state(MapStateDescriptor("names", Types.STRING(), Types.STRING()))
    raw = backend.get_state(ValueStateDescriptor("raw"))
    timers = backend.get_timer_service("timers", lambda timer: None, lambda timer: None)
    for key, value in keys.items():
        backend.set_current_key(key)
        count.update(value)
        names.put_all({f"n{n}": "x" * n for n in range(3)})
        raw.update(object)
        timers.register_event_time_timer(1_000 * value)
    taken = backend.snapshot()
    assert isinstance(taken, KeyedSnapshot)
    files, options = default_file_system(), CheckpointOptions(directory, directory)
    file = TaskStateWriter(files, options, CheckpointId(1), "count").write("keyed-state", encode_canonical(taken))
    states = tuple(taken.metas.values())
    handle = KeyedStateHandle(CANONICAL_FORMAT, GROUPS, 128, {CANONICAL_FILE: file}, states=states, has_timers=True)
    of_type = "any" if key_type is None else key_type.type_string()
    operator = OperatorState(COUNTER, "count", "count", 1, 128, (OperatorSubtaskState(handle),), key_type=of_type)
    SnapshotFiles(files).write_metadata(replace(stored(files, options), operators=(operator,), channels=(), edges={}))


def checkpointed(
    job: Job, home: Path, number: int, keys: dict[Any, int], key_type: TypeInformation | None = STRING
) -> str:
    """A completed checkpoint of the job; its location."""
    directory = join((home / "checkpoints").as_uri(), job.id, f"chk-{number}")
    written(directory, keys, key_type)
    Checkpoint.objects.create(
        job=job,
        checkpoint_id=number,
        location=directory,
        is_owned=True,
        is_savepoint=False,
        leader_epoch=1,
        attempt=0,
        triggered_at=1_000 * number,
        completed_at=1_000 * number + 5,
        size=100,
    )
    return directory


def look(api: APIClient, job: Job, ask: str = "lookup", **body: Any) -> Any:
    wanted = {"operator": COUNTER, "state": "count", **body}
    return api.post(f"/api/v1/jobs/{job.id}/state/{ask}", wanted, format="json")


def test_the_newest_checkpoint_has_its_operators_and_states(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {"old": 1})
    location = checkpointed(job, home, 2, {"a": 1})
    found = api.get(f"/api/v1/jobs/{job.id}/state").json()
    assert found["snapshot"] == {
        "kind": "checkpoint",
        "checkpoint_id": 2,
        "timestamp": 2_005,
        "location": location,
    }
    [operator] = found["operators"]
    assert (operator["id"], operator["name"], operator["key_type"]) == (COUNTER, "count", "string")
    assert operator["key_fields"] == [{"name": "", "type": "string"}]
    assert (operator["formats"], operator["has_timers"], operator["size"] > 0) == (["canonical"], True, True)
    states = {state.pop("name"): state for state in operator["states"]}
    assert states["names"] == {
        "kind": "map",
        "type": "map<string, string>",
        "is_namespaced": False,
        "has_ttl": False,
        "is_pickled": False,
    }
    assert (states["raw"]["type"], states["raw"]["is_pickled"]) == ("pickle", True)


def test_a_job_without_a_checkpoint_has_no_state_to_show(api: APIClient, job: Job) -> None:
    assert api.get(f"/api/v1/jobs/{job.id}/state").json() == {"snapshot": None, "operators": []}
    answer = look(api, job, key="a")
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["message"] == "The job has completed no checkpoint that is kept."
    assert api.get(f"/api/v1/jobs/{job.id}/state?snapshot=7").status_code == 404


def test_a_key_is_looked_up_with_its_timers(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {f"key {n}": n for n in range(50)})
    found = look(api, job, key="key 7").json()
    [value] = found["values"]
    assert (value["value"], value["namespace"], value["is_decoded"], value["is_cut"]) == (7, None, True, False)
    assert found["timers"] == [{"service": "timers", "is_event_time": True, "timestamp": 7_000, "namespace": None}]
    assert (found["key"], found["encoded_key"]) == ("key 7", encode_key("key 7").hex())
    assert found["snapshot"]["checkpoint_id"] == 1
    [names] = look(api, job, state="names", encoded_key=found["encoded_key"]).json()["values"]
    assert names["value"] == [{"key": f"n{n}", "value": "x" * n} for n in range(3)]
    assert names["num_items"] == 3
    [raw] = look(api, job, state="raw", key="key 7").json()["values"]
    assert (raw["value"], raw["is_decoded"]) == (None, False)
    missing = look(api, job, key="key 51").json()
    assert (missing["values"], missing["timers"]) == ([], [])


def test_columns_that_the_job_masks_are_hidden(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {"a": 1})
    Job.objects.filter(id=job.id).update(configuration={"web.peek.masked-columns": "n1,count"})
    [names] = look(api, job, state="names", key="a").json()["values"]
    assert [(each["key"], each["value"]) for each in names["value"]] == [("n0", ""), ("n1", "******"), ("n2", "xx")]
    [count] = look(api, job, key="a").json()["values"]
    assert count["value"] == "******"
    export = api.post(
        f"/api/v1/jobs/{job.id}/state/export", {"operator": COUNTER, "state": "count", "key": "a"}, format="json"
    )
    assert "******" in export.json()["csv"]


def test_first_keys_can_be_looked_up(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {f"key {n}": n for n in range(50)})
    some = look(api, job, "keys", limit=5).json()
    assert (len(some["keys"]), some["is_all"]) == (5, False)
    assert look(api, job, encoded_key=some["keys"][0]["encoded_key"]).json()["key"] == some["keys"][0]["key"]
    every = look(api, job, "keys").json()
    assert sorted(each["key"] for each in every["keys"]) == sorted(f"key {n}" for n in range(50))
    assert every["is_all"] is True


@pytest.mark.parametrize(
    ("key_type", "key", "json", "fields"),
    [
        (Types.LONG(), 7, "7", [""]),
        (Types.DOUBLE(), 0.5, 0.5, [""]),
        (Types.BOOLEAN(), True, True, [""]),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), ("a", 7), ["a", "7"], ["0", "1"]),
        (
            Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.LONG()]),
            Row(s="a", n=7),
            {"s": "a", "n": 7},
            ["s", "n"],
        ),
        (None, 7, 7, []),
    ],
    ids=str,
)
def test_keys_of_every_type_are_found_by_json(
    api: APIClient, job: Job, home: Path, key_type: TypeInformation | None, key: Any, json: Any, fields: list[str]
) -> None:
    checkpointed(job, home, 1, {key: 42}, key_type)
    [operator] = api.get(f"/api/v1/jobs/{job.id}/state").json()["operators"]
    assert [field["name"] for field in operator["key_fields"]] == fields
    [value] = look(api, job, key=json).json()["values"]
    assert value["value"] == 42


def test_keys_of_no_declared_type_are_read_as_the_request_says(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {7: 42}, None)
    assert look(api, job, key="7").json()["values"] == []
    assert look(api, job, key="7", key_type="long").json()["values"][0]["value"] == 42
    assert look(api, job, key="7", key_type="number").status_code == 400


def test_what_is_wrong_with_a_request_is_said(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {7: 42}, Types.LONG())
    refused = look(api, job, key="seven")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "key"
    assert "a key of the type long cannot be read from 'seven'" in refused.json()["errors"][0]["message"]
    missing = look(api, job, state="sum", key=7)
    assert missing.status_code == 404
    assert "no keyed state 'sum'; there are 'count'" in missing.json()["errors"][0]["message"]
    assert look(api, job, operator="nobody", key=7).status_code == 404
    assert look(api, job).status_code == 400
    assert look(api, job, encoded_key="zz").status_code == 400
    assert look(api, job, encoded_key="99").status_code == 400
    assert look(api, job, "keys", limit=1_000).status_code == 400
    assert look(api, job, key=7, snapshot="99").status_code == 404


def test_older_checkpoints_and_savepoints_are_looked_into(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {"a": 1})
    checkpointed(job, home, 2, {"a": 2})
    location = join((home / "savepoints").as_uri(), "savepoint-1")
    written(location, {"a": 3}, Types.STRING())
    savepoint = Operation.objects.create(
        job=job,
        kind=Operation.Kind.SAVEPOINT,
        state=Operation.State.COMPLETED,
        created_at=0,
        finished_at=9,
        result={"location": location, "checkpoint_id": 3},
    )
    for snapshot, value in (("", 2), ("1", 1), ("3", 3), (savepoint.trigger_id, 3), (location, 3)):
        found = look(api, job, key="a", snapshot=snapshot).json()
        assert found["values"][0]["value"] == value
    other = rows.running_job("other")
    assert look(api, other, key="a", snapshot=location).status_code == 404


def test_damage_is_told(api: APIClient, job: Job, home: Path) -> None:
    directory = local_path(checkpointed(job, home, 1, {"a": 1}))
    for path in directory.iterdir():
        if path.name != "_metadata":
            path.unlink()
    answer = look(api, job, key="a")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "unreadable"
    assert "it is missing" in answer.json()["errors"][0]["message"]
    (directory / "_metadata").write_bytes(b"nothing")
    assert api.get(f"/api/v1/jobs/{job.id}/state").status_code == 422
    assert look(api, job, "keys").status_code == 422


def test_what_was_not_signed_is_not_shown_where_only_that_is_taken(
    api: APIClient, job: Job, home: Path, settings: Settings
) -> None:
    directory = local_path(checkpointed(job, home, 1, {"a": 1}))
    settings.TIDEMARK_FOREIGN_SNAPSHOTS = False
    refused = [look(api, job, key="a"), look(api, job, "keys"), api.get(f"/api/v1/jobs/{job.id}/state")]
    for answer in refused:
        assert answer.status_code == 422
        assert "TIDEMARK_FOREIGN_SNAPSHOTS=0" in answer.json()["errors"][0]["message"]
    path = directory / "_metadata"
    metadata = SnapshotFiles(default_file_system()).load(str(directory))
    path.unlink()
    cluster_storage().signed_files().write_metadata(metadata)
    assert look(api, job, key="a").status_code == look(api, job, "keys").status_code == 200
    settings.TIDEMARK_FOREIGN_SNAPSHOTS = True
    document = json.loads(path.read_bytes().partition(b"\n")[2])
    path.write_bytes(seal(KIND, VERSION, {**document, "job_name": "another"}))
    changed = look(api, job, key="a")
    assert (changed.status_code, "its signature" in changed.json()["errors"][0]["message"]) == (422, True)


def test_a_storage_that_hangs_keeps_no_request(
    api: APIClient, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = local_path(checkpointed(job, home, 1, {"a": 1}))
    # whoever opens it waits for a writer
    (directory / "_metadata").unlink()
    os.mkfifo(directory / "_metadata")

    monkeypatch.setattr(state_api, "look_up", partial(state_lookup.look_up, timeout_s=4.0))
    answer = look(api, job, key="a")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "was not read: there was no answer within 4 s" in answer.json()["errors"][0]["message"]


def test_only_operators_see_contents_and_each_look_leaves_an_event(
    api: APIClient, job: Job, home: Path, victor: Any, oscar: Any
) -> None:
    location = checkpointed(job, home, 1, {"a": 1})
    api.force_authenticate(victor)
    assert api.get(f"/api/v1/jobs/{job.id}/state").status_code == 200
    assert look(api, job, key="a").status_code == 403
    assert look(api, job, "keys").status_code == 403
    api.force_authenticate(oscar)
    before = AuditEvent.objects.count()
    assert look(api, job, key="a").status_code == 200
    assert look(api, job, "keys").status_code == 200
    lookup, keys = AuditEvent.objects.order_by("id")[before:]
    assert lookup.action == "POST api/v1/jobs/<str:job_id>/state/lookup"
    assert lookup.detail == {"key": "a", "operator": COUNTER, "state": "count", "snapshot": location}
    assert (keys.detail["state"], keys.result) == ("count", "done")


def test_a_checkpoint_that_is_replaced_before_it_is_read_gives_way_to_its_successor(
    api: APIClient, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointed(job, home, 1, {"a": 1})
    usual = partial(state_lookup.look_up, timeout_s=90.0)

    def slow(place: state_lookup.StatePlace, **asked: Any) -> Any:
        number = Checkpoint.objects.get(job=job).checkpoint_id
        if number < replaced:
            checkpointed(job, home, number + 1, {"a": number + 1})
            Checkpoint.objects.filter(location=place.location).delete()
            shutil.rmtree(local_path(place.location))
        return usual(place, **asked)

    monkeypatch.setattr(state_api, "look_up", slow)
    replaced = 3
    found = look(api, job, key="a").json()
    assert (found["snapshot"]["checkpoint_id"], found["values"][0]["value"]) == (3, 3)
    replaced = 100
    answer = look(api, job, key="a")
    assert answer.status_code == 409 and "choose a savepoint" in answer.json()["errors"][0]["message"]


def test_the_states_of_a_checkpoint_that_is_replaced_are_those_of_its_successor(
    api: APIClient, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointed(job, home, 1, {"a": 1})

    def slow(location: str, call: Any) -> Any:
        if not Checkpoint.objects.filter(job=job, checkpoint_id=2).exists():
            checkpointed(job, home, 2, {"a": 2})
            Checkpoint.objects.filter(location=location).delete()
            shutil.rmtree(local_path(location))
        return ask_location(location, call)

    monkeypatch.setattr(state_api, "ask_location", slow)
    found = api.get(f"/api/v1/jobs/{job.id}/state")
    assert (found.status_code, found.json()["snapshot"]["checkpoint_id"]) == (200, 2)
    # whoever has asked for the first one is told
    assert api.get(f"/api/v1/jobs/{job.id}/state", {"snapshot": "1"}).status_code == 404


def test_a_checkpoint_that_completes_meanwhile_hides_no_other(
    api: APIClient, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointed(job, home, 1, {"a": 1})
    numbers = itertools.count(2)

    def checkpoints(job: Job) -> Any:
        found = job.checkpoints.order_by("-checkpoint_id")
        assert len(found) > 0
        checkpointed(job, home, next(numbers), {"a": 1})
        return found

    monkeypatch.setattr(services, "list_checkpoints", checkpoints)
    assert api.get(f"/api/v1/jobs/{job.id}/state").json()["snapshot"]["checkpoint_id"] == 1


def test_what_cannot_be_read_is_told_though_there_is_a_newer_checkpoint(
    api: APIClient, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointed(job, home, 1, {"a": 1})
    looks = []

    def failing(place: state_lookup.StatePlace, **asked: Any) -> Any:
        looks.append(place.location)
        checkpointed(job, home, len(looks) + 1, {"a": 1})
        raise state_lookup.StateLookupError("a value cannot be decoded", "unreadable")

    monkeypatch.setattr(state_api, "look_up", failing)
    answer = look(api, job, key="a")
    assert (answer.status_code, len(looks)) == (422, 1)
    assert answer.json()["errors"][0]["message"] == "a value cannot be decoded"


def test_what_was_found_is_exported_for_spreadsheets(api: APIClient, job: Job, home: Path, victor: Any) -> None:
    location = checkpointed(job, home, 1, {"=1+1": -7, "b": 2})
    before = AuditEvent.objects.count()
    answer = look(api, job, "export", key="=1+1")
    assert list(csv.reader(io.StringIO(answer.json()["csv"]))) == [
        ["key", "namespace", "item", "value", "touched"],
        ["'=1+1", "", "", "-7", ""],
    ]
    assert (answer.json()["num_rows"], answer.json()["is_cut"]) == (1, False)
    keys = look(api, job, "export").json()
    assert sorted(row[0] for row in csv.reader(io.StringIO(keys["csv"]))) == ["'=1+1", "b", "key"]
    assert (keys["num_rows"], keys["is_cut"], keys["snapshot"]["location"]) == (2, False, location)
    lookup, all_keys = AuditEvent.objects.order_by("id")[before:]
    assert lookup.action == "POST api/v1/jobs/<str:job_id>/state/export"
    of = {"operator": COUNTER, "state": "count", "snapshot": location, "is_export": True}
    assert (lookup.detail, all_keys.detail) == ({"key": "=1+1", **of}, of)
    api.force_authenticate(victor)
    assert look(api, job, "export").status_code == 403


def test_large_keys_are_exported_up_to_a_size(api: APIClient, job: Job, home: Path) -> None:
    """All of them would be more than an answer may have."""
    checkpointed(job, home, 1, {f"{n} {'x' * 20_000}": n for n in range(2_500)})
    keys = look(api, job, "export").json()
    assert keys["is_cut"] and 100 < keys["num_rows"] < 2_500


def test_every_key_is_named_in_the_audit_trail(api: APIClient, job: Job, home: Path) -> None:
    checkpointed(job, home, 1, {"a": 1})
    before = AuditEvent.objects.count()
    assert look(api, job, key=" " * 1_900 + "a").status_code == 200
    assert look(api, job, key="x" * 1_990).status_code == 200
    assert look(api, job, key="x" * 20_000).status_code == 400
    assert look(api, job, encoded_key="61 61").status_code == 400
    assert look(api, job, key="a", key_type="list<" * 5_000).status_code == 400
    padded, long = (event.detail["key"] for event in AuditEvent.objects.order_by("id")[before : before + 2])
    assert padded == "a"
    assert long.startswith('"xxx') and "sha256" in long and len(long) < 400
