"""Base of the admin's tables: they are looked at, not edited, as the leader owns the rows; and how values are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from backend.administration.site import site
from backend.audit.redaction import redacted_text

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin
Shown = Callable[[Any, Any], Any]


class Table(ModelAdmin):
    """Rows that nobody edits. Whoever is let into the site may see all of them.

    Attributes:
        facts: names of fields and of `shown` methods, in the order of the page of a row.
    """

    facts: ClassVar[tuple[str, ...]] = ()
    change_form_template = "administration/row.html"
    add_form_template = "administration/row.html"
    list_per_page = 100
    #: counting all rows as well is one more walk through the table
    show_full_result_count = False
    #: nothing is chosen from this many rows with a list
    list_select_related: ClassVar[Any] = False
    actions = None

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.facts

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.facts

    def has_module_permission(self, request: HttpRequest) -> bool:
        return True

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        # no other field: answers would tell, letter by letter, what pages do not show
        return any(lookup == name or lookup.startswith(f"{name}__") for name in self.list_filter)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        raise Http404(f"There is no {opts.verbose_name} {object_id[:100]}.")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        if request.method == "POST" and not self.get_actions(request):
            raise PermissionDenied
        return super().changelist_view(request, extra_context)

    def get_urls(self) -> list[URLPattern]:
        # no routes for what is not offered
        return [self.route("", self.changelist_view, "changelist"), self.route(ROW, self.change_view, "change")]

    def route(self, where: str, view: Callable[..., HttpResponseBase], name: str) -> URLPattern:
        """Return a route of this table, closed as all of the site."""
        meta = self.model._meta
        return path(where, site.admin_view(view), name=f"{meta.app_label}_{meta.model_name}_{name}")

    # the audit trail has it all, and nobody alters that
    def log_addition(self, *args: Any, **kwargs: Any) -> Any:
        return None

    log_change = log_deletion = log_deletions = log_addition


ROW = "<str:object_id>/change/"


def shown(label: str, order: str | None = None) -> Callable[[Shown], Shown]:
    """Mark a method that shows a value of a row.

    Args:
        label: heading of the column.
        order: the field by which the column is sorted; None: it is not.
    """
    return admin.display(description=label, ordering=order, empty_value="–")


def moment(epoch_ms: int | None) -> str | None:
    """Return a time as text, in UTC."""
    return None if epoch_ms is None else f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(ms: int) -> str:
    """Return a span of time as text, in its two largest units."""
    seconds = max(0, ms) // 1000
    for size, unit, smaller_size, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // smaller_size} {smaller}"
    return f"{seconds} s"


def size(count: int | None) -> str | None:
    """Return a number of bytes as text."""
    if count is None:
        return None
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def block(value: Any) -> SafeString | None:
    """Return JSON or text of many lines as it is, without what looks like a secret."""
    if value in (None, "", {}, []):
        return None
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html("<pre>{}</pre>", redacted_text(text))
