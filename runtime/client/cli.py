"""The `tidemark` command: submits programs to a session cluster and looks after their jobs.

The same words as Flink's CLI where there are such. Errors are one line on stderr and exit code 1; wrong usage is 2, and
130 what Ctrl-C ended. With `--json`, stdout gets one JSON document and nothing else.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from runtime import __version__
from runtime.client import checkpoint_commands, job_commands
from runtime.client.access_commands import add_token, add_user
from runtime.client.application_command import add_application
from runtime.client.arguments import Actions, Command, CommandParser, LocalCommand
from runtime.client.autoscaler_command import add_autoscaler
from runtime.client.cluster_command import add_cluster
from runtime.client.errors import ClientError
from runtime.client.failure_command import add_exceptions
from runtime.client.kafka_command import add_kafka
from runtime.client.log_commands import add_logs
from runtime.client.new_job import add_new
from runtime.client.pipeline_command import add_pipeline
from runtime.client.rest import RestClient
from runtime.client.run_command import add_run
from runtime.client.server import find_server
from runtime.client.switch_command import add_switch
from runtime.client.tag_command import add_tag
from runtime.client.terminal import FAILURE, INTERRUPTED, Terminal
from runtime.client.timeline_command import add_timeline

WRONG_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        _parser().print_help(sys.stderr)
        return WRONG_USAGE
    options = _options(given)
    out = _printing(sys.stdout)
    terminal = Terminal(
        out,
        _printing(sys.stderr),
        _ask if sys.stdin is not None and sys.stdin.isatty() and out.isatty() else None,
        as_json=getattr(options, "json", False),
        is_wide=getattr(options, "wide", False),
    )
    try:
        if options.local is not None:
            local: LocalCommand = options.local
            return local(options, terminal)
        command: Command = options.command
        return command(RestClient(find_server(os.environ, Path.cwd())), options, terminal)
    except ClientError as error:
        terminal.complain(str(error))
        return FAILURE
    except KeyboardInterrupt:
        terminal.close_line()
        return INTERRUPTED
    except FileNotFoundError as error:
        # of all files only the working directory is looked for without a name
        if error.filename is not None:
            raise
        terminal.complain("the working directory does not exist any more: change to another one")
        return FAILURE
    except BrokenPipeError:
        # the reader (`| head`) has seen enough; the interpreter must not try to flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


def _printing(stream: TextIO | None) -> TextIO:
    """Return a stream that takes any text: a name may have letters that the user's terminal has not."""
    if stream is None:
        # closed by the shell: >&-
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 (a device; open to the end)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _options(given: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; everything after "--" is the program's, whatever it looks like."""
    cut = given.index("--") if "--" in given else len(given)
    parser = _parser()
    options, unknown = parser.parse_known_args(_with_action(given[:cut]))
    if unknown:
        parser.prog = f"tidemark {given[0]}"
        hint = ""
        if given[0] == "run":
            hint = ". Arguments of the program follow --: tidemark run PROGRAM -- " + " ".join(unknown)
        parser.error(f"unknown arguments: {' '.join(unknown)}{hint}")
    if given[cut:] and given[0] != "run":
        parser.error(f"only `run` takes arguments for a program, not `{given[0]}`")
    options.program_args = given[cut + 1 :]
    return options


def _with_action(given: Sequence[str]) -> list[str]:
    """Turn `savepoint JOB [DIRECTORY]`, as Flink has it, into `savepoint take JOB [DIRECTORY]`."""
    actions = (*checkpoint_commands.SAVEPOINT_ACTIONS, "-h", "--help")
    is_short = len(given) > 1 and given[0] == "savepoint" and given[1] not in actions
    return [given[0], "take", *given[1:]] if is_short else list(given)


def _ask(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="tidemark",
        description="Submit programs to a Tidemark cluster and manage their jobs.\n"
        "`tidemark COMMAND --help` describes a command.\n\n"
        "The cluster is the one that `make run` has started in this directory or a directory above, the one\n"
        "whose home is TIDEMARK_HOME, or the one at TIDEMARK_URL with the token TIDEMARK_TOKEN.",
        example="tidemark run examples/hello_events.py -- --count 1000",
    )
    parser.set_defaults(local=None)
    parser.add_argument("--version", action="version", version=f"tidemark {__version__}")
    actions: Actions = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    add_new(actions)
    add_run(actions)
    add_cluster(actions)
    job_commands.add_list(actions)
    job_commands.add_info(actions)
    add_exceptions(actions)
    add_timeline(actions)
    add_logs(actions)
    job_commands.add_cancel(actions)
    checkpoint_commands.add_stop(actions)
    checkpoint_commands.add_savepoint(actions)
    checkpoint_commands.add_checkpoints(actions)
    checkpoint_commands.add_rescale(actions)
    add_switch(actions)
    add_application(actions)
    add_autoscaler(actions)
    add_tag(actions)
    add_pipeline(actions)
    add_kafka(actions)
    add_user(actions)
    add_token(actions)
    return parser


if __name__ == "__main__":
    sys.exit(main())
