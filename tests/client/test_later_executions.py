"""Detection of further executions after a program's `execute()`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from runtime.client.later_executions import LaterExecution, Program, later_executions
from tests.client.programs import write_program


class Environment:
    """Stops the program at its first execution, and says what it would come to."""

    found: list[LaterExecution] | None

    @classmethod
    def get_execution_environment(cls) -> Environment:
        return cls()

    def execute(self, name: str) -> None:
        program = Program(lambda file: file.endswith("job.py"), lambda value: isinstance(value, Environment))
        found = later_executions(sys._getframe(1), program)
        # what a finally executes on the way out is not the first
        Environment.found = found if Environment.found is None else Environment.found
        raise SystemExit


def behind_the_first(directory: Path, text: str) -> list[tuple[int, bool]]:
    """Lines, and whether they certainly come."""
    path = write_program(directory, text)
    Environment.found = None
    with pytest.raises(SystemExit):
        runpy.run_path(str(path), {"Environment": Environment, "env": Environment()}, run_name="__main__")
    assert Environment.found is not None
    return [(call.line, call.is_certain) for call in Environment.found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('env.execute("a")\nenv.execute("b")\n', [(2, True)]),
        ('env.execute(\n  "a"\n)\nprint("done")\n', []),
        ('env.execute("a")\nenv.execute_async("b")\n', [(2, True)]),
        ('env.execute("a")\nother = Environment.get_execution_environment()\nother.execute("b")\n', [(3, True)]),
        ('env.execute("a")\nEnvironment.get_execution_environment().execute("b")\n', [(2, True)]),
        # the other branch does not follow
        ('if env:\n  env.execute("a")\nelse:\n  env.execute("b")\n', []),
        ('try:\n  env.execute("a")\nexcept ValueError:\n  env.execute("again")\n', []),
        ('try:\n  env.execute("a")\nfinally:\n  env.execute("b")\n', [(4, True)]),
        # it may, or may not
        ('env.execute("a")\nif len("x") > 2:\n  env.execute("b")\n', [(3, False)]),
        ('for name in "ab":\n  env.execute(name)\n', [(2, False)]),
        ('env.execute("a")\nlen("x") > 2 and env.execute("b")\n', [(2, False)]),
        ('env.execute("a")\nb = env.execute("b") if len("x") > 2 else None\n', [(2, False)]),
        ('env.execute("a")\nassert len("x") == 1, env.execute("b")\n', [(2, False)]),
        ('env.execute("a")\nagain = lambda: env.execute("b")\n', [(2, False)]),
        ('env.execute("a")\n[env.execute(name) for name in ()]\n', [(2, False)]),
        ('env.execute("a")\nwith open("x"):\n  if len("x") > 2:\n    env.execute("b")\n', [(4, False)]),
        ('env.execute("a")\nwith open("x"):\n  def again():\n    env.execute("b")\n', []),
        ('env.execute("a")\nwith open("x"):\n  env.execute("b")\n', [(3, True)]),
        ('def run(name): env.execute(name)\n[run(name) for name in "ab"]\n', [(2, False)]),
        ('[env.execute(name) for name in "ab"]\n', [(1, False)]),
        ('def run(name): env.execute(name)\nlist(map(run, "ab"))\n', [(2, False)]),
        ('def run(name): env.execute(name)\nrun("a")\nlist(map(run, "b"))\n', [(3, False)]),
        (
            "class Job:\n  def run(self): self.env.execute('a')\nJob.env = env\nJob().run()\nJob().run()\n",
            [(5, False)],
        ),
        # a module's function of the same name, and a list that is made before
        ('import subprocess\ndef run(name): env.execute(name)\nrun("a")\nsubprocess.run(["true"])\n', []),
        ('def run(names): env.execute(names[0])\nrun([name.upper() for name in "ab"])\n', []),
        # execute() of something else
        ('class Cursor:\n  def execute(self, sql): pass\nc = Cursor()\nenv.execute("a")\nc.execute("b")\n', []),
        ('env.execute("a")\nraise SystemExit\nenv.execute("b")\n', []),
        ('import sys\nenv.execute("a")\nsys.exit(0)\nenv.execute("b")\n', []),
        ('env.execute("a")\nexit()\nenv.execute("b")\n', []),
        ('import sys\nenv.execute("a")\nif len("x"):\n  sys.exit(0)\nenv.execute("b")\n', [(5, False)]),
        ('def again():\n  if env: return\n  env.execute("b")\nenv.execute("a")\nagain()\n', [(5, False)]),
    ],
)
def test_statements_behind_are_read_as_they_would_be_run(
    tmp_path: Path, text: str, found: list[tuple[int, bool]]
) -> None:
    assert behind_the_first(tmp_path, text) == found


def test_functions_are_followed_outwards_and_inwards(tmp_path: Path) -> None:
    program = """
    def run(environment, name):
        environment.execute(name)

    def main():
        run(env, "first")
        print("one is done")
        run(env, "second")

    if __name__ == "__main__":
        main()
        print("both are done")
    """
    assert behind_the_first(tmp_path, program) == [(7, True)]


def test_a_function_that_ends_behind_its_execution_leads_to_its_caller(tmp_path: Path) -> None:
    program = """
    def run():
        return env.execute("first")
        env.execute("never")

    run()
    run()
    """
    assert behind_the_first(tmp_path, program) == [(6, True)]
