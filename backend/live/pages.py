"""The page's static files under /ui/, the redirect to them, and the two health routes. Public: they expose no data.

Files are served from a listing of the built front end; other paths are the page's own routes and get its index. The
content security policy lets the page load from, and connect to, its own origin only.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from backend.cluster import bus
from backend.config.base_path import page_route

logger = logging.getLogger(__name__)

INDEX = "index.html"
#: Vite puts a content hash into the file names below this directory
HASHED = "assets/"
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        # the component library uses style attributes and elements
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}
_COMPRESSED = {".js", ".mjs", ".css", ".html", ".svg", ".json", ".txt", ".map", ".webmanifest"}
Response = TypeVar("Response", bound=HttpResponseBase)
NOT_BUILT = "The page is not built yet: run `make run` or `make frontend`.\n"


@dataclass(frozen=True, slots=True)
class PageFile:
    """A front-end file in memory."""

    body: bytes
    compressed: bytes | None
    content_type: str
    etag: str


@require_safe
def root(request: HttpRequest) -> HttpResponse:
    """Redirect / to the page."""
    return HttpResponseRedirect(page_route())


@require_safe
def page(request: HttpRequest, path: str = "") -> HttpResponse:
    """Serve a file of the page, or its index for one of the page's own routes."""
    directory = Path(settings.FRONTEND_DIR)
    index = directory / INDEX
    if not index.is_file():
        return secured(HttpResponse(NOT_BUILT, status=503, content_type="text/plain; charset=utf-8"))
    files = _listing(directory, index.stat().st_mtime_ns)
    name = path or INDEX
    if name not in files:
        if name.startswith(HASHED) or "." in name.rpartition("/")[2]:
            return secured(HttpResponse("Not found.\n", status=404, content_type="text/plain; charset=utf-8"))
        name = INDEX
    if name == INDEX:
        get_token(request)  # sets the CSRF cookie for the page's writes; files that are cached for a year set none
    return secured(file_answer(request, name, files[name]))


def file_answer(request: HttpRequest, name: str, path: Path) -> HttpResponse:
    """Answer with a file that the caller has found in a listing.

    Args:
        request: the request; files that it has already are not sent again.
        name: name of the file; those under `HASHED` are kept for ever.
        path: where it is.
    """
    file = _load(path, path.stat().st_mtime_ns, settings.TIDEMARK_BASE_PATH if name == INDEX else "")
    response: HttpResponse
    if request.headers.get("If-None-Match") == file.etag:
        response = HttpResponseNotModified()
    elif file.compressed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        response = HttpResponse(file.compressed, content_type=file.content_type)
        response["Content-Encoding"] = "gzip"
    else:
        response = HttpResponse(file.body, content_type=file.content_type)
    response["ETag"] = file.etag
    response["Vary"] = "Accept-Encoding"
    response["Cache-Control"] = "public, max-age=31536000, immutable" if name.startswith(HASHED) else "no-cache"
    return response


def secured(response: Response) -> Response:
    """Return an answer with the headers of the page: it loads from its own origin only, and nobody frames it."""
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Frame-Options"] = "DENY"
    response["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    return response


@lru_cache(maxsize=2)
def _listing(directory: Path, index_mtime_ns: int) -> dict[str, Path]:
    """Return all files by name; cached until the index changes, which every build does."""
    return {
        path.relative_to(directory).as_posix(): path
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@lru_cache(maxsize=256)
def _load(path: Path, mtime_ns: int, base_path: str) -> PageFile:
    body = path.read_bytes()
    if base_path:
        # the index alone has paths from the root; the files that it names find each other by relative ones
        body = body.replace(b'="/', f'="{base_path}/'.encode())
    suffix = path.suffix.lower()
    kind = _TYPES.get(suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if suffix in _COMPRESSED and not kind.startswith("image/"):
        kind += "; charset=utf-8"
    compressed = gzip.compress(body, 6, mtime=0) if suffix in _COMPRESSED and len(body) > 1024 else None
    return PageFile(body, compressed, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


@require_safe
@never_cache
def livez(request: HttpRequest) -> HttpResponse:
    """Answer "ok": the process is alive."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer whether the process is ready, that is, the database and Redis answer; 503 if one does not."""
    checks = {"database": _database_answers(), "redis": _redis_answers()}
    return JsonResponse(
        {name: "ok" if good else "unreachable" for name, good in checks.items()},
        status=200 if all(checks.values()) else 503,
    )


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        logger.warning("the database does not answer: %s", error)
        return False
    return True


def _redis_answers() -> bool:
    try:
        bus.ping()
    except redis.RedisError as error:
        logger.warning("Redis does not answer: %s", error)
        return False
    return True
