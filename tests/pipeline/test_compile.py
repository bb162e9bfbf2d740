"""The program: readable, made of literals, the same job as the document, and a line of it is a node."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.client.extract import extract_job_graph
from runtime.common.typeinfo import Types
from runtime.graph.normal_form import normal_form
from runtime.pipeline import Code, DocumentError, Program, StreamFacts, compile_pipeline, load_catalog, read_document
from runtime.pipeline.emit import comment_text, literal_text, value_expr
from runtime.testing.nodes import HOSTILE, example_pipeline
from tests.pipeline.pipelines import chain, node, orders, pipeline
from tests.pipeline.programs import executed, graph_of, run_with_taps
from tests.pipeline.taps import what_flowed

CATALOG = load_catalog([])
#: modules that the code of examples imports
IMPORTED_BY_EXAMPLES = {"python.frames": {"polars"}, "python.async": {"asyncio"}}


def compiled(value: Any) -> Program:
    program = compile_pipeline(read_document(value), CATALOG, version=7)
    assert program.is_deployable, program.problems
    return program


HOT = pipeline(
    {
        "bids": node("source.nexmark", "Bids", kind="bids", events=1_000),
        "per": node(
            "window.aggregate",
            "Per auction",
            keys=["auction"],
            window={"kind": "tumbling", "size": "10 s"},
            aggregates=[["bids", "count(*)"]],
        ),
        "show": node("sink.print", "Show"),
    },
    "bids -> per",
    "per -> show",
    settings={"parallelism": 2, "checkpointing": {"interval": "10 s"}},
) | {"name": "Hot auctions"}

HOT_PROGRAM = '''"""Hot auctions. Generated from a pipeline, version 7."""

from runtime.common import Configuration, Time, WatermarkStrategy
from runtime.connectors import NexmarkConfig, NexmarkKind, NexmarkSource
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

configuration = Configuration.from_dict({"execution.checkpointing.interval": "10 s", "parallelism.default": "2"})
env = StreamExecutionEnvironment.get_execution_environment(configuration)

# Bids
bids = (
    env.from_source(
        NexmarkSource(NexmarkKind.BIDS, NexmarkConfig(events=1000)),
        WatermarkStrategy.for_monotonous_timestamps(),
        "Bids",
    )
    .uid("bids")
)

# Per auction
per_auction = (
    bids
    .key_by_columns("auction")
    .window(TumblingEventTimeWindows.of(Time.seconds(10)))
    .aggregate_columns(bids="count(*)", window_end="window_end")
    .name("Per auction")
    .uid("per-auction")
)

# Show
per_auction.print().name("Show").uid("show")

env.execute("Hot auctions")
'''


def test_the_program_is_one_that_a_person_would_write() -> None:
    assert compiled(HOT).source == HOT_PROGRAM


def test_a_program_is_extracted_like_an_upload_and_its_operators_are_found(tmp_path: Path) -> None:
    program = compiled(HOT)
    file = tmp_path / "hot-auctions-v7.py"
    file.write_text(program.source)
    job = extract_job_graph(file)
    assert job.warnings == ()
    operators = [operator for vertex in job.graph.vertices for operator in vertex.operators]
    assert [(operator.uid, operator.name) for operator in operators] == [
        ("bids", "Source: Bids"),
        ("per-auction/local", "LocalWindowAggregate"),
        ("per-auction", "Per auction"),
        ("show", "Sink: Show"),
    ]
    places = [program.source_map.at_definition(operator.defined_at) for operator in operators]
    assert [place.node for place in places if place is not None] == ["bids", "per", "per", "show"]
    assert normal_form(graph_of(program, "Hot auctions")) == normal_form(job.graph)


def test_a_line_of_python_is_a_line_of_its_node() -> None:
    code = ["def halved(row):", '    return (row["cents"] / 2,)']
    value = chain(
        orders(),
        node("python.map", "Halved", code=code, type=[["half", "double"]]),
        node("sink.print", "Show"),
        code=["HALF = 2"],
    )
    program = compiled(value)
    lines = program.source.splitlines()
    place = program.source_map.at(lines.index(code[1]) + 1)
    assert place is not None and (place.node, place.code_line) == ("n1", 2)
    shared = program.source_map.at(lines.index("HALF = 2") + 1)
    assert shared is not None and (shared.node, shared.code_line) == (None, 1)
    assert program.source_map.at(1) is None


def test_what_is_unfinished_is_left_out_of_the_program() -> None:
    value = chain(orders(), node("filter", "Unfinished"), node("sink.print", "Show"))
    program = compile_pipeline(read_document(value), CATALOG)
    assert not program.is_deployable
    assert "Orders" in program.source and "Unfinished" not in program.source and "Show" not in program.source


def test_names_of_variables_are_no_words_of_python_and_none_of_the_code() -> None:
    names = ["env", "Class", "print", "Types", "configuration", "9 lives", "Ümläut", "日本", "helper", "match"]
    nodes = {f"n{index}": orders() | {"name": name, "uid": f"u{index}"} for index, name in enumerate(names)}
    code = ["helper = 1", "class Types:", "    pass", "def env():", "    return configuration_of(helper)"]
    program = compile_pipeline(read_document(pipeline(nodes, code=code)), CATALOG)
    made = executed(compiled(pipeline(nodes, code=[*code, "def configuration_of(x): return x"])))
    assert made["helper"] == 1 and callable(made["env"]) and made["Types"].__name__ == "Types"
    assert len(set(program.streams.values())) == len(names)


def test_a_pipeline_in_micro_batches_is_a_program_in_micro_batches() -> None:
    value = chain(orders(), node("sink.print", "P"), settings={"execution_mode": "micro-batch"})
    assert '"execution.mode": "micro-batch"' in compiled(value).source.replace("'", '"')
    assert graph_of(compiled(value), "job").configuration["execution.mode"] == "micro-batch"


def test_operators_have_the_settings_of_their_node() -> None:
    value = chain(
        orders(),
        node("filter", "Dear", condition="cents > 1")
        | {"parallelism": 2, "max_parallelism": 8, "slot_group": "other", "chaining": "never"},
        node("sink.print", "Show") | {"parallelism": 1, "chaining": "never"},
    )
    value["edges"]["e0"]["partitioning"] = "rebalance"
    graph = graph_of(compiled(value), "job")
    vertex = next(vertex for vertex in graph.vertices if vertex.name == "Dear")
    assert (vertex.parallelism, vertex.max_parallelism, vertex.slot_sharing_group) == (2, 8, "other")
    assert {edge.partitioning.value for edge in graph.edges} == {"REBALANCE"}


def test_late_rows_and_branches_leave_by_their_ports(tmp_path: Path) -> None:
    rows = [[1, "pen", 100, 20_000], [1, "ink", 300, 1_000], [2, "ink", 300, 40_000]]
    value = pipeline(
        {
            "orders": orders(rows=rows),
            "split": node("split", "Split", branches=[["dear", "cents > 200"]], rest=True),
            "windows": node(
                "window.aggregate",
                "Windows",
                keys=["id"],
                window={"kind": "tumbling", "size": "10 s"},
                aggregates=[["n", "count(*)"]],
                late_output=True,
            ),
        },
        "orders -> split",
        "orders -> windows",
        settings={"parallelism": 1, "watermark_interval": "0 ms"},
    )
    run_with_taps(compiled(value), tmp_path)
    flowed = {port: [row for batch in what_flowed(tmp_path, port) for row in batch["values"]] for port in (
        "split.dear", "split.rest", "windows.out", "windows.late",
    )}  # fmt: skip
    assert flowed["split.rest"] == ["Row(id=1, item='pen', cents=100, at=20000)"]
    assert flowed["split.dear"] == [
        "Row(id=1, item='ink', cents=300, at=1000)",
        "Row(id=2, item='ink', cents=300, at=40000)",
    ]
    assert flowed["windows.late"] == ["Row(id=1, item='ink', cents=300, at=1000)"]
    assert len(flowed["windows.out"]) == 2


def test_a_connection_is_a_name_and_no_server_is_asked(tmp_path: Path) -> None:
    declared = [["id", "long"], ["item", "string"]]
    by_id = {"kind": "upsert", "keys": ["id"]}
    total = node("aggregate", "Total", keys=["id"], aggregates=[["n", "count(*)"]])
    value = pipeline(
        {
            "pg": node("source.postgres", "Orders", connection="pg-main", table="orders", type=declared),
            "rs": node("source.redis_streams", "Events", connection="redis", streams=["a", "b"], bounded=True),
            "ls": node("source.socket", "Lines", host="localhost", port=9),
            "lu": node("join.lookup", "Items", connection="pg-main", table="items", on=[["item", "id"]], type=declared),
            "su": total,
            "up": node("sink.postgres", "Totals", connection="pg-main", table="t", mode=by_id),
            "ex": node("sink.postgres", "Once", connection="pg-main", table="o", mode={"kind": "exactly_once"}),
            "re": node("sink.redis_streams", "Out", connection="redis", streams=["out"], max_length=10),
            "pr": node("sink.print", "Show"),
        },
        "pg -> lu", "lu -> ex", "pg -> su", "su -> up", "rs -> re", "ls -> pr",
        settings={"checkpointing": {"interval": "10 s"}},
    )  # fmt: skip
    program = compiled(value)
    file = tmp_path / "p.py"
    file.write_text(program.source)
    job = extract_job_graph(file)
    made = {operator.uid: operator for vertex in job.graph.vertices for operator in vertex.operators}
    lookup = program.validation.facts["lu", "out"]
    assert isinstance(lookup, StreamFacts) and made["items"].output_type == lookup.row
    assert list(lookup.columns) == ["id", "item", "id_right", "item_right"]
    assert 'SecretRef("pg-main", "url")' in program.source
    value["nodes"]["up"]["params"]["mode"]["keys"] = ["n"]
    (problem,) = [found for found in compile_pipeline(read_document(value), CATALOG).problems if found.is_blocking]
    assert (problem.node, problem.code) == ("up", Code.UPSERT_KEY_MISSING)


# --- changes of keys stay in order ------------------------------------------------------------------------------------


def totals(*above: Any, total: int | None = None, **settings: Any) -> Any:
    """Return a pipeline of running totals by which a table is updated.

    Args:
        above: nodes between the totals and the table.
        total: parallelism of the totals.
        settings: of the pipeline.
    """
    by_id = {"kind": "upsert", "keys": ["id"]}
    made = node("aggregate", "Total", keys=["id"], aggregates=[["total", "sum(cents)"]])
    table = node("sink.postgres", "Table", connection="pg", table="totals", mode=by_id)
    return chain(orders(), made | {"parallelism": total}, *above, table, settings=settings)


def edges_below(value: Any, name: str) -> list[tuple[str, str]]:
    """Return the ends' names and partitionings of edges that leave the vertex whose last operator has a name."""
    graph = graph_of(compiled(value), "job")
    ends = {vertex.vertex_id: vertex for vertex in graph.vertices}
    return [
        (ends[edge.target].operators[0].name, edge.partitioning.value)
        for edge in graph.edges
        if ends[edge.source].operators[-1].name == name
    ]


