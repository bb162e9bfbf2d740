"""The first run: a cluster that nobody has used yet gets a pipeline that runs, made by the services that users call.

It is made once in the life of a database: a mark stays when the pipeline is archived or deleted. A run that is killed
half-way is finished by the next one, because each step has a key. Blocking; `manage.py first_run` calls it.
"""

from __future__ import annotations

import copy
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from backend.accounts.submission import refusal
from backend.cluster.services import any_job_active, now_ms
from backend.pipelines import deployments
from backend.pipelines.documents import check
from backend.pipelines.models import Deployment, Mark, Pipeline
from backend.pipelines.services import create_pipeline
from runtime.pipeline.templates import templates

TEMPLATE: Final = "04-flights-live"
KEY: Final = "first-run"


def is_due() -> bool:
    """Return whether there is something to do: nothing has been made here yet, or what was made was never deployed.

    Where the cluster's owner says which programs are run, if any, there is not.
    """
    if refusal(is_draft=True) is not None:
        return False
    mark = Mark.objects.filter(name=KEY).first()
    if mark is None:
        # whoever has pipelines or jobs already knows what this is about
        return not any_job_active() and not Pipeline.objects.exists()
    return _undeployed(mark) is not None


def first_run(user: User, parallelism: int) -> Deployment | None:
    """Make the pipeline of the first run and deploy it.

    Args:
        user: its owner.
        parallelism: of the job.

    Returns:
        The deployment; None: there is nothing to do.

    Raises:
        backend.pipelines.services.PipelineError: the cluster refuses it just now; the next run tries again. See
            `deployments.plan` for others.
    """
    if not is_due():
        return None
    mark = Mark.objects.filter(name=KEY).first() or _made(user, parallelism)
    pipeline = _undeployed(mark)
    if pipeline is None:
        return None
    version = pipeline.versions.get(number=pipeline.head)
    return deployments.deploy(pipeline, version, user, KEY, deployments.Restore(), lambda: False)


def _made(user: User, parallelism: int) -> Mark:
    document = copy.deepcopy(dict(templates()[TEMPLATE].value))
    document["settings"] = {**document["settings"], "parallelism": parallelism}
    with transaction.atomic():
        pipeline, _ = create_pipeline(check(document), user, message="What make run begins with", key=KEY)
        return Mark.objects.create(name=KEY, value=pipeline.id, made_at=now_ms())


def _undeployed(mark: Mark) -> Pipeline | None:
    """Return the pipeline that was made, if it is still there and has never been deployed."""
    found = Pipeline.objects.filter(id=mark.value, archived_at__isnull=True).first()
    return None if found is None or found.deployments.exists() else found
