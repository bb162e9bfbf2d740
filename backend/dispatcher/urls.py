"""Flink's routes, with and without /v1; all other paths get Flink's 404. Included last."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path

from backend.dispatcher.api import checkpoints, cluster, jars, jobs, processes, rescaling, savepoints, vertices
from backend.dispatcher.api.base import NoSuchRoute

vertex_routes: list[URLPattern] = [
    path("", vertices.VertexDetailView.as_view()),
    path("/accumulators", vertices.VertexAccumulatorsView.as_view()),
    path("/backpressure", vertices.BackPressureView.as_view()),
    path("/flamegraph", vertices.FlameGraphView.as_view()),
    path("/jm-operator-metrics", vertices.CoordinatorMetricsView.as_view()),
    path("/metrics", vertices.VertexMetricsView.as_view()),
    path("/subtasks/accumulators", vertices.SubtasksAccumulatorsView.as_view()),
    path("/subtasks/metrics", vertices.SubtasksMetricsView.as_view()),
    path("/subtasks/<str:index>", vertices.SubtaskView.as_view()),
    path("/subtasks/<str:index>/attempts/<str:attempt>", vertices.SubtaskAttemptView.as_view()),
    path(
        "/subtasks/<str:index>/attempts/<str:attempt>/accumulators", vertices.SubtaskAttemptAccumulatorsView.as_view()
    ),
    path("/subtasks/<str:index>/metrics", vertices.SubtaskMetricsView.as_view()),
    path("/subtasktimes", vertices.SubtaskTimesView.as_view()),
    path("/taskmanagers", vertices.VertexTaskManagersView.as_view()),
    path("/watermarks", vertices.WatermarksView.as_view()),
]
job_routes: list[URLPattern | URLResolver] = [
    path("", jobs.JobDetailView.as_view()),
    path("/accumulators", jobs.JobAccumulatorsView.as_view()),
    path("/checkpoints", checkpoints.CheckpointsView.as_view()),
    path("/checkpoints/config", checkpoints.CheckpointConfigView.as_view()),
    path("/checkpoints/details/<str:checkpoint_id>", checkpoints.CheckpointView.as_view()),
    path(
        "/checkpoints/details/<str:checkpoint_id>/subtasks/<str:vertex_id>",
        checkpoints.CheckpointSubtasksView.as_view(),
    ),
    path("/checkpoints/<str:trigger_id>", checkpoints.CheckpointTriggerView.as_view()),
    path("/config", jobs.JobConfigView.as_view()),
    path("/exceptions", jobs.JobExceptionsView.as_view()),
    path("/execution-result", jobs.JobResultView.as_view()),
    path("/jobmanager/config", jobs.JobClusterConfigView.as_view()),
    path("/jobmanager/log-url", jobs.JobLogUrlView.as_view()),
    path("/metrics", jobs.JobMetricsView.as_view()),
    path("/plan", jobs.JobPlanView.as_view()),
    path("/rescaling", rescaling.RescalingView.as_view()),
    path("/resource-requirements", rescaling.ResourceRequirementsView.as_view()),
    path("/savepoints", savepoints.SavepointsView.as_view()),
    path("/savepoints/<str:trigger_id>", savepoints.SavepointTriggerView.as_view()),
    path("/status", jobs.JobStatusView.as_view()),
    path("/stop", savepoints.StopView.as_view()),
    path("/taskmanagers/<str:taskmanager_id>/log-url", jobs.JobLogUrlView.as_view()),
    path("/vertices/<str:vertex_id>", include(vertex_routes)),
    path("/yarn-cancel", jobs.CancelByGetView.as_view()),
]
routes: list[URLPattern | URLResolver] = [
    path("overview", cluster.OverviewView.as_view()),
    path("config", cluster.ConfigView.as_view()),
    path("applications/overview", jobs.ApplicationsOverviewView.as_view()),
    path("applications/<str:application_id>", jobs.ApplicationView.as_view()),
    path("applications/<str:application_id>/cancel", jobs.ApplicationCancelView.as_view()),
    path("applications/<str:application_id>/exceptions", jobs.ApplicationExceptionsView.as_view()),
    path("datasets", cluster.DataSetsView.as_view()),
    path("jars", jars.JarsView.as_view()),
    path("jars/upload", jars.JarUploadView.as_view()),
    path("jars/<str:jar_id>", jars.JarView.as_view()),
    path("jars/<str:jar_id>/plan", jars.JarPlanView.as_view()),
    path("jars/<str:jar_id>/run", jars.JarRunView.as_view()),
    path("jobmanager/config", cluster.JobManagerConfigView.as_view()),
    path("jobmanager/environment", processes.JobManagerEnvironmentView.as_view()),
    path("jobmanager/log", processes.JobManagerLogView.as_view()),
    path("jobmanager/logs", processes.JobManagerLogsView.as_view()),
    path("jobmanager/logs/<str:file_name>", processes.JobManagerLogFileView.as_view()),
    path("jobmanager/metrics", cluster.JobManagerMetricsView.as_view()),
    path("jobmanager/stdout", processes.JobManagerOutputView.as_view()),
    path("jobmanager/thread-dump", processes.JobManagerThreadsView.as_view()),
    path("jobs", jobs.JobsView.as_view()),
    path("jobs/metrics", jobs.JobsMetricsView.as_view()),
    path("jobs/overview", jobs.JobsOverviewView.as_view()),
    path("jobs/<str:job_id>", include(job_routes)),
    path("savepoint-disposal", savepoints.DisposalsView.as_view()),
    path("savepoint-disposal/<str:trigger_id>", savepoints.DisposalView.as_view()),
    path("taskmanagers", cluster.TaskManagersView.as_view()),
    path("taskmanagers/metrics", cluster.TaskManagersMetricsView.as_view()),
    path("taskmanagers/<str:taskmanager_id>", cluster.TaskManagerView.as_view()),
    path("taskmanagers/<str:taskmanager_id>/log", processes.TaskManagerLogView.as_view()),
    path("taskmanagers/<str:taskmanager_id>/logs", processes.TaskManagerLogsView.as_view()),
    path("taskmanagers/<str:taskmanager_id>/logs/<str:file_name>", processes.TaskManagerLogFileView.as_view()),
    path("taskmanagers/<str:taskmanager_id>/metrics", cluster.TaskManagerMetricsView.as_view()),
    path("taskmanagers/<str:taskmanager_id>/stdout", processes.TaskManagerOutputView.as_view()),
    path("taskmanagers/<str:taskmanager_id>/thread-dump", processes.TaskManagerThreadsView.as_view()),
]
urlpatterns: list[URLPattern | URLResolver] = [
    path("", include(routes)),
    path("v1/", include(routes)),
    re_path(r"^(?P<path>[\s\S]*)\Z", NoSuchRoute.as_view()),
]
