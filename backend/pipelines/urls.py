"""Routes of pipelines, all under api/v1/pipelines."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from backend.pipelines.api import building, checks, connections, deployments, exports, pipelines, previews

pipeline_routes: list[URLPattern] = [
    path("", pipelines.PipelineDetailView.as_view()),
    path("/draft", pipelines.DraftView.as_view()),
    path("/versions", pipelines.VersionsView.as_view()),
    path("/versions/head", pipelines.HeadView.as_view()),
    path("/versions/<int:number>", pipelines.VersionView.as_view()),
    path("/restore", pipelines.RestoreView.as_view()),
    path("/diff", pipelines.DiffView.as_view()),
    path("/export", exports.ExportView.as_view()),
    path("/compatibility", deployments.CompatibilityView.as_view()),
    path("/restore-points", deployments.RestorePointsView.as_view()),
    path("/deployments", deployments.DeploymentsView.as_view()),
    path("/deployments/<str:deployment_id>", deployments.DeploymentView.as_view()),
]
routes: list[URLPattern | URLResolver] = [
    path("", pipelines.PipelinesListView.as_view()),
    path("/import", exports.ImportView.as_view()),
    path("/export", exports.DocumentExportView.as_view()),
    path("/catalog", building.CatalogView.as_view()),
    path("/templates", building.TemplatesView.as_view()),
    path("/validate", building.ValidateView.as_view()),
    path("/compile", building.CompileView.as_view()),
    path("/preview", previews.PreviewsView.as_view()),
    path("/preview/<str:preview_id>", previews.PreviewView.as_view()),
    path("/tests", checks.TestsView.as_view()),
    path("/plan", checks.PlanView.as_view()),
    path("/rename", checks.RenameView.as_view()),
    path("/read-schema", checks.ReadSchemaView.as_view()),
    path("/jobs/<str:job_id>", deployments.JobPipelineView.as_view()),
    path("/connections", connections.ConnectionsView.as_view()),
    path("/connections/<str:name>", connections.ConnectionView.as_view()),
    path("/connections/<str:name>/test", connections.ConnectionTestView.as_view()),
    path("/connections/<str:name>/describe", connections.ConnectionDescribeView.as_view()),
    path("/<str:pipeline_id>", include(pipeline_routes)),
]
urlpatterns: list[URLPattern | URLResolver] = [path("api/v1/pipelines", include(routes))]
