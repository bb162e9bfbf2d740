"""The autoscaler on a simulated plant, and its decisions one by one."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.typeinfo import Types
from runtime.core.ids import JobId, VertexId
from runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.autoscaler import Autoscaler, JobDecision, Past, PastChange, VertexDecision
from runtime.jobmaster.autoscaler_options import AutoscalerSettings
from runtime.jobmaster.requirements import Bounds, Requirements
from runtime.jobmaster.scaling_window import JobSample, SubtaskSample
from tests.jobmaster.plant import Plant, Stage, chain_graph, vertex_id

SOURCE, MAP, SINK = vertex_id(0), vertex_id(1), vertex_id(2)
SETTINGS = AutoscalerSettings()
#: a source and a sink that keep up with anything, and a map that does 1,000 records/s and subtask
THREE = (Stage(50_000), Stage(1_000), Stage(20_000))
NOTHING = Past()


def steady(rate: float) -> Callable[[float], float]:
    return lambda _: rate


def run(plant: Plant, seconds: float, options: AutoscalerSettings = SETTINGS) -> Plant:
    plant.run(Autoscaler(chain_graph(plant.stages), options), seconds)
    return plant


def changes_of(plant: Plant, vertex: VertexId) -> list[int]:
    return [rescaling.parallelism[vertex] for rescaling in plant.rescalings if vertex in rescaling.parallelism]


def is_turning(changes: Sequence[int]) -> int:
    """How often the direction changes."""
    steps = [b - a for a, b in itertools.pairwise(changes)]
    return sum(1 for a, b in itertools.pairwise(steps) if a * b < 0)


# --- on the plant -----------------------------------------------------------------------------------------------------


def test_one_decision_is_enough_if_the_source_knows_what_is_pending() -> None:
    plant = run(Plant(THREE, steady(2_500), [1, 1, 1], noise=0.1), 1_800)
    assert changes_of(plant, MAP) == [4]
    assert len(plant.rescalings) == 1
    assert plant.backlog < 2_500


def test_without_that_the_parallelism_doubles_until_the_source_is_not_held_back() -> None:
    plant = run(Plant(THREE, steady(2_500), [1, 1, 1], knows_pending=False, noise=0.2), 1_800)
    assert changes_of(plant, MAP) == [2, 4]
    assert "held back" in " ".join(d.vertices[MAP].reason for d in plant.decisions if d.parallelism)


def test_a_job_with_too_much_gives_back_slots_and_then_stays() -> None:
    plant = run(Plant(THREE, steady(2_500), [16, 16, 16], noise=0.2), 1_800)
    assert changes_of(plant, MAP) == [7, 4]
    assert plant.parallelism == [3, 4, 3]
    assert plant.decisions[-1].vertices[SOURCE].reason.endswith("But fewer would free no slot.")
    assert plant.backlog < 2_500


def test_a_backlog_is_worked_off_in_the_catch_up_duration() -> None:
    options = dataclasses.replace(SETTINGS, catch_up_ms=300_000)
    # 360,000 records have come within ten minutes before the autoscaler is asked
    plant = Plant(THREE, steady(1_600), [1, 1, 1])
    for _ in range(2_400):
        plant.step()
    run(plant, 92, options)
    assert changes_of(plant, MAP) == [math.ceil(1_600 / 700 + 414_400 / 300_000 + 0.01)]
    run(plant, 290, options)
    assert plant.backlog < 1_600


def test_a_step_in_the_load_is_followed_up_and_down() -> None:
    def demand(second: float) -> float:
        return 600 if second < 300 or second > 1_200 else 3_000

    plant = run(Plant(THREE, demand, [1, 1, 1], noise=0.1), 3_000)
    changes = changes_of(plant, MAP)
    assert max(changes) >= 5 and changes[-1] == 1
    assert is_turning([1, *changes]) == 1


def test_short_bursts_cause_nothing() -> None:
    plant = run(Plant(THREE, lambda second: 3_000 if second % 120 < 6 else 500, [1, 1, 1], noise=0.1), 1_800)
    assert plant.rescalings == []


def test_hot_keys_are_told_and_do_not_take_all_slots() -> None:
    plant = run(Plant([Stage(50_000), Stage(1_000, hot=0.9)], steady(1_500), [1, 1], noise=0.05), 1_800)
    assert changes_of(plant, MAP) == [3]
    reason = plant.decisions[-1].vertices[MAP].reason
    assert "uneven keys" in reason and "it gets no more" in reason
    assert plant.decisions[-1].reason == "stage 1 would need more and cannot have it"


@pytest.mark.slow
def test_what_something_outside_limits_gets_no_more_than_once() -> None:
    plant = run(Plant([Stage(50_000), Stage(1_000, shared_capacity=1_000)], steady(2_500), [1, 1]), 1_800)
    assert changes_of(plant, MAP) == [4]
    blind = dataclasses.replace(SETTINGS, effectiveness=None)
    plant = run(Plant([Stage(50_000), Stage(1_000, shared_capacity=1_000)], steady(2_500), [1, 1]), 1_800, blind)
    assert len(changes_of(plant, MAP)) > 2


def test_a_source_that_is_busy_itself_gets_more_subtasks() -> None:
    plant = run(Plant([Stage(1_000), Stage(50_000)], steady(2_000), [1, 1]), 600)
    assert changes_of(plant, SOURCE) == [3]


def test_ratios_of_output_to_input_carry_the_demand_on() -> None:
    # every record becomes ten
    plant = run(Plant([Stage(50_000), Stage(1_000, ratio=10), Stage(5_000)], steady(900), [1, 1, 1]), 600)
    assert plant.rescalings[0].parallelism == {MAP: 2, SINK: 3}


def test_a_job_that_is_silent_is_left_alone() -> None:
    plant = run(Plant(THREE, steady(0), [2, 2, 2]), 300)
    assert plant.rescalings == []
    last = plant.decisions[-1]
    assert last.reason == "nothing can be measured"
    assert {d.reason for d in last.vertices.values()} == {"No records in 60 s: there is nothing to measure by."}


def any_plant(seed: int) -> tuple[Plant, int]:
    """Return a plant with a burst in its load, and the upper bound of its vertices."""
    draw = random.Random(seed)
    stages = [
        Stage(draw.choice([400, 1_000, 3_000, 9_000]), draw.choice([0.3, 1.0, 2.0])) for _ in range(draw.randint(2, 4))
    ]
    demand, burst, upper = draw.randint(50, 5_000), draw.choice([1.0, 0.3, 2.5]), draw.choice([2, 6, 20])
    plant = Plant(
        stages,
        lambda second: demand * (burst if 300 < second < 400 else 1.0),
        [min(upper, draw.randint(1, 8))] * len(stages),
        knows_pending=draw.random() < 0.5,
        noise=draw.choice([0.0, 0.15]),
        seed=seed,
    )
    return plant, upper


def check_any_plant(seed: int) -> None:
    plant, upper = any_plant(seed)
    options = AutoscalerSettings(
        window_ms=20_000, stabilization_ms=5_000, grace_ms=60_000, cooldown_ms=40_000, catch_up_ms=120_000
    )
    bounds = {vertex_id(i): Bounds(1, upper) for i in range(len(plant.stages))}
    autoscaler = Autoscaler(chain_graph(plant.stages), options)
    plant.run(autoscaler, 1_000, bounds)
    settled = len(plant.rescalings)
    plant.run(autoscaler, 300, bounds)
    assert len(plant.rescalings) == settled, [r.reason for r in plant.rescalings]
    assert settled <= 10
    for rescaling in plant.rescalings:
        assert all(1 <= n <= upper for n in rescaling.parallelism.values())
    for earlier, later in itertools.pairwise(plant.rescalings):
        assert later.at_s - earlier.at_s >= 40
    told = [vertex for decision in plant.decisions for vertex in decision.vertices.values()]
    assert all(math.isfinite(n) for v in told for n in (v.true_rate, v.demand, v.utilization) if n is not None)
    assert not any(word in v.reason for v in told for word in ("nan", "inf "))
    gains = list(itertools.accumulate((stage.ratio for stage in plant.stages[:-1]), operator.mul, initial=1.0))
    stages = list(zip(plant.stages, gains, plant.parallelism, strict=True))
    # what the source can read, by what each stage can do
    able, narrowest = min((stage.capacity * n / gain, n) for stage, gain, n in stages)
    assert able >= plant.demand(1_000) or narrowest == upper, "it does not keep up"
    reads = min(able, plant.demand(1_000))
    needed = [math.ceil(reads * gain / stage.capacity / options.lower) for stage, gain, _ in stages]
    assert max(plant.parallelism) <= max(needed), "it has more slots than it needs"


@pytest.mark.parametrize("seed", range(8))
def test_any_plant_keeps_up_within_its_bounds_and_comes_to_rest(seed: int) -> None:
    check_any_plant(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_020))
def test_many_plants_do(seed: int) -> None:
    check_any_plant(seed)


# --- one decision -----------------------------------------------------------------------------------------------------


def graph_of(edges: Mapping[tuple[str, str], Partitioning], group: str = "default") -> JobGraph:
    names = dict.fromkeys(name for edge in edges for name in edge)
    vertices = [JobVertex(VertexId(n), n.upper(), 1, 128, group, (), ()) for n in names]
    joined = [
        JobEdge(i, VertexId(source), 0, VertexId(target), 0, how, None, None, Types.LONG(), 100)
        for i, ((source, target), how) in enumerate(edges.items())
    ]
    return JobGraph(JobId("0" * 32), "job", vertices, joined, {})


LINE = graph_of({("source", "map"): Partitioning.REBALANCE})


@dataclasses.dataclass
class Told:
    """What a vertex does per second, all subtasks alike; the rest of the time it is idle."""

    records_in: float
    records_out: float = 0.0
    busy: float = 0.5
    held: float = 0.0
    parallelism: int = 1
    pending: int | None = None

    def at(self, second: float) -> list[SubtaskSample]:
        share = second / self.parallelism
        idle = max(0.0, 1.0 - self.busy - self.held)
        return [
            SubtaskSample(
                round(self.records_in * share),
                round(self.records_out * share),
                self.busy * second * 1_000,
                idle * second * 1_000,
                self.held * second * 1_000,
                self.pending,
            )
        ] * self.parallelism


def decide(
    told: Mapping[str, Told],
    graph: JobGraph = LINE,
    options: AutoscalerSettings = SETTINGS,
    past: Past = NOTHING,
    bounds: Requirements | None = None,
    finished: Sequence[str] = (),
    seconds: int = 100,
) -> JobDecision:
    """Return the decision after some time in which the vertices did the same all along."""
    autoscaler = Autoscaler(graph, options)
    for second in range(seconds + 1):
        vertices = {VertexId(name): vertex.at(second + 1) for name, vertex in told.items()}
        sample = JobSample(second * 1_000.0, 0, vertices=vertices, finished=[VertexId(n) for n in finished])
        decision = autoscaler.decide(sample, past, bounds)
    return decision


#: the source has nothing to do, the map is busy for 95 %
BUSY = {"source": Told(12_000, 12_000, busy=0.1), "map": Told(12_000, busy=0.95, parallelism=2)}
LAZY = {"source": Told(1_000, 1_000, busy=0.1, parallelism=4), "map": Told(1_000, busy=0.1, parallelism=4)}


def wanted(decision: JobDecision) -> dict[str, int]:
    return {str(vertex): d.wanted for vertex, d in decision.vertices.items()}


def test_the_reason_has_the_numbers() -> None:
    decision = decide(BUSY)
    assert decision.parallelism == {"map": 3}
    assert decision.reason == "rescaling MAP from 2 to 3"
    assert decision.vertices[VertexId("map")].reason == (
        "Busy 95% at 12,000 records/s, so a subtask can do 6,316/s. 12,000/s are demanded. "
        "That needs 3 subtasks at 70%."
    )


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (0, "stabilising: 0 s of 30 s since the tasks run"),
        (29, "stabilising: 29 s of 30 s since the tasks run"),
        (30, "measuring: 0 s of 60 s of samples"),
        (72, "measuring: 42 s of 60 s of samples"),
    ],
)
def test_nothing_is_decided_before_there_are_enough_samples(seconds: int, reason: str) -> None:
    decision = decide(BUSY, seconds=seconds)
    assert decision == JobDecision(reason)


def test_another_attempt_begins_a_new_window() -> None:
    autoscaler = Autoscaler(LINE, SETTINGS)
    for second in range(200):
        vertices = {VertexId(name): told.at(second + 1) for name, told in BUSY.items()}
        decision = autoscaler.decide(JobSample(second * 1_000.0, second // 150, vertices=vertices), NOTHING)
    assert decision.reason == "measuring: 19 s of 60 s of samples"


def test_a_job_that_does_not_run_is_left_alone_and_forgotten() -> None:
    autoscaler = Autoscaler(LINE, SETTINGS)
    for second in range(200):
        vertices = {VertexId(name): told.at(second + 1) for name, told in BUSY.items()}
        why = "the job is RESTARTING" if second == 150 else ""
        decision = autoscaler.decide(JobSample(second * 1_000.0, 0, why, vertices), NOTHING)
        if second == 150:
            assert decision == JobDecision("the job is RESTARTING")
    assert decision.reason == "measuring: 18 s of 60 s of samples"


@pytest.mark.parametrize(
    ("past", "reason"),
    [
        (Past(last_rescale_age_ms=10_000), "cooldown: 20 s left"),
        (Past(last_rescale_age_ms=29_999), "cooldown: 0 s left"),
        (
            Past(cost_ms=1_000_000),
            "a rescaling costs 17 min and would gain less: 50.0% of the capacity for 30 min "
            "(job.autoscaler.catch-up.duration) is worth 15 min",
        ),
    ],
)
def test_what_is_wanted_is_shown_while_it_is_not_done(past: Past, reason: str) -> None:
    decision = decide(BUSY, past=past, options=dataclasses.replace(SETTINGS, max_increase=0.5))
    assert (decision.reason, decision.parallelism) == (reason, {})
    assert wanted(decision) == {"source": 1, "map": 3}


def test_an_adviser_only_shows() -> None:
    decision = decide(BUSY, options=dataclasses.replace(SETTINGS, acts=False))
    assert decision.reason == "the decision is only shown: job.autoscaler.scaling.enabled is false"
    assert not decision.parallelism and wanted(decision)["map"] == 3


def test_bounds_are_kept_and_told() -> None:
    loaded = {**BUSY, "map": Told(12_000, busy=0.95, parallelism=4)}
    bounds = {VertexId("map"): Bounds(2, 4)}
    decision = decide(loaded, bounds=bounds)
    assert not decision.parallelism
    assert decision.vertices[VertexId("map")].reason.endswith("That needs 6 subtasks at 70%: upper bound 4 reached.")
    assert decision.reason == "MAP would need more and cannot have it"
    decision = decide({**LAZY, "source": Told(1_000, 1_000, busy=0.01)}, bounds=bounds)
    assert decision.parallelism == {"map": 2}
    options = dataclasses.replace(SETTINGS, min_parallelism=3)
    assert wanted(decide(LAZY, options=options)) == {"source": 3, "map": 3}


def test_steps_have_a_largest_size() -> None:
    loaded = {**BUSY, "source": Told(12_000, 12_000, busy=0.1, pending=100_000_000)}
    assert wanted(decide(loaded, options=dataclasses.replace(SETTINGS, max_increase=1.0)))["map"] == 4
    assert wanted(decide({**LAZY, "map": Told(1_000, busy=0.01, parallelism=10)}))["map"] == 4


def test_what_got_more_a_while_ago_keeps_it() -> None:
    past = Past(300_000, changes={VertexId("map"): PastChange(2, 4, 5_000, 200_000)})
    decision = decide(LAZY, past=past)
    assert "keeps them for 100 s" in decision.vertices[VertexId("map")].reason
    # the source may have less, but that would free no slot
    assert decision.parallelism == {}
    past = Past(300_000, changes={VertexId("map"): PastChange(2, 4, 5_000, 300_000)})
    assert decide(LAZY, past=past).parallelism == {"source": 2, "map": 2}


def test_excluded_vertices_keep_their_parallelism() -> None:
    decision = decide(BUSY, options=dataclasses.replace(SETTINGS, excluded=frozenset({"map"})))
    assert decision.vertices[VertexId("map")].reason == (
        "It is in job.autoscaler.vertex.exclude.ids and keeps its 2 subtasks."
    )


def test_forward_edges_join_vertices() -> None:
    graph = graph_of({("source", "map"): Partitioning.FORWARD, ("map", "sink"): Partitioning.REBALANCE})
    told = {
        "source": Told(12_000, 12_000, busy=0.1, parallelism=2),
        "map": Told(12_000, 12_000, busy=0.95, parallelism=2),
        "sink": Told(12_000, busy=0.6, parallelism=2),
    }
    decision = decide(told, graph)
    assert decision.parallelism == {"source": 3, "map": 3}
    assert decision.vertices[VertexId("source")].reason.endswith("Forward edges join it with MAP: they get 3 together.")
    excluded = decide(told, graph, dataclasses.replace(SETTINGS, excluded=frozenset({"source"})))
    assert excluded.parallelism == {}
    apart = {VertexId("source"): Bounds(1, 2), VertexId("map"): Bounds(3, 3)}
    assert decide(told, graph, bounds=apart).parallelism == {}


def test_a_broadcast_is_not_divided() -> None:
    graph = graph_of({("events", "rules"): Partitioning.REBALANCE, ("updates", "rules"): Partitioning.BROADCAST})
    told = {
        "events": Told(8_000, 8_000, busy=0.1),
        "updates": Told(1_000, 1_000, busy=0.1),
        # 8,000 events, and 1,000 updates in each of 2 subtasks
        "rules": Told(10_000, busy=1.0, parallelism=2),
    }
    # of 5,000 a subtask does 1,000 are updates: 8,000 / (5,000 × 0.7 − 1,000)
    assert wanted(decide(told, graph, past=Past(cost_ms=0)))["rules"] == 4
    told |= {"updates": Told(7_000, 7_000, busy=0.1), "rules": Told(22_000, busy=1.0, parallelism=2)}
    # of 11,000 they are 7,000
    assert wanted(decide(told, graph, past=Past(cost_ms=0)))["rules"] == 12
    told["events"] = Told(4_000, 4_000, busy=0.1)
    told["rules"] = Told(18_000, busy=1.0, parallelism=2)
    decision = decide(told, graph)
    assert "more subtasks do not help" in decision.vertices[VertexId("rules")].reason


def test_a_vertex_that_waits_for_a_service_counts_as_busy() -> None:
    told = {"source": Told(1_000, 1_000, busy=0.01), "map": Told(1_000, busy=0.05, held=0.94)}
    decision = decide(told)
    assert wanted(decision)["map"] == 2
    assert "Busy 99%" in decision.vertices[VertexId("map")].reason


def test_a_finished_source_says_nothing_about_what_follows() -> None:
    decision = decide({"map": Told(10, busy=0.01, parallelism=4)}, finished=["source"])
    assert decision.parallelism == {}
    assert decision.vertices[VertexId("map")].reason == (
        "Its sources have finished or were silent: what will arrive is unknown."
    )
    assert decide({}, finished=["source", "map"]).reason == "all vertices have finished"


def test_while_subtasks_finish_nothing_is_taken_away_and_their_vertex_stays() -> None:
    def decide_with(ended: int, told: Mapping[str, Told]) -> JobDecision:
        autoscaler = Autoscaler(LINE, SETTINGS)
        for second in range(101):
            vertices = {VertexId(name): vertex.at(second + 1) for name, vertex in told.items()}
            finished = {VertexId("source"): ended}
            sample = JobSample(second * 1_000.0, 0, vertices=vertices, finished_subtasks=finished)
            decision = autoscaler.decide(sample, NOTHING)
        return decision

    assert decide_with(0, LAZY).parallelism == {"source": 2, "map": 2}
    decision = decide_with(2, LAZY)
    assert decision.parallelism == {}
    assert decision.vertices[VertexId("source")] == VertexDecision(
        6, 6, "2 of its 6 subtasks have finished: more would have nothing to do."
    )
    assert decision.vertices[VertexId("map")].reason.endswith("But while subtasks finish, none are taken away.")
    # what cannot keep up gets more all the same
    assert decide_with(1, BUSY).parallelism == {"map": 3}


def test_a_source_gets_no_more_while_it_waits_for_what_shares_its_slot() -> None:
    told = {"source": Told(250, 250, busy=0.96), "map": Told(250, busy=1.0)}
    decision = decide(told)
    assert decision.parallelism == {"map": 2}
    assert "But MAP, which shares its slots, is busier and gets more first." in (
        decision.vertices[VertexId("source")].reason
    )
    # not if it is the source itself
    assert decide({**told, "source": Told(250, 250, busy=1.0), "map": Told(250, busy=0.95)}).parallelism == {
        "source": 2,
        "map": 2,
    }


def test_time_that_stands_still_divides_nothing_by_zero() -> None:
    autoscaler = Autoscaler(LINE, SETTINGS)
    vertices = {VertexId(name): told.at(0) for name, told in BUSY.items()}
    for second in range(200):
        decision = autoscaler.decide(JobSample(second * 1_000.0, 0, vertices=vertices), NOTHING)
    assert decision.reason == "nothing can be measured"


def test_a_watermark_that_is_behind_is_told() -> None:
    autoscaler = Autoscaler(LINE, SETTINGS)
    for second in range(100):
        vertices = {VertexId(name): told.at(second + 1) for name, told in BUSY.items()}
        sample = JobSample(second * 1_000.0, 0, vertices=vertices, watermark_lag_ms={VertexId("map"): 42_000})
        decision = autoscaler.decide(sample, NOTHING)
    assert "the watermark is 42 s behind" in decision.vertices[VertexId("map")].reason


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_have_the_operators_names() -> None:
    assert AutoscalerSettings.of(Configuration()) == AutoscalerSettings()
    read = AutoscalerSettings.of(
        Configuration.from_dict(
            {
                "job.autoscaler.enabled": "true",
                "job.autoscaler.metrics.window": "5 min",
                "job.autoscaler.stabilization.interval": "1m",
                "job.autoscaler.target.utilization": "0.6",
                "job.autoscaler.vertex.exclude.ids": "a; b",
                "job.autoscaler.scaling.effectiveness.detection.enabled": "false",
            }
        )
    )
    assert read == AutoscalerSettings(
        is_enabled=True,
        window_ms=300_000,
        stabilization_ms=60_000,
        target=0.6,
        excluded=frozenset({"a", "b"}),
        effectiveness=None,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job.autoscaler.enabled", "maybe"),
        ("job.autoscaler.target.utilization", "0"),
        ("job.autoscaler.target.utilization", "nan"),
        ("job.autoscaler.scale-up.max-factor", "inf"),
        ("job.autoscaler.vertex.min-parallelism", "201"),
        ("job.autoscaler.metrics.window", "0 s"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key.replace(".", r"\.")):
        AutoscalerSettings.of(Configuration.from_dict({key: value}))