@pytest.mark.parametrize(("total", "parallelism"), [(1, 4), (4, 4), (None, 4), (2, None)])
def test_all_changes_of_a_key_go_to_one_subtask_of_a_table(total: int | None, parallelism: int | None) -> None:
    value = totals(total=total, parallelism=parallelism)
    assert edges_below(value, "Total") == [("Sink: Table", "HASH")]


def test_changes_of_a_key_stay_together_in_nodes_of_another_parallelism() -> None:
    above = [
        node("filter", "Low", condition="total < 100"),
        node("select", "Sel", columns=[["id", "id"], ["n", "total"]]),
    ]
    assert edges_below(totals(*above, total=1, parallelism=4), "Total") == [("Low", "HASH")]
    assert edges_below(totals(*above, total=1), "Total") == [("Low", "HASH")]
    # at one parallelism rows stay where they are
    for same in (totals(*above, total=4, parallelism=4), totals(*above, parallelism=4), totals(*above)):
        assert edges_below(same, "Sel") == [("Sink: Table", "HASH")]
        assert edges_below(same, "Total") == []
    function = node("python.filter", "Py", code=["def f(row): return True"])
    assert edges_below(totals(node("union", "U"), function, total=1, parallelism=2), "Total") == [("Py", "HASH")]
    # without a table below, as they were
    value = totals(*above, total=1, parallelism=4)
    value["nodes"]["n4"] = node("sink.print", "Print")
    assert edges_below(value, "Total") == [("Low", "REBALANCE")]


