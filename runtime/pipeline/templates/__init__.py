"""Templates: pipelines to begin with. Each is a document beside this module; only one needs files from outside."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from runtime.pipeline.document import Document, read_document


@cache
def templates() -> dict[str, Document]:
    """Return the templates by their names in files, such as "02-hot-auctions", in order."""
    files = sorted(Path(__file__).parent.glob("*.json"))
    return {file.stem: read_document(file.read_bytes()) for file in files}
