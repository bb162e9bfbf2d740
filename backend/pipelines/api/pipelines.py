"""Routes of pipelines, their versions and drafts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.answers import Nothing
from backend.accounts.roles import Role
from backend.accounts.views import chosen
from backend.audit import trail
from backend.contract.operation import operation
from backend.pipelines import deployments, services
from backend.pipelines.answers import pipelines as answers
from backend.pipelines.answers.pipelines import DraftListed, Editor, PipelineAnswer, PipelineListed
from backend.pipelines.api.base import (
    PipelinesView,
    PipelineView,
    body_of,
    document_of,
    draft_in,
    draft_json,
    key_of,
    listed_version,
    message_of,
    name_of,
    number_of,
    seen_draft,
    seen_head,
    tags_of,
    version_json,
)
from backend.pipelines.api.deployments import listed_deployment
from backend.pipelines.diff import document_diff
from backend.pipelines.models import Deployment, Draft, Pipeline, Version

logger = logging.getLogger(__name__)

_NUMBER_DIGITS = 9


class PipelinesListView(PipelinesView):
    """All pipelines of the cluster; POST creates one with its first version."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.PipelinesAnswer, query=answers.PipelinesQuery)
    def get(self, request: Request) -> Response:
        query = request.query_params
        archived = chosen(request, "archived", ("true", "false")) == "true"
        rows = services.list_pipelines(archived=archived, text=_clean(query, "text"), tag=_clean(query, "tag"))
        return Response({"pipelines": listed(rows, self)})

    @operation(answers.PipelineAnswer, body=answers.NewPipeline, status=201)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        pipeline, _ = services.create_pipeline(
            document_of(body), self.user, message=message_of(body), tags=tags_of(body) or (), key=key_of(request)
        )
        trail.note(request._request, pipeline=pipeline.id, name=pipeline.name)
        return Response(pipeline_answer(pipeline, self), status=status.HTTP_201_CREATED)


class PipelineDetailView(PipelineView):
    """A pipeline without its document; PATCH changes tags, archives and brings back; DELETE takes an archived one."""

    roles = {"PATCH": Role.DEVELOPER, "DELETE": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.PipelineAnswer)
    def get(self, request: Request, pipeline_id: str) -> Response:
        return Response(pipeline_answer(self.pipeline, self))

    @operation(answers.PipelineAnswer, body=answers.PipelineChange)
    def patch(self, request: Request, pipeline_id: str) -> Response:
        body = body_of(request)
        archived = body.get("archived")
        if archived is not None and not isinstance(archived, bool):
            raise exceptions.ValidationError({"archived": "Must be true or false."})
        before = _changeable(self.pipeline)
        services.change_pipeline(self.pipeline, tags=tags_of(body), archived=archived)
        trail.note(request._request, before=before, after=_changeable(self.pipeline))
        return Response(pipeline_answer(self.pipeline, self))

    @operation(Nothing)
    def delete(self, request: Request, pipeline_id: str) -> Response:
        trail.note(request._request, name=self.pipeline.name)
        services.delete_pipeline(self.pipeline)
        logger.info("%s deleted pipeline %s (%s)", request.user, pipeline_id, self.pipeline.name)
        return Response({})


class VersionsView(PipelineView):
    """All versions; POST saves the next one, if If-Match names the head, and ends the draft that the body names."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.VersionsAnswer)
    def get(self, request: Request, pipeline_id: str) -> Response:
        return Response({"versions": [listed_version(row) for row in services.list_versions(self.pipeline)]})

    @operation(answers.VersionAnswer, body=answers.NewVersion)
    def post(self, request: Request, pipeline_id: str) -> Response:
        body = body_of(request)
        version = services.save_version(
            self.pipeline,
            document_of(body),
            self.user,
            head=seen_head(request),
            draft=draft_in(body),
            message=message_of(body),
            key=key_of(request),
        )
        trail.note(request._request, version=version.number)
        return _version(version)


class VersionView(PipelineView):
    """One version with its document."""

    @operation(answers.VersionAnswer)
    def get(self, request: Request, pipeline_id: str, number: int) -> Response:
        return _version(services.get_version(self.pipeline, number))


class HeadView(PipelineView):
    """The newest version with its document."""

    @operation(answers.VersionAnswer)
    def get(self, request: Request, pipeline_id: str) -> Response:
        return _version(services.get_version(self.pipeline, self.pipeline.head))


class RestoreView(PipelineView):
    """Saves an old version's document as the next version, if If-Match names the head. The draft stays."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.VersionAnswer, body=answers.RestoreVersion)
    def post(self, request: Request, pipeline_id: str) -> Response:
        number = number_of(body_of(request), "version")
        head = seen_head(request)
        return _version(services.restore_version(self.pipeline, number, self.user, head=head, key=key_of(request)))


