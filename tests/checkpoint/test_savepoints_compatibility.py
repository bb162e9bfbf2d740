"""Changes of a program between a savepoint and the job that starts from it: allowed ones, and refusals with their
reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.common import Row, Time, Types
from runtime.common.typeinfo import TypeInformation
from runtime.core.checkpoint_options import SnapshotKind
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ListStateDescriptor, ValueStateDescriptor
from runtime.datastream.window import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from runtime.jobmaster.events import AfterSavepoint
from tests.checkpoint.counting_program import (
    ALL_COUNTS,
    COUNTS_ANEW,
    KEYS,
    PAIR,
    Build,
    Count,
    Numbers,
    counting,
    finish,
    first,
    refusal,
    resumed,
    same,
    stopped,
)
from tests.checkpoint.rescale_program import RULE_VALUES, Conduct, Everything, behave, run_to_the_end
from tests.checkpoint.running_jobs import JobClock, RunningJob, options_of

IGNORE = {"execution.state-recovery.ignore-unclaimed-state": "true"}


@pytest.fixture(autouse=True)
def good_conduct() -> Iterator[None]:
    yield
    behave()


# --- programs that differ ---------------------------------------------------------------------------------------------


class CountInList(KeyedProcessFunction):
    """The same count as a list of ones."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.ones = runtime_context.get_list_state(ListStateDescriptor("count", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.ones.add(1)
        yield value[0], len(list(self.ones.get()))


def with_function(function: KeyedProcessFunction) -> Build:
    def build(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        counted = numbers.stream(env).key_by(first, Types.STRING()).process(function).uid("counter").name("counter")
        numbers.deliver(counted.map(same).uid("same"))

    return build


# --- what may change --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("hashmap", "rocksdb", SnapshotKind.CANONICAL),
        ("rocksdb", "hashmap", SnapshotKind.CANONICAL),
        pytest.param("hashmap", "rocksdb", SnapshotKind.FULL, marks=pytest.mark.slow),
        pytest.param("rocksdb", "hashmap", SnapshotKind.FULL, marks=pytest.mark.slow),
    ],
)
def test_the_state_backend_may_change(before: str, after: str, kind: SnapshotKind, tmp_path: Path) -> None:
    program, clock = Everything(tmp_path, events_per_split=20), JobClock()
    with RunningJob(program.build, clock, 2, options_of(tmp_path, before)).start() as job:
        program.rules.let_through(len(RULE_VALUES))
        job.settle()
        Conduct.holds_answers = True
        program.events.let_through(11)
        job.settle()
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND, kind=kind))
        job.run()
    formats = {form for o in SavepointReader.read(location).operators() for form in o.formats}
    # vectorised operators have one form for all
    assert formats - {"canonical"} == (set() if kind is SnapshotKind.CANONICAL else {before})
    with RunningJob(program.build, clock, 2, options_of(tmp_path, after), location).start() as job:
        run_to_the_end(job, program)


