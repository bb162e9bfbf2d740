"""The quota of a user's programs: bytes and numbers, alone and at the same time, before and after the body is read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.accounts.roles import Role, set_role
from backend.accounts.services import create_token
from backend.audit.models import AuditEvent
from backend.cluster.models import Artifact
from backend.cluster.services import now_ms
from backend.dispatcher.models import PendingUpload
from backend.dispatcher.quota import PENDING_MS, QuotaExceeded, give_back, set_aside
from backend.dispatcher.uploads import PENDING_UPLOAD, BodyLimit, Drain
from tests.accounts.cast import client_of
from tests.dispatcher.test_jars import jar_id, upload
from tests.pipelines_server.test_deployments import deploy
from tests.pipelines_server.test_pipelines import create

MIB = 1 << 20
HALF = "#" * (MIB // 2)

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(autouse=True)
def one_mib(settings: Settings) -> None:
    settings.TIDEMARK_QUOTA_MIB = 1
    settings.TIDEMARK_QUOTA_PROGRAMS = 5


def stored(home: Path) -> int:
    """Bytes of programs in the storage."""
    return sum(path.stat().st_size for path in (home / "artifacts").rglob("*.py"))


def text(number: int, size: int = MIB // 2) -> str:
    """A program of its own."""
    return f"{number:08}".rjust(size, "#")


def test_a_program_that_does_not_fit_is_refused_and_leaves_nothing_until_another_one_is_deleted(
    api: APIClient, home: Path
) -> None:
    first = jar_id(upload(api, "a.py", text(1)))
    jar_id(upload(api, "b.py", text(2, MIB // 4)))
    answer = upload(api, "c.py", text(3))
    assert answer.status_code == 507
    [message] = answer.json()["errors"]
    assert message == (
        "Your programs take 0.75 MiB of the 1 MiB that this cluster stores for you (TIDEMARK_QUOTA_MIB), those "
        "included that are being uploaded, and this one takes 0.5 MiB. Delete programs that are not needed, then try "
        "again."
    )
    assert stored(home) == MIB * 3 // 4 and Artifact.objects.count() == 2
    assert AuditEvent.objects.latest("pk").status == 507
    assert api.delete(f"/v1/jars/{first}").status_code == 200
    jar_id(upload(api, "c.py", text(3)))
    assert not PendingUpload.objects.exists()


def test_what_is_stored_already_takes_nothing_and_a_further_name_of_it_does(api: APIClient, home: Path) -> None:
    for name in ("a.py", "a.py", "b.py", "b.py", "a.py"):
        jar_id(upload(api, name, HALF))
    assert stored(home) == MIB
    assert upload(api, "c.py", HALF).status_code == 507
    assert upload(api, "d.py", "#").status_code == 507


def test_each_user_has_a_quota_and_the_last_uploader_has_the_program(
    api: APIClient, oscar: User, settings: Settings
) -> None:
    set_role(oscar, Role.DEVELOPER)
    other = client_of(oscar)
    for number in (1, 2):
        jar_id(upload(api, "a.py", text(number)))
    jar_id(upload(other, "a.py", text(3)))
    # all of its files are then theirs
    jar_id(upload(other, "a.py", text(1)))
    assert upload(other, "a.py", text(2)).status_code == 507
    jar_id(upload(api, "a.py", text(4)))
    assert Artifact.objects.filter(uploaded_by=oscar).count() == 2


def test_programs_are_numbered(api: APIClient, settings: Settings) -> None:
    settings.TIDEMARK_QUOTA_MIB = 0
    for number in range(5):
        jar_id(upload(api, "a.py", text(number, 10)))
    jar_id(upload(api, "a.py", text(0, 10)))
    # a further name is a further file
    for name, content in (("a.py", text(5, 10)), ("b.py", text(0, 10))):
        answer = upload(api, name, content)
        assert answer.status_code == 507
        [message] = answer.json()["errors"]
        assert "of the 5 programs that this cluster stores for you (TIDEMARK_QUOTA_PROGRAMS)" in message


def test_names_of_one_program_are_no_way_around_the_number_of_programs(
    api: APIClient, home: Path, oscar: User, settings: Settings
) -> None:
    settings.TIDEMARK_QUOTA_MIB = 0
    answers = [upload(api, f"{number}.py", "#").status_code for number in range(7)]
    assert answers == [200] * 5 + [507] * 2
    assert len(list((home / "artifacts").rglob("*.py"))) == 5
    set_role(oscar, Role.DEVELOPER)
    other = client_of(oscar)
    jar_id(upload(other, "own.py", text(1)))
    # all five would become theirs
    assert upload(other, "0.py", "#").status_code == 507


def test_administrators_have_a_quota_of_their_own_whatever_token_they_use(
    alice: User, home: Path, settings: Settings
) -> None:
    set_role(alice, Role.ADMIN)
    client = APIClient()
    token = create_token(alice, "narrow", scope=Role.DEVELOPER.group_name)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    for number in range(4):
        jar_id(upload(client, "a.py", text(number)))
    settings.TIDEMARK_ADMIN_QUOTA_MIB = 2
    answer = upload(client, "a.py", text(9))
    assert (answer.status_code, "(TIDEMARK_ADMIN_QUOTA_MIB)" in answer.json()["errors"][0]) == (507, True)


def test_without_limits_nothing_is_set_aside(alice: User, settings: Settings) -> None:
    settings.TIDEMARK_QUOTA_MIB = settings.TIDEMARK_QUOTA_PROGRAMS = 0
    assert set_aside(alice, 100 * MIB) is None


def test_a_deployment_stores_a_program_too(api: APIClient, settings: Settings) -> None:
    settings.TIDEMARK_QUOTA_PROGRAMS = 1
    pipeline = create(api)
    jar_id(upload(api, "a.py", HALF))
    answer = deploy(api, pipeline)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (507, "quota_exceeded")


def test_uploads_under_way_count(alice: User, api: APIClient) -> None:
    held = set_aside(alice, MIB * 3 // 4)
    assert upload(api, "a.py", text(1)).status_code == 507
    # the upload itself has it: nothing is counted twice
    kept = set_aside(alice, MIB, instead=held)
    with pytest.raises(QuotaExceeded):
        set_aside(alice, MIB + 1, instead=kept)
    assert [row.id for row in PendingUpload.objects.all()] == [kept]
    give_back(kept)
    jar_id(upload(api, "a.py", text(1)))


def test_what_a_killed_process_had_set_aside_is_free_an_hour_later(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_aside(alice, MIB)
    now = now_ms()
    monkeypatch.setattr("backend.dispatcher.quota.now_ms", lambda: now + PENDING_MS - 1000)
    with pytest.raises(QuotaExceeded):
        set_aside(alice, 1)
    monkeypatch.setattr("backend.dispatcher.quota.now_ms", lambda: now + PENDING_MS + 1000)
    set_aside(alice, MIB)
    assert PendingUpload.objects.count() == 1


@pytest.fixture(autouse=True, scope="module")
def sync_thread() -> Iterator[None]:
    """asgiref's one thread for synchronous code lives as long as the process: no test's own. Its connections do not."""
    SyncToAsync.single_thread_executor.submit(int).result()
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


@pytest.mark.django_db(transaction=True)
def test_uploads_at_the_same_time_do_not_pass_it_together(alice: User) -> None:
    start = threading.Barrier(6)

    def attempt(_: int) -> bool:
        start.wait()
        try:
            while True:
                # the database of the tests, in memory, refuses whoever would have to wait
                with suppress(OperationalError):
                    set_aside(alice, MIB // 3)
                    return True
        except QuotaExceeded:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, range(6))) == 3


# --- before the body is read ------------------------------------------------------------------------------------------


async def status_of(token: str, size: int, is_announced: bool = True) -> tuple[int, int, list[int]]:
    """Status of an upload, how much of it was taken, and what was set aside while its body was read."""
    taken = 0
    pending: list[int] = []
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 64 << 10
        return {"type": "http.request", "body": b"x" * (64 << 10), "more_body": taken < size}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def application(scope: Any, receive: Any, send: Any) -> None:
        rows = await sync_to_async(lambda: list(PendingUpload.objects.values_list("id", "size")))()
        assert [key for key, _ in rows] == [scope[PENDING_UPLOAD]]
        pending.extend(size for _, size in rows)
        while (await receive())["more_body"]:
            await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    headers = [(b"authorization", f"Bearer {token}".encode())]
    headers += [(b"content-length", str(size).encode())] if is_announced else []
    scope = {"type": "http", "method": "POST", "path": "/v1/jars/upload", "headers": headers}
    try:
        await BodyLimit(application, Drain(max_bytes=0))(scope, receive, send)
    except ZeroDivisionError:
        assert statuses == [200]
    assert not await sync_to_async(PendingUpload.objects.exists)()
    return statuses[0], taken, pending


@pytest.mark.django_db(transaction=True)
async def test_room_is_set_aside_before_the_body_is_read_and_given_back(alice: User, settings: Settings) -> None:
    settings.TIDEMARK_QUOTA_MIB = 4
    token = await sync_to_async(create_token)(alice, "test")
    assert await status_of(token, 3 * MIB) == (200, 3 * MIB, [3 * MIB])
    assert await status_of(token, 5 * MIB) == (507, 0, [])
    event = await sync_to_async(lambda: AuditEvent.objects.latest("pk"))()
    assert (event.user, event.result, event.status) == ("alice", "failed", 507)
    assert "TIDEMARK_QUOTA_MIB" in event.detail["refused"]
    # of one that does not say how large it is, the largest
    settings.TIDEMARK_MAX_UPLOAD_BYTES = 3 * MIB
    status, _, pending = await status_of(token, 2 * MIB, is_announced=False)
    assert status == 200 and pending[0] > 3 * MIB
