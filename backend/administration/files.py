"""Files of the admin's pages: those that Django brings along, and our own. Nothing is loaded from elsewhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import django
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from backend.live.pages import file_answer, secured

_DIRECTORIES: Final = (
    Path(django.__file__).parent / "contrib" / "admin" / "static",
    Path(__file__).parent / "static",
)


@require_safe
def file(request: HttpRequest, name: str) -> HttpResponse:
    """Serve a file of the listing; a name that is not in it, however it is spelled, is not found."""
    found = _listing().get(name)
    if found is None:
        return secured(HttpResponse("Not found.\n", status=404, content_type="text/plain; charset=utf-8"))
    return secured(file_answer(request, name, found))


@cache
def _listing() -> dict[str, Path]:
    return {
        path.relative_to(directory).as_posix(): path
        for directory in _DIRECTORIES
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
