"""REST route that tells what the last batches of a job in micro-batches have done, and where their time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.cluster import services
from backend.contract.operation import operation
from backend.live.answers import Batches, BatchesQuery
from backend.live.api import check_job, query_number
from runtime.checkpoint.trace import TRACES

Document = dict[str, Any]


class BatchesView(ProductView):
    """The last batches, newest first: rows, positions, and phases, Spark's own among them."""

    @operation(Batches, query=BatchesQuery)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        last = query_number(request, "last", TRACES, 1, TRACES)
        job = services.get_job(job_id)
        document = job.document or {}
        names = {vertex["id"]: vertex["name"] for vertex in document.get("vertices", ())}
        config = document.get("checkpoints", {}).get("config", {})
        found = [batch for trace in services.checkpoint_traces(job)[:last] for batch in _batches(trace, names)]
        return Response({"micro_batches": config.get("micro_batches", False), "batches": found})


def _batches(trace: Document, names: Mapping[str, str]) -> Iterator[Document]:
    # traces of earlier releases have none
    for batch in trace.get("batches", ()):
        positions = [each | {"name": names.get(each["vertex"], each["vertex"])} for each in batch["positions"]]
        yield batch | {
            "checkpoint": trace["id"],
            "name": names.get(batch["region"], batch["region"]),
            "duration": round(sum(batch["phases"].values()), 1),
            "positions": positions,
        }
