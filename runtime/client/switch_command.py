"""`tidemark switch`: a running job goes on in another execution, from a savepoint."""

from __future__ import annotations

import argparse
from typing import Any, Final

from runtime.client.arguments import Actions, add_job_command, with_json
from runtime.client.checkpoint_commands import wait_for_request
from runtime.client.errors import ClientError
from runtime.client.jobs import resolve_job
from runtime.client.rest import RequestRefusedError, RestClient, RestoreRequest
from runtime.client.submission import Submission
from runtime.client.terminal import SUCCESS, Terminal
from runtime.client.watch import wait_ended
from runtime.common import options as job_options

HIDDEN: Final = "******"
"""In place of a secret, in what the cluster shows."""


def add_switch(actions: Actions) -> None:
    """Add `switch`."""
    parser = add_job_command(
        actions,
        "switch",
        help="let a job go on in micro-batches, or continuously again",
        description="Stop a job with a savepoint, and start its program from there in another execution.\n"
        "If it cannot be started so, it goes on as before, from the savepoint.",
        example='tidemark switch "Flights by hour" micro-batch',
    )
    parser.add_argument("execution", choices=("micro-batch", "continuous"), help="how the job is executed from then on")
    with_json(parser)
    parser.set_defaults(command=switch)


def switch(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Stop a job with a savepoint, and start its program from there in another execution."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    if client.job_pipeline(job_id) is not None:
        raise ClientError("the job was drawn: choose the execution mode in its pipeline's settings, and redeploy it")
    program = _startable(client.restore_points(job_id)["program"])
    is_in_batches = client.batches(job_id)["micro_batches"]
    if is_in_batches is (options.execution == "micro-batch"):
        raise ClientError(f"the execution of job {job_id} is {options.execution} already")
    request_id = client.stop(job_id, None, "CANONICAL", drain=False)
    location = str(wait_for_request(client, job_id, request_id, terminal, "Suspending the job")["location"])
    terminal.line(f"Savepoint: {location}")
    before = dict(program["configuration"])
    after = before | {job_options.EXECUTION_MODE.key: options.execution}
    refusal: RequestRefusedError | None = None
    try:
        # two jobs must not write at once
        wait_ended(client, job_id, terminal)
        try:
            started = _started(client, program, after, location, terminal)
        except RequestRefusedError as refused:
            refusal = refused
            started = _started(client, program, before, location, terminal)
    except ClientError as error:
        raise ClientError(
            f"{error}. The job has stopped, and was not started again; its savepoint: {location}"
        ) from error
    if refusal is not None:
        raise ClientError(f"{refusal}. It goes on as before, from {location}: job {started}")
    terminal.result(
        {"jobid": started, "stopped": job_id, "location": location, "execution": options.execution},
        f"Job {started} goes on in its place: {options.execution}",
    )
    return SUCCESS


def _startable(program: dict[str, Any] | None) -> dict[str, Any]:
    """Return the program of a job, if the cluster has all that its start needs.

    Raises:
        ClientError: it does not; the job runs on.
    """
    if program is None:
        raise ClientError("the program of the job has been deleted from the cluster: upload it, and run it with -s")
    hidden = [*program["hidden"], *("an argument" for arg in program["args"] if HIDDEN in arg)]
    if hidden:
        raise ClientError(
            f"the cluster does not give out the value of {', '.join(hidden)}: stop the job, and run it with -s"
        )
    return program


def _started(
    client: RestClient, program: dict[str, Any], configuration: dict[str, str], location: str, terminal: Terminal
) -> str:
    """Start a program from a savepoint, whatever becomes of the answers; returns the job's id."""
    given = dict(configuration)
    requirements = given.pop(job_options.PYTHON_REQUIREMENTS.key, "").splitlines()

    def send(job_id: str) -> None:
        client.run(
            program["id"],
            program["args"],
            given,
            program["parallelism"],
            program["entry"],
            RestoreRequest(location),
            job_id=job_id,
            requirements=requirements,
        )

    submission = Submission(client, send, terminal)
    submission.start()
    submission.wait()
    return submission.job_id