def test_a_savepoint_of_a_table_without_keyed_rows_still_fits() -> None:
    program = compiled(totals(total=1, parallelism=4))
    earlier = replace(
        program, source=program.source.replace('    .key_by_columns("id")\n    .sink_to(', "    .sink_to(")
    )
    assert earlier.source != program.source
    graphs = [graph_of(each, "job") for each in (earlier, program)]
    before, after = ({o.operator_id: o for vertex in graph.vertices for o in vertex.operators} for graph in graphs)
    assert before.keys() == after.keys()
    for operator_id, operator in after.items():
        assert operator.declared_states == before[operator_id].declared_states
    (table,) = [operator for operator in after.values() if operator.uid == "table"]
    # the key's type is a question for keyed state only
    assert table.declared_states is not None and not any(state.is_keyed for state in table.declared_states.states)


def test_rows_of_a_table_without_keyable_columns_are_dealt_out_as_before() -> None:
    rows = node("source.inline", "Rows", type=[["id", "list<long>"]], rows=[])
    table = node("sink.postgres", "Table", connection="pg", table="t", mode={"kind": "upsert", "keys": ["id"]})
    assert "key_by" not in compiled(chain(rows, table)).source


# --- names ------------------------------------------------------------------------------------------------------------


WORDS = [["from", "item"], ["to", "cents"], ["match", "id"]]


