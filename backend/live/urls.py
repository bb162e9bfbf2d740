"""Routes of the live app."""

from __future__ import annotations

from django.urls import path

from backend.live import (
    api,
    autoscaler_api,
    checkpoint_api,
    failure_api,
    history_api,
    job_api,
    log_api,
    pages,
    peek_api,
    prometheus,
    savepoint_api,
    stack_api,
    state_api,
    timeline_api,
)

urlpatterns = [
    path("", pages.root),
    path("ui", pages.root),
    path("ui/", pages.page),
    path("ui/<path:path>", pages.page),
    path("livez", pages.livez),
    path("readyz", pages.readyz),
    path("metrics", prometheus.MetricsView.as_view()),
    path("api/v1/cluster", api.ClusterView.as_view()),
    path("api/v1/jobmanagers", api.JobManagersView.as_view()),
    path("api/v1/savepoints", savepoint_api.SavepointsView.as_view()),
    path("api/v1/jobs/<str:job_id>/live", api.LiveJobView.as_view()),
    path("api/v1/jobs/<str:job_id>/topic", api.JobTopicView.as_view()),
    path("api/v1/jobs/<str:job_id>/vertices/<str:vertex_id>/topic", api.VertexTopicView.as_view()),
    path("api/v1/jobs/<str:job_id>/vertices/<str:vertex_id>/metrics", api.VertexMetricsView.as_view()),
    path("api/v1/jobs/<str:job_id>/peeks", peek_api.PeeksView.as_view()),
    path("api/v1/jobs/<str:job_id>/peeks/<str:peek_id>", peek_api.PeekView.as_view()),
    path("api/v1/jobs/<str:job_id>/vertices/<str:vertex_id>/stacks", stack_api.StacksView.as_view()),
    path("api/v1/jobs/<str:job_id>/operations", job_api.OperationsView.as_view()),
    path("api/v1/jobs/<str:job_id>/operations/<str:trigger_id>", job_api.OperationView.as_view()),
    path("api/v1/jobs/<str:job_id>/autoscaler", autoscaler_api.AutoscalerView.as_view()),
    path("api/v1/jobs/<str:job_id>/checkpoints/gantt", checkpoint_api.CheckpointGanttView.as_view()),
    path("api/v1/jobs/<str:job_id>/state", state_api.StateView.as_view()),
    path("api/v1/jobs/<str:job_id>/state/keys", state_api.StateKeysView.as_view()),
    path("api/v1/jobs/<str:job_id>/state/lookup", state_api.StateLookupView.as_view()),
    path("api/v1/jobs/<str:job_id>/state/export", state_api.StateExportView.as_view()),
    path("api/v1/jobs/<str:job_id>/failures", failure_api.FailureGroupsView.as_view()),
    path("api/v1/jobs/<str:job_id>/timeline", timeline_api.TimelineView.as_view()),
    path("api/v1/jobs/<str:job_id>/history", history_api.HistoryView.as_view()),
    path("api/v1/jobs/<str:job_id>/restore-points", job_api.RestorePointsView.as_view()),
    path("api/v1/jobs/<str:job_id>/log-search", api.LogSearchView.as_view()),
    path("api/v1/jobs/<str:job_id>/logs", api.LogsView.as_view()),
    path("api/v1/jobs/<str:job_id>/logs/search", log_api.JobLogView.as_view()),
    path("api/v1/jobs/<str:job_id>/logs/<path:name>", api.LogView.as_view()),
    path("api/<path:path>", api.NoSuchRoute.as_view()),
]
