"""`tidemark pipeline`: validates, compiles and tests a pipeline's file. No cluster."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from runtime.client.arguments import Actions, LocalCommand, with_json
from runtime.client.terminal import Terminal


def add_pipeline(actions: Actions) -> None:
    """Add `pipeline`."""
    parser = actions.add_parser(
        "pipeline",
        help="validate, compile and test pipelines that were drawn",
        description="Work with the file of a pipeline, here, without a cluster.",
        example="tidemark pipeline compile hot-auctions.json --output hot-auctions.py\ntidemark run hot-auctions.py",
    )
    verbs: Actions = parser.add_subparsers(required=True, metavar="ACTION", title="actions")
    checking = verbs.add_parser(
        "validate",
        help="say what is wrong with a pipeline",
        description="Say what is wrong with a pipeline; exit code 1 if it could not run.",
        example="tidemark pipeline validate hot-auctions.json",
    )
    compiling = verbs.add_parser(
        "compile",
        help="write the Python program of a pipeline",
        description="Write the Python program of a pipeline, to stdout unless a file is named.",
        example="tidemark pipeline compile hot-auctions.json --output hot-auctions.py",
    )
    formatting = verbs.add_parser(
        "format",
        help="rewrite a pipeline's file in canonical order",
        description="Rewrite a pipeline's file in the canonical order that versions and diffs use.",
        example="tidemark pipeline format hot-auctions.json",
    )
    testing = verbs.add_parser(
        "test",
        help="run the tests of a pipeline",
        description="Run the tests that a pipeline holds, here; exit code 1 if one fails.",
        example="tidemark pipeline test hot-auctions.json\ntidemark pipeline test hot-auctions.json --only 'late bid'",
    )
    testing.add_argument(
        "--only", metavar="NAME", action="append", help="a test to run; may be repeated (default: all)"
    )
    for verb in (checking, compiling, formatting, testing):
        verb.add_argument("file", metavar="FILE", type=Path, help="a pipeline's JSON")
    with_json(checking)
    with_json(testing)
    compiling.add_argument("--output", "-o", metavar="PROGRAM", type=Path, help="file to write")
    checking.set_defaults(local=_locally("validate_file"))
    compiling.set_defaults(local=_locally("compile_file"))
    formatting.set_defaults(local=_locally("format_file"))
    testing.set_defaults(local=_locally("test_file"))


def _locally(name: str) -> LocalCommand:
    """Return a function of `pipeline_files`, which is imported only when it is called."""

    def act(options: argparse.Namespace, terminal: Terminal) -> int:
        command: LocalCommand = getattr(import_module("runtime.client.pipeline_files"), name)
        return command(options, terminal)

    return act
