"""The `tidemark` command: submits programs to a session cluster and looks after their jobs.

The same words as Flink's CLI where there are such. Errors are one line on stderr and exit code 1; wrong usage is 2, and
130 what Ctrl-C ended.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime import __version__
from runtime.client import checkpoint_commands, commands
from runtime.client.errors import ClientError
from runtime.client.new_job import create_job
from runtime.client.rest import RestClient
from runtime.client.server import find_server
from runtime.client.watch import Terminal

Command = Callable[[RestClient, argparse.Namespace, Terminal], int]
LocalCommand = Callable[[argparse.Namespace, Terminal], int]
SAVEPOINT_ACTIONS = ("take", "inspect", "dispose")
JOB_HELP = "id, beginning of an id, or name"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # what follows "--" is the program's, whatever it looks like
    cut = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(_with_action(given[:cut]))
    options.program_args = given[cut + 1 :]
    terminal = Terminal(sys.stdout, sys.stderr, _ask if sys.stdin.isatty() and sys.stdout.isatty() else None)
    try:
        if options.local is not None:
            local: LocalCommand = options.local
            return local(options, terminal)
        command: Command = options.command
        return command(RestClient(find_server(os.environ, Path.cwd())), options, terminal)
    except ClientError as error:
        terminal.complain(str(error))
        return commands.FAILURE
    except KeyboardInterrupt:
        terminal.close_line()
        return commands.INTERRUPTED
    except BrokenPipeError:
        # the reader (`| head`) has seen enough; the interpreter must not try to flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return commands.FAILURE


def _with_action(given: Sequence[str]) -> list[str]:
    """`savepoint JOB [DIRECTORY]`, as Flink has it, is `savepoint take JOB [DIRECTORY]`."""
    is_short = len(given) > 1 and given[0] == "savepoint" and given[1] not in (*SAVEPOINT_ACTIONS, "-h", "--help")
    return [given[0], "take", *given[1:]] if is_short else list(given)


def _new(options: argparse.Namespace, terminal: Terminal) -> int:
    terminal.line(create_job(options.name, Path.cwd()))
    return commands.SUCCESS


def _cancel(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """`cancel -s JOB`, as Flink has it, names no directory."""
    if options.job is None:
        options.job, options.savepoint = options.savepoint, ""
    if not options.job:
        options.usage_error("the following arguments are required: JOB")
    command = commands.cancel if options.savepoint is None else checkpoint_commands.cancel
    return command(client, options, terminal)


def _savepoint(options: argparse.Namespace, terminal: Terminal) -> int:
    # loaded when asked for: what reads state takes longer to load than all other commands take to run
    local: LocalCommand = importlib.import_module("runtime.client.savepoint_commands").run
    return local(options, terminal)


def _ask(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidemark",
        description="Submit programs to a Tidemark cluster and look after their jobs.",
        epilog="The cluster is that of TIDEMARK_URL and TIDEMARK_TOKEN, else the one that `make run` has started here.",
    )
    parser.set_defaults(local=None)
    parser.add_argument("--version", action="version", version=f"tidemark {__version__}")
    actions = parser.add_subparsers(required=True, metavar="COMMAND")

    run = actions.add_parser("run", help="upload a program and start its job", usage=_RUN_USAGE)
    run.add_argument("file", metavar="FILE", help=".py, .zip or .whl")
    run.add_argument("-d", "--detached", action="store_true", help="do not wait for the job's end")
    run.add_argument("-p", "--parallelism", type=_positive, metavar="N", help="of operators that set none; default 1")
    run.add_argument("-D", dest="option", action="append", default=[], metavar="KEY=VALUE", help="an option of the job")
    run.add_argument("--entry", metavar="MODULE", help="module of the archive that starts the job")
    run.add_argument("-s", "--from-savepoint", metavar="PATH", help="savepoint or checkpoint that the job starts from")
    run.add_argument(
        "-n", "--allow-non-restored-state", action="store_true", help="leave behind state of operators that it lacks"
    )
    run.add_argument(
        "--claim-mode",
        choices=["CLAIM", "NO_CLAIM"],
        type=str.upper,
        default="NO_CLAIM",
        help="CLAIM: what it starts from is the job's then, to delete too; default NO_CLAIM",
    )
    run.set_defaults(command=commands.run)

    listing = actions.add_parser("list", help="show jobs that have not ended")
    which = listing.add_mutually_exclusive_group()
    which.add_argument("-r", "--running", action="store_true", help="only those that run")
    which.add_argument("-s", "--scheduled", action="store_true", help="only those that have not started yet")
    which.add_argument("-a", "--all", action="store_true", help="also those that have ended")
    listing.add_argument("--json", action="store_true", help="as JSON, in Flink's shape")
    listing.set_defaults(command=commands.list_jobs)

    info = _with_job(actions.add_parser("info", help="show a job with its tasks, rates and slots, and what limits it"))
    info.add_argument("--json", action="store_true", help="everything that is known, with the pids of the slots")
    info.set_defaults(command=commands.info)

    cancel = actions.add_parser("cancel", help="end a job, behind a savepoint if you like", usage=_CANCEL_USAGE)
    cancel.add_argument("job", nargs="?", metavar="JOB", help=JOB_HELP)
    cancel.add_argument("-d", "--detached", action="store_true", help="do not wait until it has ended")
    cancel.add_argument(
        "-s",
        "--with-savepoint",
        dest="savepoint",
        nargs="?",
        const="",
        metavar="DIRECTORY",
        help="take one first, there",
    )
    _with_type(cancel)
    cancel.set_defaults(command=_cancel, usage_error=cancel.error)

    stop = _with_job(actions.add_parser("stop", help="end a job behind a savepoint"))
    _with_format(stop)
    stop.add_argument("-p", "--savepoint-path", metavar="DIRECTORY", help="where the savepoint goes")
    stop.add_argument("-d", "--drain", action="store_true", help="let the end of the input go through: windows fire")
    stop.set_defaults(command=checkpoint_commands.stop)

    checkpoint = _with_job(actions.add_parser("checkpoint", help="have a job take a checkpoint now"))
    kind = checkpoint.add_mutually_exclusive_group()
    kind.add_argument("--full", action="store_true", help="complete in itself")
    kind.add_argument("--incremental", action="store_true", help="on top of the ones before")
    checkpoint.set_defaults(command=checkpoint_commands.checkpoint)

    checkpoints = _with_job(actions.add_parser("checkpoints", help="show a job's checkpoints and savepoints"))
    checkpoints.add_argument("--json", action="store_true", help="as JSON, in Flink's shape")
    checkpoints.set_defaults(command=checkpoint_commands.checkpoints)

    rescale = _with_job(actions.add_parser("rescale", help="go on with another parallelism, from a checkpoint"))
    rescale.add_argument(
        "parallelism", type=_positive, metavar="N", help="of every vertex that --vertex does not limit to"
    )
    rescale.add_argument("--vertex", action="append", metavar="NAME", help="only this one; may be given several times")
    rescale.set_defaults(command=checkpoint_commands.rescale)

    logs = _with_job(actions.add_parser("logs", help="show what a job has printed and logged"))
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows, until the job has ended")
    logs.add_argument("--attempt", type=int, metavar="N", help="of which attempt; the latest if not given")
    logs.add_argument("--slot", type=int, metavar="N", help="of which slot; all if not given")
    logs.add_argument("--kind", choices=["out", "log"], help="what was printed, or what was logged; both if not given")
    logs.set_defaults(command=commands.logs)

    new = actions.add_parser("new", help="make a directory with a job and its test")
    new.add_argument("name", metavar="NAME", help="of letters, digits, - and _")
    new.set_defaults(local=_new)

    savepoint = actions.add_parser("savepoint", help="take a savepoint of a job; look into one, or delete it")
    on_path = savepoint.add_subparsers(required=True, metavar="ACTION", dest="action")
    take = _with_job(on_path.add_parser("take", help="take one; the word may be left out: savepoint JOB [DIRECTORY]"))
    take.add_argument("directory", nargs="?", metavar="DIRECTORY", help="where it goes; default: as the cluster says")
    _with_format(take)
    take.set_defaults(command=checkpoint_commands.savepoint)
    inspect = on_path.add_parser("inspect", help="show operators and states; reads and verifies every file")
    inspect.add_argument("path", metavar="PATH", help="directory or _metadata file; a path or a URI")
    inspect.add_argument("--verify-only", action="store_true", help="only compare every file with its checksum")
    inspect.add_argument("--json", action="store_true", help="everything that is known, with all files")
    inspect.set_defaults(local=_savepoint)
    dispose = on_path.add_parser("dispose", help="delete one that no job needs any more")
    dispose.add_argument("path", metavar="PATH", help="directory or _metadata file; a path or a URI")
    dispose.add_argument("-y", "--yes", action="store_true", help="do not ask")
    dispose.add_argument("--offline", action="store_true", help="nor ask the cluster whether one of its jobs needs it")
    dispose.set_defaults(local=_savepoint)
    return parser


_RESTORE_USAGE = "[-s PATH [-n] [--claim-mode MODE]]"
_CANCEL_USAGE = "tidemark cancel [-d] [-s [DIRECTORY] [--type FORMAT]] JOB"
_RUN_USAGE = f"tidemark run [-d] [-p N] [-D KEY=VALUE]... [--entry MODULE] {_RESTORE_USAGE} FILE [-- ARGUMENTS...]"


def _with_job(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    return parser


def _with_format(parser: argparse.ArgumentParser) -> None:
    _with_type(parser)
    parser.add_argument("--detached", action="store_true", help="do not wait for it")


def _with_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--type",
        choices=["CANONICAL", "NATIVE"],
        type=str.upper,
        default="CANONICAL",
        help="CANONICAL moves between state backends; NATIVE is the backend's own",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on is needed, not {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
