"""The generated files and what is in them."""

from __future__ import annotations

import json
from pathlib import Path

from backend.contract.schema import Schemas
from backend.gen.openapi import openapi_document
from backend.gen.typescript import typescript
from backend.live.messages import ClientMessage, ServerMessage

ROOT = Path(__file__).resolve().parent.parent.parent
OPENAPI = ROOT / "docs" / "openapi.json"
TYPESCRIPT = ROOT / "frontend" / "src" / "gen" / "contract.ts"


def generated_files() -> dict[Path, str]:
    """Return path → text of all generated files.

    Raises:
        backend.contract.schema.ContractError: a route is not declared, or a type has no schema.
    """
    schemas = Schemas()
    # what is sent over the WebSocket: components that no route mentions
    for kind in (ClientMessage, ServerMessage):
        schemas.of(kind)
    document = openapi_document(schemas)
    return {
        OPENAPI: json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        TYPESCRIPT: typescript(document),
    }