class DiffView(PipelineView):
    """The difference of two versions, by node and edge."""

    @operation(answers.Diff, query=answers.DiffQuery)
    def get(self, request: Request, pipeline_id: str) -> Response:
        after = services.get_version(self.pipeline, number_in_query(request, "after"))
        given = number_in_query(request, "before")
        before = services.get_version(self.pipeline, max(1, after.number - 1) if given is None else given)
        return Response({"before": before.number, "after": after.number, **document_diff(before.value, after.value)})


class DraftView(PipelineView):
    """The user's own draft, with its tag as ETag; PUT needs it in If-Match, or If-None-Match: * where there is none."""

    roles = {"GET": Role.DEVELOPER, "PUT": Role.DEVELOPER, "DELETE": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.DraftAnswer)
    def get(self, request: Request, pipeline_id: str) -> Response:
        draft = services.get_draft(self.pipeline, self.user)
        if draft is None:
            raise exceptions.NotFound(f"There is no draft of {self.pipeline.name!r}.")
        return _tagged(draft_json(draft), draft.tag)

    @operation(answers.DraftListed, body=answers.NewDraft)
    def put(self, request: Request, pipeline_id: str) -> Response:
        tag = seen_draft(request)
        body = body_of(request)
        base = number_of(body, "base")
        draft = services.put_draft(self.pipeline, self.user, document_of(body), base=base, tag=tag)
        return _tagged(listed_draft(draft), draft.tag)

    @operation(Nothing)
    def delete(self, request: Request, pipeline_id: str) -> Response:
        has_seen = "If-Match" in request.headers
        services.discard_draft(self.pipeline, self.user, seen_draft(request) if has_seen else None)
        return Response({})


def _changeable(pipeline: Pipeline) -> dict[str, Any]:
    """Return for the audit trail what belongs to no version."""
    return {"tags": pipeline.tags, "archived": pipeline.archived_at is not None}


def listed(rows: Iterable[Pipeline], view: PipelinesView) -> list[PipelineListed]:
    """Return pipelines as the list has them."""
    rows = list(rows)
    heads, drafts = services.heads_of(rows), services.drafts_of(rows, view.user)
    deployed = deployments.newest_deployments(rows)
    states = deployments.job_states(deployed.values())
    # one that is deleted meanwhile has no head any more
    return [
        _listed(row, heads[row.id], drafts.get(row.id), deployed.get(row.id), states) for row in rows if row.id in heads
    ]


def listed_draft(draft: Draft) -> DraftListed:
    """Return a draft without its document."""
    return {
        "tag": draft.tag,
        "base": draft.base,
        "semantic_hash": draft.semantic_hash,
        "updated_at": draft.updated_at,
    }


def _listed(
    pipeline: Pipeline, head: Version, draft: Draft | None, deployment: Deployment | None, states: Mapping[str, str]
) -> PipelineListed:
    return {
        "id": pipeline.id,
        "name": pipeline.name,
        "owner": name_of(pipeline.owner),
        "tags": pipeline.tags,
        "created_at": pipeline.created_at,
        "updated_at": pipeline.updated_at,
        "archived_at": pipeline.archived_at,
        "head": listed_version(head),
        "draft": None if draft is None else listed_draft(draft),
        "deployment": None if deployment is None else listed_deployment(deployment, states),
    }


def pipeline_answer(pipeline: Pipeline, view: PipelinesView) -> PipelineAnswer:
    """Return a pipeline as its own route has it."""
    found = listed([pipeline], view)
    if not found:
        raise services.PipelineUnknownError(pipeline.id)
    return {**found[0], "editors": [_editor(draft) for draft in services.editors_of(pipeline, view.user)]}


def _editor(draft: Draft) -> Editor:
    return {"user": name_of(draft.user), "base": draft.base, "updated_at": draft.updated_at}


def _version(version: Version) -> Response:
    return _tagged(version_json(version), str(version.number))


def _tagged(answer: Mapping[str, Any], tag: str) -> Response:
    return Response(answer, headers={"ETag": f'"{tag}"'})


def _clean(query: Any, name: str) -> str:
    # what databases do not take is in no name
    return str(query.get(name, "")).replace("\0", "\ufffd")[:200]


def number_in_query(request: Request, name: str) -> int | None:
    """Return the number of a version in the query; None: it has none."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > _NUMBER_DIGITS:
        raise exceptions.ValidationError({name: "Must be the number of a version."})
    return int(text)