@pytest.mark.parametrize(
    ("above", "names"),
    [
        (node("select", "S", columns=WORDS), ["from", "to", "match"]),
        (node("with_columns", "W", columns=[["in", "id"], ["out", "id"]]), ["id", "item", "cents", "at", "in", "out"]),
        (node("columns", "C", rename=[["id", "from"]]), ["from", "item", "cents", "at"]),
        (
            node("aggregate", "A", keys=["item"], aggregates=[["is", "sum(id)"], ["total", "sum(cents)"]]),
            ["item", "is", "total"],
        ),
        (
            node(
                "window.aggregate", "A", keys=["item"], window={"kind": "tumbling", "size": "1 h"},
                aggregates=[["n", "sum(id)"], ["and", "sum(cents)"], ["total", "sum(cents)"]],
            ),
            ["item", "n", "and", "total", "window_end"],
        ),
    ],
)  # fmt: skip
def test_columns_named_like_words_of_python_stay_in_their_place(above: Any, names: list[str], tmp_path: Path) -> None:
    program = compiled(chain(orders(), above, node("sink.print", "Show")))
    facts = program.validation.facts["n1", "out"]
    assert isinstance(facts, StreamFacts) and list(facts.columns) == names
    streams = run_with_taps(program, tmp_path)
    assert streams["n1", "out"].get_type() == facts.row
    assert {tuple(batch["names"]) for batch in what_flowed(tmp_path, "n1.out")} == {tuple(names)}


def test_the_code_that_a_node_has_by_default_keeps_its_names(tmp_path: Path) -> None:
    source = node("source.inline", "To euros", type=[["auction", "long"], ["price", "long"]], rows=[[1, 250]])
    mapped = node("python.map", "Map", type=[["auction", "long"], ["euros", "double"]])
    program = compiled(chain(source, mapped, node("sink.print", "Show")))
    assert program.streams["n0", "out"] != "to_euros"
    run_with_taps(program, tmp_path)
    (batch,) = what_flowed(tmp_path, "n1.out")
    assert batch["values"] == ["Row(auction=1, euros=2.5)"]


def test_a_line_of_code_is_one_line_of_the_program() -> None:
    # what splits lines elsewhere, but not in Python's source
    shared = ["a = '\u2028 \x85 \x1c \x0b'", "\x0cb = 1"]
    code = ["def f(row):", "    return (1,)"]
    mapped = node("python.map", "Map", code=code, type=[["a", "long"]])
    program = compiled(chain(orders(), mapped, node("sink.print", "Show"), code=shared))
    lines = program.source.split("\n")
    place = program.source_map.at(lines.index(code[1]) + 1)
    assert place is not None and (place.node, place.code_line) == ("n1", 2)
    names = executed(program)
    assert names["f"].__code__.co_firstlineno == lines.index(code[0]) + 1 and names["b"] == 1
    for ending in ("\n", "\r", "\r\n"):
        with pytest.raises(DocumentError, match="/code/0: must match"):
            read_document(chain(orders(), code=[f"x = 1{ending}"]))
        mapped["params"]["code"] = [code[0] + ending, code[1]]
        value = chain(orders(), mapped)
        (problem,) = compile_pipeline(read_document(value), CATALOG).problems
        assert (problem.code, problem.field) == (Code.BAD_PARAM, "/params/code/0")


# --- literals ---------------------------------------------------------------------------------------------------------


@given(st.text())
def test_texts_stay_in_their_literal(text: str) -> None:
    shown = literal_text(text)
    assert "\n" not in shown and ast.literal_eval(shown) == text
    assert "\n" not in comment_text(text) and "\r" not in comment_text(text)
    assert ast.parse(comment_text(text)).body == []


@given(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.binary())
def test_plain_values_are_themselves(value: Any) -> None:
    made = ast.literal_eval(literal_text(value))
    assert made == value and type(made) is type(value)


