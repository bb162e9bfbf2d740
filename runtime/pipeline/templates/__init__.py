"""Templates: pipelines to begin with. Each is a document beside this module.

One needs a broker of Kafka, and says so; the others need nothing from outside.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from runtime.pipeline.document import Document, read_document


@cache
def templates() -> dict[str, Document]:
    """Return the templates by their names in files, such as "02-hot-auctions", in order."""
    found = {file.name: file for file in files(__name__).iterdir() if file.name.endswith(".json")}
    return {name.removesuffix(".json"): read_document(found[name].read_bytes()) for name in sorted(found)}
