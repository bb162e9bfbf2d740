"""Routes of the admin, and its files."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from backend.administration import audit_tables, cluster_tables, directory_tables
from backend.administration.files import file
from backend.administration.site import site

audit_tables.register(site)
cluster_tables.register(site)
directory_tables.register(site)

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin", site.admin_view(site.index)),
    path("admin/", site.urls),
    path("static/<path:name>", file),
]
