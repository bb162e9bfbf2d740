"""Documents for tests."""

from __future__ import annotations

from typing import Any

BASE = "/api/v1/pipelines"


def document(name: str = "Hot auctions", rows: int = 100, **more: Any) -> dict[str, Any]:
    """A pipeline that counts some bids of each auction in windows and forgets the counts."""
    return {
        "format": "tidemark.pipeline",
        "version": 1,
        "name": name,
        "nodes": {
            "n1": {
                "type": "source.nexmark",
                "name": "Bids",
                "uid": "bids-1",
                "params": {"kind": "bids", "events": rows},
            },
            "n2": {"type": "sink.print", "name": "Show", "uid": "show-1", "params": {}},
        },
        "edges": {"e1": {"from": ["n1", "out"], "to": ["n2", "in"]}},
        "layout": {"positions": {"n1": [0, 0], "n2": [200, 0]}},
        **more,
    }
