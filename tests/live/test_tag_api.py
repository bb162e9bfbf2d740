"""/api/v1/tags and /api/v1/jobs/:id/tags, and tags of the submission."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster.job_tags import MAX_TAGS, tags_of_option
from backend.cluster.models import Job
from runtime.common.config_options import ConfigurationError
from tests.accounts.cast import client_of
from tests.dispatcher import rows

pytestmark = pytest.mark.usefixtures("bus_redis")


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


def path(job: Job) -> str:
    return f"/api/v1/jobs/{job.id}/tags"


def test_a_job_is_tagged_and_listed_with_its_tags(api: APIClient, job: Job) -> None:
    assert api.get(path(job)).json() == {"tags": []} and api.get("/api/v1/tags").json() == {"jobs": {}}
    answer = api.put(path(job), {"tags": [" prod", "team=payments", "prod"]}, format="json")
    assert answer.json() == {"tags": ["prod", "team=payments"]}
    assert api.get("/api/v1/tags").json() == {"jobs": {job.id: ["prod", "team=payments"]}}
    assert api.put(path(job), {"tags": []}, format="json").json() == {"tags": []}


def test_edits_of_two_people_at_once_both_stay(api: APIClient, job: Job) -> None:
    api.put(path(job), {"tags": ["prod", "eu"]}, format="json")
    was = api.get(path(job)).json()["tags"]
    api.put(path(job), {"tags": ["prod", "team=a"], "was": was}, format="json")
    # the other one has not seen that "eu" is gone and "team=a" was added
    answer = api.put(path(job), {"tags": ["eu", "hot"], "was": was}, format="json")
    assert answer.json() == {"tags": ["hot", "team=a"]}
    assert Job.objects.get(id=job.id).tags == ["hot", "team=a"]
    # whoever does not say what was edited replaces all
    assert api.put(path(job), {"tags": ["eu"]}, format="json").json() == {"tags": ["eu"]}


def test_edits_at_once_do_not_exceed_the_limit(api: APIClient, job: Job) -> None:
    full = [f"tag{n}" for n in range(MAX_TAGS)]
    api.put(path(job), {"tags": full}, format="json")
    assert api.put(path(job), {"tags": ["one-more"], "was": []}, format="json").status_code == 400
    assert Job.objects.get(id=job.id).tags == full


@pytest.mark.parametrize("was", ["prod", [7], {}])
def test_what_was_edited_must_be_tags(api: APIClient, job: Job, was: object) -> None:
    assert api.put(path(job), {"tags": ["prod"], "was": was}, format="json").status_code == 400


def test_an_ended_job_keeps_its_tags_and_gets_others(api: APIClient, db: None) -> None:
    job = rows.ended_job("FAILED")
    assert api.put(path(job), {"tags": ["to-look-at"]}, format="json").status_code == 200
    assert Job.objects.get(id=job.id).tags == ["to-look-at"]


@pytest.mark.parametrize("tags", ["prod", None, ["two words"], [""], [7], ["x" * 41], [str(n) for n in range(17)]])
def test_what_is_no_list_of_tags_is_refused(api: APIClient, job: Job, tags: object) -> None:
    assert api.put(path(job), {"tags": tags}, format="json").status_code == 400
    assert Job.objects.get(id=job.id).tags == []


def test_viewers_only_read(victor: User, job: Job) -> None:
    viewer = client_of(victor)
    assert viewer.get(path(job)).status_code == 200
    assert viewer.put(path(job), {"tags": []}, format="json").status_code == 403


def test_the_option_of_the_submission() -> None:
    assert tags_of_option(" prod; team=a , eu;prod;") == ["prod", "team=a", "eu"] and tags_of_option("") == []
    for text in ("two words", ";".join(map(str, range(MAX_TAGS + 1)))):
        with pytest.raises(ConfigurationError, match=r"pipeline\.tags"):
            tags_of_option(text)
