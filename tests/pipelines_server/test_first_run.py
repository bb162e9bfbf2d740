"""The first run: one pipeline and one job, whatever happens in between; never again once a user has put it away."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from rest_framework.exceptions import ParseError, ValidationError

from backend.cluster.models import Job
from backend.pipelines import deployments
from backend.pipelines.first_run import first_run, is_due
from backend.pipelines.models import Deployment, Pipeline
from backend.pipelines.services import change_pipeline, delete_pipeline
from backend.supervisor.management.commands.first_run import in_words


def test_the_first_run_makes_one_pipeline_and_one_job_and_no_other_run_does(alice: User) -> None:
    assert is_due()
    deployment = first_run(alice, parallelism=2)
    assert deployment is not None
    [job], [pipeline] = Job.objects.all(), Pipeline.objects.all()
    assert (job.id, job.name, pipeline.name) == (deployment.job_id, "Flights live", "Flights live")
    assert {vertex["parallelism"] for vertex in job.graph["vertices"]} == {1, 2}
    assert not is_due() and first_run(alice, parallelism=2) is None
    # the user has ended the job: that is no reason to begin again
    Job.objects.update(state="CANCELED")
    Deployment.objects.update(state="RUNNING")
    assert not is_due()
    change_pipeline(pipeline, archived=True)
    assert not is_due()
    delete_pipeline(pipeline)
    assert not is_due() and first_run(alice, parallelism=2) is None
    assert (Job.objects.count(), Pipeline.objects.count()) == (1, 0)


def test_a_run_that_is_killed_before_the_deployment_is_finished_by_the_next_one(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise deployments.DeploymentRefusedError("killed")

    with monkeypatch.context() as until_then:
        until_then.setattr(deployments, "deploy", killed)
        with pytest.raises(deployments.DeploymentRefusedError):
            first_run(alice, parallelism=1)
    assert is_due() and (Pipeline.objects.count(), Job.objects.count()) == (1, 0)
    assert first_run(alice, parallelism=1) is not None
    assert (Pipeline.objects.count(), Job.objects.count()) == (1, 1)


def test_whoever_draws_already_is_left_alone(alice: User) -> None:
    Pipeline.objects.create(name="Mine", owner=alice, created_at=1, updated_at=1)
    assert not is_due() and first_run(alice, parallelism=1) is None


def test_a_refusal_is_told_in_words() -> None:
    assert in_words(ParseError("it did not get to execute()")) == "it did not get to execute()"
    assert in_words(ParseError(["one.", "two."])) == "one. two."
    assert in_words(ValidationError({"name": ["too long."], "size": "too large."})) == "too long. too large."
