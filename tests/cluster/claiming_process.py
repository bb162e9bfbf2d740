"""A process that submits jobs: asked by lines on stdin, it answers each with a line on stdout.

python -m tests.cluster.claiming_process

    check LOCATION CLAIM_MODE   looks who is in the way of a job that is to start from a snapshot; "checked", "refused"
    submit NAME                 submits a job from what was checked; "accepted", "refused"
    dispose LOCATION            begins to delete a snapshot under the epoch that leads; "accepted", "refused"
"""

from __future__ import annotations

import os
import sys
from typing import Any

import django


def main() -> None:
    """Answer, until stdin ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    django.setup()
    # they read the settings on import
    from backend.cluster import services
    from backend.cluster.job_store import JobStore
    from backend.cluster.models import Operation
    from backend.cluster.snapshot_users import SnapshotUses
    from runtime.common import options
    from tests.cluster.graphs import graph_json
    from tests.cluster.leading import take_leadership

    refusals = (services.SnapshotNeededError, services.SnapshotDisposedError)
    configuration: dict[str, str] = {}
    checked: Any = None
    print("ready", flush=True)
    for line in sys.stdin:
        word, *given = line.split()
        answer = "accepted"
        try:
            if word == "check":
                configuration = {options.RECOVERY_PATH.key: given[0], options.RECOVERY_CLAIM_MODE.key: given[1]}
                checked = services.check_locations(configuration)
                answer = "checked"
            elif word == "submit":
                graph = graph_json(1, given[0], **configuration)
                services.submit_job(graph, None, [], {}, None, locations=checked)
            else:
                operation = services.request_operation(None, Operation.Kind.DISPOSE, {"path": given[0]}, None)
                store = JobStore(take_leadership("disposing"))
                begun, _ = store.begin_disposal(operation, given[0], SnapshotUses.read(None))
                answer = "accepted" if begun else "refused"
        except refusals:
            answer = "refused"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
