"""Parts that the parsers of all commands share. Pure: parsing decides nothing about a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from runtime.client.rest import RestClient
from runtime.client.terminal import Terminal

Actions: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""Parser group to which sub-commands are added."""
Command = Callable[[RestClient, argparse.Namespace, Terminal], int]
LocalCommand = Callable[[argparse.Namespace, Terminal], int]
"""Function of a command that needs no cluster."""

JOB_HELP = "id of the job, a prefix of one, or the job's name"


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            # argparse makes room for the longest command, but not for its indentation
            self._action_max_length += self._indent_increment


class CommandParser(argparse.ArgumentParser):
    """A parser whose options cannot be abbreviated: `--par 2` may be meant for the program that is run."""

    def __init__(self, prog: str | None = None, *, description: str, example: str, usage: str | None = None) -> None:
        lines = "\n".join(f"  {line}" for line in example.splitlines())
        super().__init__(
            prog,
            usage,
            description,
            f"example:\n{lines}",
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Exit with the error in one line, and a hint where to read on."""
        self.exit(2, f"tidemark: {message}; see `{self.prog} --help`\n")


def add_job_command(actions: Actions, name: str, *, help: str, description: str, example: str) -> CommandParser:
    """Add a command about one job, and its JOB."""
    parser = actions.add_parser(name, help=help, description=description, example=example)
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    return parser


def with_json(parser: CommandParser, help_text: str = "print the result as JSON, and nothing else, to stdout") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=help_text)


def with_wide(parser: CommandParser) -> None:
    """Add --wide."""
    parser.add_argument("--wide", action="store_true", help="do not cut long names to the width of the terminal")


def with_format(parser: CommandParser) -> None:
    """Add the binary format of a savepoint."""
    parser.add_argument(
        "--type",
        choices=["CANONICAL", "NATIVE"],
        type=str.upper,
        default="CANONICAL",
        help="format: CANONICAL can be restored with any state backend, NATIVE only with the job's own "
        "(default: CANONICAL)",
    )


def positive(text: str) -> int:
    """Parse a whole number of at least 1.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def non_negative(text: str) -> int:
    """Parse a whole number of at least 0.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r}")
    return int(text)
