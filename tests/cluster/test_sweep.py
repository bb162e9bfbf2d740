"""`manage.py sweep`: deletes what is not kept while nobody leads, and nothing while somebody does."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import Settings

from backend.accounts.models import ApiToken
from backend.accounts.services import create_token
from backend.cluster import services
from backend.cluster.models import Job, LeaderEpoch
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership

pytestmark = pytest.mark.django_db(transaction=True)
DAY_MS = 24 * 3600 * 1000


@pytest.fixture(autouse=True)
def home(settings: Settings, tmp_path: Path) -> None:
    settings.TIDEMARK_HOME = tmp_path
    settings.REDIS_URL = "redis://127.0.0.1:1/0"


def ended_jobs(number: int, age_ms: int) -> None:
    for _ in range(number):
        job = services.submit_job(graph_json(1), None, [], {}, None)
        Job.objects.filter(id=job.id).update(state="FINISHED", ended_at=services.now_ms() - age_ms)


def swept(**options: float) -> str:
    out = io.StringIO()
    call_command("sweep", stdout=out, **options)
    return out.getvalue()


def test_old_jobs_and_expired_tokens_go_and_running_and_fresh_ones_stay() -> None:
    ended_jobs(4, DAY_MS)
    ended_jobs(2, 1000)
    running = services.submit_job(graph_json(1), None, [], {}, None)
    user = User.objects.create_user("alice")
    create_token(user, "old")
    create_token(user, "new")
    ApiToken.objects.filter(name="old").update(expires_at=services.now_ms() - 40 * DAY_MS)
    assert "rounds" in swept(keep_jobs=1)
    assert Job.objects.filter(state="FINISHED").count() == 2
    assert Job.objects.filter(id=running.id).exists()
    assert [token.name for token in ApiToken.objects.all()] == ["new"]
    assert LeaderEpoch.objects.get().holder == ""
    # again: there is nothing left
    assert "rounds" in swept(keep_jobs=1)
    assert Job.objects.count() == 3 and ApiToken.objects.count() == 1


def test_nothing_is_swept_while_a_jobmanager_leads() -> None:
    ended_jobs(2, DAY_MS)
    leadership = take_leadership("leader")
    with pytest.raises(CommandError, match="a JobManager leads"):
        swept(keep_jobs=0, wait=0.2)
    assert Job.objects.count() == 2
    leadership.release()
