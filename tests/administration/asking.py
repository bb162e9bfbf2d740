"""Reading the admin's forms as a browser does."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client


def text_of(answer: Any) -> str:
    """Return the text of a page, without its tags."""
    body = re.sub(r"(?s)<(script|style|svg).*?</\1>", " ", answer.content.decode())
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def hidden(answer: Any) -> dict[str, list[str]]:
    """The hidden fields of a confirmation's form."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(
        r'<input type="hidden" name="([\w-]+)" value="([^"]*)"[^>]*>', answer.content.decode()
    ):
        found.setdefault(name, []).append(html.unescape(value))
    return found


def confirm(client: Client, path: str, **given: Any) -> Any:
    """Open a confirmation and send its form."""
    return client.post(path.partition("?")[0], hidden(client.get(path)) | given)