def in_chains_of_its_own(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
    env.disable_operator_chaining()
    counting(env, numbers)


def behind_a_map(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
    mapped = numbers.stream(env).map(same, PAIR).name("in front").map(same, PAIR).start_new_chain()
    counted = mapped.key_by(first, Types.STRING()).process(Count()).uid("counter")
    numbers.deliver(counted.map(same).start_new_chain().uid("another"))


def renamed(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
    counted = numbers.stream(env).name("renamed").key_by(first, Types.STRING()).process(Count()).uid("counter")
    numbers.deliver(counted.name("tally").map(same).uid("same").name("equal"))


@pytest.mark.parametrize("build", [in_chains_of_its_own, behind_a_map, renamed])
def test_chains_and_names_and_stateless_steps_may_change(build: Build, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    finish(numbers, resumed(numbers, build, location, clock))


def test_what_was_in_chains_of_its_own_may_be_joined(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers, in_chains_of_its_own)
    finish(numbers, resumed(numbers, counting, location, clock))


def test_a_new_operator_starts_empty(tmp_path: Path) -> None:
    def with_another(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        keyed = numbers.stream(env).key_by(first, Types.STRING())
        counted = keyed.process(Count()).uid("counter").name("counter")
        again = keyed.process(Count()).uid("new counter").map(lambda pair: ("new", *pair)).uid("new")
        numbers.deliver(counted.map(same).uid("same").union(again))

    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    job = resumed(numbers, with_another, location, clock)
    finish(numbers, job, ALL_COUNTS + Counter(("new", key, count) for key in KEYS for count in range(1, 11)))
    report = job.driver.status().restored_from
    assert report is not None
    assert {operator.uid for operator in report.new} == {"new counter", "new"}
    assert "(uid new counter): starts empty" in report.describe()


def without_the_counter(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
    numbers.deliver(numbers.stream(env).map(same).uid("same"))


def test_state_that_nobody_takes_is_refused_with_a_report(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    why = refusal(resumed(numbers, without_the_counter, location, clock))
    assert "state of operators that the job does not have: counter (uid counter)" in why
    assert "execution.state-recovery.ignore-unclaimed-state" in why
    assert "  dropped  counter (uid counter): the job has no such operator" in why
    assert "  matched  " in why
    numbers.source.end()
    with resumed(numbers, without_the_counter, location, clock, options=IGNORE) as job:
        job.run()
    # a sink commits what it had prepared; what it gets from now on are the numbers of the second half
    counts = Counter((key, count) for key in KEYS for count in range(1, 11))
    assert numbers.delivered() == counts + Counter((key, number) for key in KEYS for number in range(10, 20))
    report = job.driver.status().restored_from
    assert report is not None
    assert [operator.uid for operator in report.dropped] == ["counter"]


def test_another_uid_is_another_operator(tmp_path: Path) -> None:
    def with_another_uid(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        counted = numbers.stream(env).key_by(first, Types.STRING()).process(Count()).uid("tally").name("counter")
        numbers.deliver(counted.map(same).uid("same"))

    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    why = refusal(resumed(numbers, with_another_uid, location, clock))
    assert "give the operators that should take it these uids" in why
    assert "  new      counter (uid tally): starts empty" in why
    finish(numbers, resumed(numbers, with_another_uid, location, clock, options=IGNORE), COUNTS_ANEW)


class Forgetful(Count):
    """Has given up its state for another one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("another", Types.LONG()))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_that_an_operator_does_not_ask_for_is_carried_along(backend: str, tmp_path: Path) -> None:
    numbers, options = Numbers(tmp_path), {"state.backend.type": backend}
    location, clock = stopped(numbers, options=options)
    with resumed(numbers, with_function(Forgetful()), location, clock, options=options).start() as job:
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
    assert {s.name: s.entries for s in SavepointReader.read(location).states("counter")} == {"count": 10, "another": 0}
    finish(numbers, resumed(numbers, counting, location, clock, options=options))


# --- types, time to live, key groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("function", "reasons"),
    [
        (Count(Types.STRING()), ["'count'", "long", "string"]),
        (CountInList(), ["'count'", "value", "list"]),
    ],
    ids=["serializer", "kind"],
)
def test_state_of_another_form_is_refused(
    function: KeyedProcessFunction, reasons: list[str], backend: str, tmp_path: Path
) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    before = numbers.delivered()
    job = resumed(numbers, with_function(function), location, clock, options={"state.backend.type": backend})
    numbers.source.end()
    why = refusal(job).lower()
    assert all(reason in why for reason in reasons), why
    # nothing was processed with it
    assert numbers.delivered() == before


def first_as_number(pair: tuple[str, int]) -> int:
    return ord(pair[0])


def by(key_selector: Any, key_type: TypeInformation | None) -> Build:
    def build(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        counted = numbers.stream(env).key_by(key_selector, key_type).process(Count()).uid("counter").name("counter")
        numbers.deliver(counted.map(same).uid("same"))

    return build


class Reminder(KeyedProcessFunction):
    """Has timers and no other state."""

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(10_000)


def reminding(key_selector: Any, key_type: TypeInformation) -> Build:
    def build(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        numbers.deliver(numbers.stream(env).key_by(key_selector, key_type).process(Reminder()).uid("counter"))

    return build


ROW = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.LONG()])


def first_by_column(column: str) -> Build:
    def build(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        rows = numbers.stream(env).map(lambda pair: Row(*pair), ROW).uid("rows")
        numbers.deliver(rows.key_by_columns(column).deduplicate("first").uid("counter"))

    return build


def in_windows(assigner: WindowAssigner[Any, Any]) -> Build:
    def build(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        windows = numbers.stream(env).key_by(first, Types.STRING()).window(assigner)
        numbers.deliver(windows.reduce(lambda one, other: other).uid("counter"))

    return build


TUMBLING = TumblingEventTimeWindows.of(Time.hours(1))
SESSIONS = EventTimeSessionWindows.with_gap(Time.hours(1))
OF_EVENT_TIME = "TimeWindow of event time"
OTHER_KEYS: dict[str, tuple[Build, Build, str, str]] = {
    "declared": (counting, by(first_as_number, Types.LONG()), "string", "long"),
    "undeclared": (by(first, None), by(first_as_number, Types.LONG()), "no declared type", "long"),
    "timers": (reminding(first, Types.STRING()), reminding(first_as_number, Types.LONG()), "string", "long"),
    "columns": (first_by_column("name"), first_by_column("number"), "string", "long"),
    "windows": (in_windows(TUMBLING), in_windows(GlobalWindows.create()), OF_EVENT_TIME, "GlobalWindow"),
    "sessions": (
        in_windows(TUMBLING),
        in_windows(SESSIONS),
        "TimeWindow of event time",
        "merging TimeWindow of event time",
    ),
}


@pytest.mark.parametrize("case", OTHER_KEYS)
def test_state_of_other_keys_or_windows_is_refused(case: str, tmp_path: Path) -> None:
    before, after, written, expected = OTHER_KEYS[case]
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers, before)
    numbers.source.end()
    why = refusal(resumed(numbers, after, location, clock))
    assert "(uid counter) was saved by" in why
    assert f"of type {written}" in why or f"of {written}" in why
    assert f"now are of type {expected}:" in why
    with resumed(numbers, before, location, clock) as job:
        job.run()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", [SnapshotKind.FULL, SnapshotKind.CANONICAL])
def test_state_of_other_keys_is_refused_in_every_form(kind: SnapshotKind, backend: str, tmp_path: Path) -> None:
    numbers, options = Numbers(tmp_path), {"state.backend.type": backend}
    with RunningJob(
        lambda env: counting(env, numbers), JobClock(), 2, {**options_of(tmp_path), **options}
    ).start() as job:
        numbers.source.let_through(numbers.half)
        job.settle()
        location = job.answer(job.driver.trigger_savepoint(kind=kind))
    reader = SavepointReader.read(location)
    assert {o.uid: o.key_type for o in reader.operators()}["counter"] == "string"
    assert reader.keyed_state("counter", "count").schema["key"] == pl.String
    why = refusal(resumed(numbers, by(first_as_number, Types.LONG()), location, JobClock(), options=options))
    assert "counter (uid counter) was saved by keys of type string, which now are of type long" in why


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("ttl_before", "ttl_after"), [(None, 3_600_000), (3_600_000, None)], ids=["added", "removed"])
def test_time_to_live_may_be_added_and_removed(
    ttl_before: int | None, ttl_after: int | None, backend: str, tmp_path: Path
) -> None:
    numbers = Numbers(tmp_path)
    options = {"state.backend.type": backend}
    location, clock = stopped(numbers, with_function(Count(ttl_ms=ttl_before)), options=options)
    job = resumed(numbers, with_function(Count(ttl_ms=ttl_after)), location, clock, options=options)
    finish(numbers, job)


def test_a_count_that_has_its_time_to_live_from_the_savepoint_on_expires(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    job = resumed(numbers, with_function(Count(ttl_ms=60_000)), location, clock).start()
    job.settle()
    clock.advance(60_001)
    finish(numbers, job, COUNTS_ANEW)


def test_the_max_parallelism_of_state_is_fixed(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    with_64 = {"pipeline.max-parallelism": "64"}
    why = refusal(resumed(numbers, counting, location, clock, options=with_64))
    assert "has max parallelism 64, and its state was saved with 128" in why
    finish(numbers, resumed(numbers, counting, location, clock, 3))


def test_a_parallelism_above_the_saved_max_is_refused(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers, options={"pipeline.max-parallelism": "4"})
    assert {o.uid: o.max_parallelism for o in SavepointReader.read(location).operators()}["counter"] == 4
    why = refusal(resumed(numbers, counting, location, clock, 5))
    assert "parallelism 5" in why
    assert "max parallelism 4" in why
    # the saved one is taken where the program sets none
    finish(numbers, resumed(numbers, counting, location, clock, 4))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", [SnapshotKind.CANONICAL, SnapshotKind.FULL, SnapshotKind.INCREMENTAL])
def test_every_form_of_state_with_time_to_live_can_be_looked_into(
    kind: SnapshotKind, backend: str, tmp_path: Path
) -> None:
    numbers, options = Numbers(tmp_path), {**options_of(tmp_path), "state.backend.type": backend}
    build = with_function(Count(ttl_ms=3_600_000))
    with RunningJob(lambda env: build(env, numbers), JobClock(), 2, options).start() as job:
        numbers.source.let_through(numbers.half)
        job.settle()
        if kind is SnapshotKind.INCREMENTAL:
            request = job.driver.trigger_checkpoint(kind)
        else:
            request = job.driver.trigger_savepoint(kind=kind)
        reader = SavepointReader.read(job.answer(request))
        counts = reader.keyed_state("counter", "count")
        assert dict(counts.select("key", "value").rows()) == dict.fromkeys(KEYS, 10)
        assert [o.uid for o in reader.operators() if o.uid in ("numbers", "counter")] == ["numbers", "counter"]
