"""`tidemark run`: uploads a program, starts its job and watches it to its end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from runtime.client.arguments import Actions, positive, with_json
from runtime.client.errors import ClientError
from runtime.client.jobs import absolute_location, failure_text
from runtime.client.program_files import read_program
from runtime.client.rest import RequestRefusedError, RestClient, RestoreRequest, ServerUnreachableError
from runtime.client.submission import Submission, cancel_and_watch, told_if_long
from runtime.client.terminal import FAILURE, INTERRUPTED, SUCCESS, Terminal
from runtime.client.watch import watch_job
from runtime.core.python_requirements import RequirementsError, parse_requirements

_RESTORE_USAGE = "[-s PATH [-n] [--claim-mode MODE]]"
_USAGE = (
    "tidemark run [-d] [-p N] [-D KEY=VALUE]... [--entry MODULE] [--py-files FILES]\n"
    f"                    [--py-requirements FILE] {_RESTORE_USAGE} [--json] PROGRAM [-- ARGUMENTS...]"
)


def add_run(actions: Actions) -> None:
    """Add `run`."""
    parser = actions.add_parser(
        "run",
        help="upload a program and start its job",
        description="Upload a program, start its job and show its progress until it ends. Ctrl-C cancels the job.\n"
        "What follows -- is the program's own command line.",
        usage=_USAGE,
        example="tidemark run -p 2 examples/hello_events.py -- --count 1000",
    )
    parser.add_argument("file", metavar="PROGRAM", help="a .py, .zip or .whl file, or a directory of modules")
    parser.add_argument("-d", "--detached", action="store_true", help="return as soon as the job is submitted")
    parser.add_argument(
        "-p",
        "--parallelism",
        type=positive,
        metavar="N",
        help="parallelism of the operators for which the program sets none (default: 1)",
    )
    parser.add_argument(
        "-D",
        dest="option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the job, such as execution.checkpointing.interval=10s; may be given several times",
    )
    parser.add_argument("--entry", metavar="MODULE", help="module that starts the job, in an archive or a directory")
    parser.add_argument(
        "--py-files",
        action="append",
        default=[],
        metavar="FILES",
        help="modules that the program imports: .py, .zip or .whl files or directories, separated by commas",
    )
    parser.add_argument(
        "-pyreq",
        "--py-requirements",
        "--pyRequirements",
        metavar="FILE",
        help="packages that the program needs beside the engine's, as lines of a requirements file; wheels only",
    )
    parser.add_argument(
        "-s", "--from-savepoint", metavar="PATH", help="savepoint or checkpoint from which the job starts"
    )
    parser.add_argument(
        "-n",
        "--allow-non-restored-state",
        action="store_true",
        help="start even if the savepoint has state of an operator that the program no longer has",
    )
    parser.add_argument(
        "--claim-mode",
        choices=["CLAIM", "NO_CLAIM"],
        type=str.upper,
        default="NO_CLAIM",
        help="CLAIM: the job owns the savepoint and deletes it when it no longer needs it (default: NO_CLAIM)",
    )
    with_json(parser)
    parser.set_defaults(command=run)


def run(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Upload a program, start its job and, unless detached, watch it to its end."""
    configuration = _configuration(options.option)
    program = read_program(Path(options.file), options.py_files, options.entry)
    requirements = _requirements(options.py_requirements)
    path = absolute_location(options.from_savepoint)
    restore = None if path is None else RestoreRequest(path, options.allow_non_restored_state, options.claim_mode)
    warnings: list[str] = []
    output: list[str] = []

    def send(job_id: str) -> None:
        client.run(
            program_id,
            options.program_args,
            configuration,
            options.parallelism,
            program.entry,
            restore,
            warnings.append,
            job_id=job_id,
            printed=output.append,
            requirements=requirements,
        )

    submission = Submission(client, send, terminal)
    try:
        with told_if_long(terminal, "Uploading the program …"):
            program_id = client.upload_content(program.name, program.content)
        submission.start()
        submission.wait()
        _show_output("".join(output), terminal)
        return _started(client, submission.job_id, warnings, options, terminal)
    except RequestRefusedError as refused:
        _show_output(refused.output, terminal)
        raise
    except KeyboardInterrupt:
        return submission.give_up()


def _show_output(output: str, terminal: Terminal) -> None:
    """Show the program's output on its way to execute()."""
    for line in output.splitlines():
        terminal.line(line)


def _started(
    client: RestClient, job_id: str, warnings: Sequence[str], options: argparse.Namespace, terminal: Terminal
) -> int:
    document: dict[str, object] = {
        "jobid": job_id,
        "url": f"{client.server.url}/ui/jobs/{job_id}",
        "warnings": list(warnings),
    }
    try:
        for warning in warnings:
            terminal.complain(f"warning: {warning}")
        terminal.line(f"Job has been submitted with JobID {job_id}")
        terminal.line(str(document["url"]))
        if options.detached:
            terminal.result(document)
            return SUCCESS
        last = watch_job(client, job_id, terminal)
    except ServerUnreachableError as error:
        raise ServerUnreachableError(
            f"{error}; job {job_id} may still be running: `tidemark info {job_id[:8]}` shows it"
        ) from None
    except KeyboardInterrupt:
        return _interrupted(client, job_id, terminal)
    document["state"] = last["state"]
    if last["state"] == "FAILED":
        document["failure"] = failure_text(last)
    terminal.result(document)
    return SUCCESS if last["state"] == "FINISHED" else FAILURE


def _requirements(file: str | None) -> list[str]:
    if file is None:
        return []
    try:
        return parse_requirements(Path(file).read_text(encoding="utf-8").splitlines())
    except RequirementsError as error:
        raise ClientError(f"{file}: {error}") from error
    except UnicodeDecodeError:
        raise ClientError(f"{file} is no text") from None
    except OSError as error:
        raise ClientError(f"{file}: {error.strerror or error}") from None


def _configuration(given: Sequence[str]) -> dict[str, str]:
    configuration = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise ClientError(f"-D {item}: an option is written KEY=VALUE")
        configuration[key.strip()] = value
    return configuration


def _interrupted(client: RestClient, job_id: str, terminal: Terminal) -> int:
    """Handle Ctrl-C: the user decides whether the job stays; with nobody to ask it ends, as a program would."""
    terminal.close_line()
    try:
        if terminal.ask is not None and not terminal.ask(f"Cancel job {job_id[:8]}?"):
            terminal.line(f"The job continues: tidemark info {job_id[:8]}")
            return SUCCESS
        cancel_and_watch(client, job_id, terminal)
    except KeyboardInterrupt:
        terminal.complain(f"job {job_id} may still be running: `tidemark cancel {job_id[:8]}` ends it")
    return INTERRUPTED
