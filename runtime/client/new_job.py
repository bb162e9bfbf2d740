"""`tidemark new`: creates a directory with a job to start from, and its test on a MiniCluster."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
import re
import sys
from pathlib import Path
from string import Template

from runtime.client.arguments import Actions
from runtime.client.errors import ClientError
from runtime.client.terminal import SUCCESS, Terminal

JOB = Template('''\
"""$title: counts orders by country and minute of event time.

    tidemark run $module.py -- --count 1000
    python $module.py
"""

import argparse

from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

COUNTRIES = ("DE", "FR", "DE", "US")


def order(index: int) -> dict:
    """The index-th order; put your own source in place of it."""
    return {"country": COUNTRIES[index % len(COUNTRIES)], "time": 1_767_225_600_000 + index * 1000}


def count_orders(orders: DataStream) -> DataStream:
    """(country, orders) for each country and minute."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        lambda order, _: order["time"]
    )
    return (
        orders.assign_timestamps_and_watermarks(strategy)
        .uid("order-times")
        .map(lambda order: (order["country"], 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda counted: counted[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("orders-by-country")
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000, help="number of orders")
    options = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(order, options.count)
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    count_orders(orders).print().uid("counts")
    env.execute("$title")


if __name__ == "__main__":
    main()
''')

TEST = Template('''\
"""$title, run on a MiniCluster: in this process, without Spark. Run it with `python -m pytest`."""

from $module import count_orders
from runtime.common import Configuration
from runtime.datastream import StreamExecutionEnvironment

MINUTE_MS = 60_000


def test_orders_are_counted_by_country_and_minute() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "mini-cluster")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    orders = env.from_collection(
        [
            {"country": "DE", "time": 0},
            {"country": "FR", "time": 1_000},
            {"country": "DE", "time": MINUTE_MS - 1},
            {"country": "DE", "time": MINUTE_MS},
        ]
    )
    with count_orders(orders).execute_and_collect() as counts:
        assert sorted(counts) == [("DE", 1), ("DE", 2), ("FR", 1)]
''')

PYTEST_INI = """# pytest takes its settings from here, not from a directory above, and finds the job beside its test
[pytest]
"""


def add_new(actions: Actions) -> None:
    """Add `new`."""
    parser = actions.add_parser(
        "new",
        help="create a directory with a job and its test",
        description="Create a directory with a job to start from, and its test.",
        example="tidemark new my-job",
    )
    parser.add_argument("name", metavar="NAME", help="letters, digits, - and _")
    parser.set_defaults(local=_new)


def _new(options: argparse.Namespace, terminal: Terminal) -> int:
    terminal.line(create_job(options.name, Path.cwd()))
    return SUCCESS


def create_job(name: str, directory: Path) -> str:
    """Create `directory`/`name` with a job and a test; returns what to do with it.

    Raises:
        ClientError: the name cannot be a module's, hides another module, or the directory is there already.
    """
    module = name.replace("-", "_").lower()
    if not re.fullmatch("[a-z_][a-z0-9_]*", module):
        raise ClientError(f"{name!r} cannot be the name of a job: use letters, digits, - and _, a letter first")
    if keyword.iskeyword(module) or _is_importable(module):
        raise ClientError(
            f"{name!r} cannot be the name of a job, because Python has a keyword or a module of that name; "
            f"try `tidemark new {name}-job`"
        )
    target = directory / name
    words = {"module": module, "title": name.replace("-", " ").replace("_", " ")}
    try:
        target.mkdir(parents=True)
        (target / f"{module}.py").write_text(JOB.substitute(words), encoding="utf-8")
        (target / f"test_{module}.py").write_text(TEST.substitute(words), encoding="utf-8")
        (target / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8")
    except FileExistsError:
        raise ClientError(f"{target} already exists") from None
    except OSError as error:
        raise ClientError(f"{target}: {error.strerror}") from None
    return f"Created {name}/{module}.py and its test.\nRun it: tidemark run {name}/{module}.py"


def _is_importable(module: str) -> bool:
    """Return whether others import a module of that name: a file of that name beside a program would hide it."""
    # some file systems do not tell cProfile from cprofile
    if module in {name.lower() for name in sys.stdlib_module_names}:
        return True
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return True
    # a directory without __init__.py, such as one of a job that was made before, is hidden by nobody
    return spec is not None and spec.origin is not None
