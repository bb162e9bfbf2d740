"""The audit trail in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from backend.administration.tables import Table, block, moment, shown
from backend.audit.models import AuditEvent


class AuditEvents(Table):
    list_display = ("time", "user", "action", "object", "result", "status", "address")
    list_filter = ("result",)
    search_fields = ("user", "action", "object", "address")
    ordering = ("-id",)
    facts = ("time", "user", "token", "address", "action", "object", "result", "status", "details")

    @shown("time", "at")
    def time(self, event: Any) -> str | None:
        return moment(event.at)

    @shown("details")
    def details(self, event: Any) -> Any:
        return block(event.detail)


def register(site: admin.AdminSite) -> None:
    """Add the table to the site."""
    site.register(AuditEvent, AuditEvents)
