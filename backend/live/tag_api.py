"""REST routes of tags: those of all jobs in the overview, and those of one job."""

from __future__ import annotations

import logging

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role
from backend.accounts.views import ProductView
from backend.cluster import services
from backend.cluster.job_tags import TagError, change_tags, listed_tags
from backend.cluster.models import Job
from backend.contract.operation import operation
from backend.live.answers import AllTags, Tags, TagsChange
from backend.live.api import check_job

logger = logging.getLogger(__name__)


class AllTagsView(ProductView):
    @operation(AllTags)
    def get(self, request: Request) -> Response:
        return Response({"jobs": listed_tags()})


class TagsView(ProductView):
    roles = {"PUT": Role.OPERATOR}  # noqa: RUF012

    @operation(Tags)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        return Response({"tags": services.get_job(job_id).tags})

    @operation(Tags, body=TagsChange)
    def put(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        body = request.data
        if not isinstance(body, dict) or not isinstance(body.get("tags"), list):
            raise exceptions.ValidationError({"tags": "Must be a list of tags."})
        if not isinstance(body.get("was", []), list):
            raise exceptions.ValidationError({"was": "Must be a list of tags."})
        try:
            tags = change_tags(job_id, body["tags"], body.get("was"))
        except TagError as error:
            raise exceptions.ValidationError({"tags": str(error)}) from error
        except Job.DoesNotExist as error:
            # deleted since it was checked
            raise exceptions.NotFound(f"Job {job_id} not found.") from error
        logger.info("job %s was tagged %s by %s", job_id, tags, request.user)
        return Response({"tags": tags})
