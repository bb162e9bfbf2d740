"""Users of a simulated cluster: they submit jobs and ask for operations, again and again if nobody answers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError

from backend.cluster import services
from backend.cluster.models import Job, Operation
from tests.cluster.graphs import graph_json
from tests.control_plane.fibers import Process
from tests.control_plane.scenario import Request, Submission

if TYPE_CHECKING:
    from tests.control_plane.world import World

Kind = Operation.Kind
_RETRY_MS = 400.0
_POLL_MS = 300.0


@cache
def graph_of(submission: Submission) -> dict[str, Any]:
    """Return the graph that a user submits."""
    options = {
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "4 s",
        "slot.request.timeout": "8 s",
        "task.cancellation.timeout": "2 s",
        "execution.checkpointing.num-retained": str(submission.num_retained),
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
    }
    if submission.is_elastic:
        options |= {
            "jobmanager.scheduler": "adaptive",
            "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1 s",
            "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "2 s",
            "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
        }
    if submission.takes_checkpoints:
        options["execution.checkpointing.interval"] = "2 s"
    if submission.is_restarted:
        options |= {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "200 ms",
        }
    else:
        options["restart-strategy.type"] = "none"
    options["high-availability.slot-orphan-timeout"] = "20 s" if submission.is_adopted else "0 s"
    if submission.keeps_checkpoints:
        options["execution.checkpointing.externalized-checkpoint-retention"] = "RETAIN_ON_CANCELLATION"
    return graph_json(submission.parallelism, **options)


@dataclass
class Asked:
    """An operation that was asked for."""

    request: Request
    trigger_id: str
    job_id: str | None
    #: the trigger id under which the service knows it; "": it was refused
    known_as: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


class Users(Process):
    """All users, as one process that never ends."""

    def __init__(self, world: World) -> None:
        super().__init__("users")
        self._world = world
        self.job_ids = [f"{number + 1:032x}" for number in range(len(world.scenario.submissions))]
        self.asked: list[Asked] = []

    def start(self) -> None:
        """Have every user act at their time."""
        scenario = self._world.scenario
        for number, submission in enumerate(scenario.submissions):
            for nth in range(submission.times):
                self._at(submission.at_ms + 150.0 * nth, self._submitting(number, submission))
        for number, request in enumerate(scenario.requests):
            trigger_id = f"{0xF000 + number:032x}"
            for nth in range(request.times):
                self._at(request.at_ms + 70.0 * nth, self._asking(request, trigger_id))

    def _at(self, time_ms: float, action: Any) -> None:
        def act() -> None:
            self._world.scheduler.spawn(self, "user", action)

        self._world.scheduler.at(time_ms, act)

    def _submitting(self, number: int, submission: Submission) -> Any:
        def submit() -> None:
            job_id = self.job_ids[number]
            while True:
                try:
                    services.submit_job(graph_of(submission), None, [], {}, None, job_id=job_id)
                    self._world.tell(f"job {number} was submitted")
                    return
                except services.JobExistsError:
                    return
                except DatabaseError:
                    self._world.scheduler.sleep(_RETRY_MS)

        return submit

    def _asking(self, request: Request, trigger_id: str) -> Any:
        return lambda: self._ask(request, trigger_id)

    def _ask(self, request: Request, trigger_id: str) -> None:
        world, job_id = self._world, self.job_ids[request.job]
        while True:
            try:
                job = services.get_job(job_id)
                parameters = self._parameters(request, job)
                if parameters is None:
                    return
                of = None if request.kind == Kind.DISPOSE else job
                operation = services.request_operation(of, request.kind, parameters, None, trigger_id)
            except services.JobUnknownError:
                world.scheduler.sleep(_POLL_MS)
            except services.ClusterError:
                # the job has ended
                return
            except DatabaseError:
                world.scheduler.sleep(_RETRY_MS)
            else:
                break
        if not any(asked.trigger_id == trigger_id for asked in self.asked):
            of_job = None if of is None else job_id
            self.asked.append(Asked(request, trigger_id, of_job, operation.trigger_id, dict(operation.parameters)))
            world.tell(f"job {request.job}: {request.kind} {parameters} is asked for")

    def _parameters(self, request: Request, job: Job) -> dict[str, Any] | None:
        match request.kind:
            case Kind.SAVEPOINT:
                return {"cancel_job": bool(request.argument)}
            case Kind.STOP:
                return {"drain": bool(request.argument)}
            case Kind.CHECKPOINT:
                return {"type": "CONFIGURED"}
            case Kind.RESCALE:
                return {"parallelism": {v["vertex_id"]: request.argument for v in job.graph["vertices"][-1:]}}
            case Kind.DISPOSE:
                done = Operation.objects.filter(job_id=job.id, kind=Kind.SAVEPOINT, result__location__isnull=False)
                first = done.order_by("created_at").first()
                return None if first is None or first.result is None else {"path": first.result["location"]}
        return {}