def test_what_is_no_plain_value_is_refused() -> None:
    class Text(str):
        def __repr__(self) -> str:
            return "__import__('os')"

    assert literal_text(Text("a")) == '"a"'
    for value in (object(), [1], 1j):
        with pytest.raises(TypeError, match="plain value"):
            literal_text(value)


@pytest.mark.parametrize(
    ("type_info", "value", "message"),
    [
        (Types.LONG(), 2**63, "beyond the range"),
        (Types.LONG(), 1.5, "a whole number"),
        (Types.INT(), True, "a whole number"),
        (Types.STRING(), 1, "a text"),
        (Types.CHAR(), "ab", "one character"),
        (Types.FLOAT(), 1e300, "beyond the range"),
        (Types.SQL_DATE(), "yesterday", "isoformat"),
        (Types.SQL_TIMESTAMP(), "2026-01-01T00:00:00Z", "without a zone"),
        (Types.BIG_DEC(), "x", "a number"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "xy", "hexadecimal"),
        (Types.LIST(Types.LONG()), [1, "x"], "a whole number"),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), {"b": 1}, "no column 'b'"),
        (Types.PICKLED_BYTE_ARRAY(), "x", "cannot be written as Python source"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_refused(type_info: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        value_expr(type_info, value)


def texts_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every text, of keys too."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from texts_in(item, (*path, key))


def with_text(value: Any, path: tuple[Any, ...], text: str) -> Any:
    made = copy.deepcopy(value)
    place = made
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = text
    return made


HOSTILE_TEXTS = (
    HOSTILE,
    "'); import os; os.abort() #",
    '"""\nimport os\nos.abort()\n"""',
    "a\u2028b\x85c\x0cd",
    "{__import__('os').abort()}",
    "\\",
)


def check_hostile(kind: str, texts_of: Any) -> None:
    """Whatever a text parameter is: the pipeline is refused, or the program has calls and literals only."""
    node_type = CATALOG.types[kind]
    calls = {"__import__", "abort", "eval", "exec", "system", "compile", "open"}
    for example in node_type.examples:
        value = example_pipeline(node_type, example)
        for index, path in enumerate(texts_in(value)):
            if path[0] == "format" or "code" in path:
                continue
            for text in texts_of(index):
                try:
                    program = compile_pipeline(read_document(with_text(value, path, text)), CATALOG)
                except DocumentError:
                    continue
                tree = list(ast.walk(ast.parse(program.source)))
                named = {found.id for found in tree if isinstance(found, ast.Name)}
                attributes = {found.attr for found in tree if isinstance(found, ast.Attribute)}
                assert not (named | attributes) & calls, (path, text)
                modules = {found.module or "" for found in tree if isinstance(found, ast.ImportFrom)}
                assert {module.split(".")[0] for module in modules} <= {"runtime", "datetime", "decimal"}
                imported = {alias.name for found in tree if isinstance(found, ast.Import) for alias in found.names}
                assert imported <= IMPORTED_BY_EXAMPLES.get(kind, set()), (path, text)
                assert not [found for found in tree if isinstance(found, ast.JoinedStr)], (path, text)


@pytest.mark.parametrize("kind", sorted(CATALOG.types))
def test_hostile_text_in_any_parameter_never_leaves_its_literal(kind: str) -> None:
    check_hostile(kind, lambda index: [HOSTILE_TEXTS[index % len(HOSTILE_TEXTS)]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(CATALOG.types))
def test_no_hostile_text_leaves_its_literal(kind: str) -> None:
    check_hostile(kind, lambda index: HOSTILE_TEXTS)


def test_hostile_names_and_literals_run_as_what_they_are(tmp_path: Path) -> None:
    rows = [[1, HOSTILE, 2, 3]]
    condition = "item = '" + HOSTILE.replace("'", "''") + "'"
    value = chain(
        orders(rows=rows) | {"name": HOSTILE, "uid": "a"},
        node("filter", "b", condition=condition),
        node("select", "c", columns=[[HOSTILE, "item"], ["self", "id"], ["class", "id"]]),
        node("columns", "d", rename=[[HOSTILE, "plain"]]),
    ) | {"name": HOSTILE}
    program = compiled(value)
    run_with_taps(program, tmp_path)
    (batch,) = what_flowed(tmp_path, "n2.out")
    assert batch["names"] == [HOSTILE, "self", "class"]
    (last,) = what_flowed(tmp_path, "n3.out")
    assert last["values"] == [f"Row(plain={HOSTILE!r}, self=1, class=1)"]
    graph = graph_of(program, HOSTILE)
    assert HOSTILE in graph.vertices[0].name
