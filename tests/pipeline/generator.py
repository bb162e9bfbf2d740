"""Makes pipelines at random: of any size, always right, with the node types that a test asks for.

A pipeline grows from its sources down. For each node an output is chosen on which the type makes sense, and parameters
are drawn that fit its columns.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from runtime.pipeline import Catalog, StreamFacts, read_document, validate

START = 1_700_000_000_000
_TYPE = [["id", "long"], ["price", "long"], ["word", "string"], ["at", "long"], ["ratio", "double"]]
_WINDOWS = (
    {"kind": "tumbling", "size": "10 s"},
    {"kind": "tumbling", "size": "1 min", "offset": "5 s"},
    {"kind": "sliding", "size": "20 s", "slide": "5 s"},
    {"kind": "cumulative", "max": "1 min", "step": "10 s"},
    {"kind": "session", "gap": "7 s"},
)
Place = tuple[str, str]
#: types that need a server when the pipeline runs: without one, a pipeline with them is compiled only
SERVERS = frozenset(
    {
        *("source.socket", "source.redis_streams", "source.postgres", "source.kafka", "join.lookup"),
        *("sink.postgres", "sink.redis_streams", "sink.kafka"),
    }
)


class Grown:
    """A pipeline that grows.

    Args:
        draw: where choices come from.
        catalog: of the types.
        directory: for files of sources and sinks.
        by_clock: whether there may be windows of processing time, whose results differ from run to run.
    """

    def __init__(self, draw: random.Random, catalog: Catalog, directory: Path, by_clock: bool = True) -> None:
        self.draw = draw
        self.by_clock = by_clock
        self.catalog = catalog
        self.directory = directory
        self.nodes: dict[str, Any] = {}
        self.edges: dict[str, Any] = {}
        self.facts: dict[Place, StreamFacts] = {}
        self.settings: dict[str, Any] = {"parallelism": draw.choice([1, 2])}
        if draw.random() < 0.3:
            self.settings["checkpointing"] = {"interval": "10 s"}

    def document(self) -> dict[str, Any]:
        return copy.deepcopy(
            {
                "format": "tidemark.pipeline",
                "version": 1,
                "name": "Grown",
                "settings": self.settings,
                "nodes": self.nodes,
                "edges": self.edges,
            }
        )

    def add(self, node_type: str, params: dict[str, Any], inputs: list[tuple[str, Place]]) -> str:
        """Add a node, and look at what it makes of its inputs."""
        node_id = f"n{len(self.nodes):03}"
        self.nodes[node_id] = {
            "type": node_type,
            "name": f"{node_type} {len(self.nodes)}",
            "uid": f"uid-{node_id}",
            "params": params,
        }
        if self.draw.random() < 0.1 and self.catalog.types[node_type].is_parallel:
            self.nodes[node_id]["parallelism"] = self.draw.choice([1, 2])
        for port, (source, source_port) in inputs:
            edge: dict[str, Any] = {"from": [source, source_port], "to": [node_id, port]}
            if self.draw.random() < 0.1:
                edge["partitioning"] = self.draw.choice(["rebalance", "rescale", "shuffle", "global"])
            self.edges[f"e{len(self.edges):03}"] = edge
        validation = validate(read_document(self.document()), self.catalog)
        errors = [problem for problem in validation.problems if problem.is_blocking]
        assert not errors, (node_type, params, errors)
        for output in validation.ports[node_id].outputs:
            facts = validation.facts[node_id, output.name]
            assert isinstance(facts, StreamFacts)
            self.facts[node_id, output.name] = facts
        return node_id

    # --- what there is ------------------------------------------------------------------------------------------------

    def outputs(self, **wanted: Any) -> list[Place]:
        """Return outputs with rows, at least one plain column to key by, and these facts."""
        found = []
        for place, facts in self.facts.items():
            fits = all(getattr(facts, name) == value for name, value in wanted.items())
            if facts.row_type is not None and self.keys(facts) and fits:
                found.append(place)
        return found

    def keys(self, facts: StreamFacts) -> list[str]:
        return [name for name, kind in facts.columns.items() if kind.type_string() in ("long", "string", "int")]

    def numbers(self, facts: StreamFacts) -> list[str]:
        return [name for name, kind in facts.columns.items() if kind.type_string() in ("long", "double", "int")]

    def some(self, items: list[str], most: int = 2) -> list[str]:
        return self.draw.sample(items, self.draw.randint(1, min(most, len(items))))

    def number(self, facts: StreamFacts) -> str:
        """Return an expression of a number."""
        numbers = self.numbers(facts)
        if not numbers:
            return "1"
        column = _quoted(self.draw.choice(numbers))
        return self.draw.choice([column, f"{column} + 1", f"{column} * 2.5", f"COALESCE({column}, 0)"])

    def condition(self, facts: StreamFacts) -> str:
        number = self.number(facts)
        return self.draw.choice([f"{number} > 3", f"({number}) IS NOT NULL", f"NOT ({number} < 0)", "1 = 1"])

    def aggregates(self, facts: StreamFacts) -> list[list[str]]:
        numbers = self.numbers(facts)
        made = [["n", "count(*)"]]
        if numbers:
            column = _quoted(self.draw.choice(numbers))
            made.append(
                ["agg", self.draw.choice([f"sum({column})", f"max({column})", f"avg({column})", f"last({column})"])]
            )
        if self.draw.random() < 0.3 and numbers:
            made.append(["odd name", f"count(*) FILTER (WHERE {_quoted(numbers[0])} > 2)"])
        return made

    # --- nodes --------------------------------------------------------------------------------------------------------

    def source(self, kind: str | None = None) -> str:
        kind = kind or self.draw.choice(["source.inline", "source.generator", "source.nexmark", "source.files"])
        time = {"kind": "column", "column": "at", "bound": self.draw.choice(["0 s", "2 s"])}
        if kind == "source.inline":
            rows = [self.row(index) for index in range(self.draw.randint(0, 40))]
            timed = {"time": time} if self.draw.random() < 0.7 else {}
            return self.add(kind, {"type": _TYPE, "rows": rows, **timed}, [])
        if kind == "source.generator":
            fields = [
                ["id", self.draw.choice([{"kind": "int", "low": 0, "high": 5}, {"kind": "zipf", "count": 5}])],
                ["price", {"kind": "int", "low": 0, "high": 9, "nulls": self.draw.choice([0, 0.2])}],
                ["word", self.words()],
                ["at", {"kind": "sequence", "start": START}],
                ["ratio", {"kind": "float"}],
            ]
            if self.draw.random() < 0.3:
                fields += [["yes", {"kind": "bool"}], ["when", {"kind": "times", "jitter": "3 s", "late_share": 0.1}]]
            return self.add(kind, {"fields": fields, "count": self.draw.randint(1, 60), "time": time}, [])
        if kind == "source.replay":
            return self.add(kind, self.replay(), [])
        if kind in SERVERS:
            return self.add(kind, self.of_server(kind, time), [])
        if kind == "source.nexmark":
            params = {"kind": self.draw.choice(["bids", "auctions", "persons"]), "events": self.draw.randint(1, 300)}
            return self.add(kind, {**params, "event_time_rate": 10}, [])
        return self.add(kind, self.files(time), [])

    def of_server(self, kind: str, time: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a source that asks a server."""
        draw = self.draw
        if kind == "source.postgres":
            made: dict[str, Any] = {"connection": "pg-main", "table": draw.choice(["orders", 'shop."odd name"'])}
            made |= {"type": _TYPE, "where": draw.choice([None, "price > 3"]), "time": time}
            return {**made, "split_column": draw.choice([None, "id"]), "rows_per_second": draw.choice([None, 10])}
        more = {
            "source.redis_streams": {"entry"},
            "source.kafka": {"csv", "avro", "record", "avro_confluent", "json_confluent"},
        }
        formats = {"ndjson", "text"} | more.get(kind, set())
        chosen = draw.choice(sorted(formats))
        made = {"format": {"kind": chosen}, "bad": draw.choice(["fail", "skip", "dead_letters"])}
        if chosen in ("ndjson", "csv", "avro_confluent", "json_confluent"):
            made |= {"type": _TYPE, "time": draw.choice([time, {"kind": "none"}])}
        if kind == "source.socket":
            return {**made, "host": "localhost", "port": 9_999, "delimiter": draw.choice(["\n", "\r\n", ";"])}
        if draw.random() < 0.3:
            made["time"] = {"kind": "own", "bound": "1 s"}
        if kind == "source.kafka":
            return made | self.of_kafka(chosen)
        made |= {"connection": "redis-main", "streams": draw.choice([["orders"], ["a", "b:{c}"]])}
        return {**made, "bounded": draw.choice([True, False]), "start": draw.choice(["earliest", "latest"])}

    def of_kafka(self, chosen: str) -> dict[str, Any]:
        """Return the parameters of a source of Kafka with a format."""
        draw = self.draw
        made: dict[str, Any] = {"connection": "kafka-main", "group": draw.choice([None, "g"])}
        topics = [{"kind": "names", "names": ["a", "b.c"]}, {"kind": "pattern", "pattern": "a.*"}]
        starts = [{"kind": "earliest"}, {"kind": "latest"}, {"kind": "timestamp", "at": 7}]
        ends = [{"kind": "never"}, {"kind": "latest"}, {"kind": "timestamp", "at": 8}]
        made |= {"topics": draw.choice(topics), "start": draw.choice(starts), "end": draw.choice(ends)}
        made |= {"discovery": draw.choice(["5 min", "0 s", "1 s"])}
        if made["group"] is not None and draw.random() < 0.5:
            made["start"] = {"kind": "group", "otherwise": draw.choice(["earliest", "latest", "fail"])}
        if chosen == "record":
            made["bad"] = "fail"
        if chosen.endswith("confluent"):
            made["format"] = {"kind": chosen, "registry": "schemas"}
        if chosen == "avro":
            described = [{"name": name, "type": "long"} for name in ("id", "price")]
            made["format"] = {
                "kind": "avro",
                "schema": json.dumps({"type": "record", "name": "r", "fields": described}),
            }
        return made

    def words(self) -> dict[str, Any]:
        """Return a generator of texts."""
        part = {"kind": "choice", "values": ["a", "b"], "weights": self.draw.choice([None, [1, 3]])}
        template = {"kind": "template", "text": "{index}-{n}", "fields": [["n", part]]}
        return self.draw.choice([{"kind": "text", "length": 2}, part, template])

    def replay(self) -> dict[str, Any]:
        """Return the parameters of a replay of a small file: the flights are many for a test of hundreds."""
        rows = [self.row(index) for index in range(self.draw.randint(1, 40))]
        path = self.directory / f"replay{len(self.nodes)}-{self.draw.randrange(10**9)}.ndjson"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        recording = {"kind": "files", "paths": [str(path)], "type": _TYPE, "time_column": "at"}
        return {"recording": recording, "speed": self.draw.choice([None, 100]), "bound": "2 s"}

    def row(self, index: int) -> dict[str, Any]:
        draw = self.draw
        return {
            "id": draw.randint(0, 4),
            "price": draw.choice([None, draw.randint(-5, 100)]),
            "word": draw.choice(["a", "it's", 'q"q', "ä\u202e", "", "{x}", "\\n"]),
            "at": START + index * 1_000 + draw.randint(-1_500, 0),
            "ratio": draw.choice([0.5, 1, -2.25]),
        }

    def files(self, time: dict[str, Any]) -> dict[str, Any]:
        rows = [self.row(index) for index in range(self.draw.randint(1, 40))]
        folder = self.directory / f"in{len(self.nodes)}-{self.draw.randrange(10**9)}"
        folder.mkdir()
        kinds = ("ndjson", "csv", "parquet", "text")
        kind = self.draw.choice(kinds)
        declared: list[list[str]] | None = _TYPE
        if kind == "ndjson":
            (folder / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif kind == "text":
            (folder / "a.txt").write_text("".join(json.dumps(row) + "\n" for row in rows))
            declared = None
        else:
            columns = {name: [row[name] for row in rows] for name, _ in _TYPE}
            columns["ratio"] = [float(value) for value in columns["ratio"]]
            if kind == "csv":
                columns["word"] = ["plain"] * len(rows)
            types = {"long": pa.int64(), "string": pa.string(), "double": pa.float64()}
            table = pa.table({name: pa.array(columns[name], types[text]) for name, text in _TYPE})
            if kind == "csv":
                pyarrow.csv.write_csv(table, folder / "a.csv")
            else:
                pyarrow.parquet.write_table(table, folder / "a.parquet")
        bad = self.draw.choice(["fail", "skip", "dead_letters"]) if kind in ("ndjson", "csv") else "fail"
        made = {"paths": [str(folder)], "format": {"kind": kind}, "bad": bad}
        return {**made, "type": declared, "time": time} if declared else made

    def grow(self, kind: str) -> str | None:
        """Add a node of a type; None if there is nowhere to put it."""
        if kind.startswith("source."):
            return self.source(kind)
        maker = getattr(self, "_" + kind.replace(".", "_"))
        made: str | None = maker(kind)
        return made

    def _on(self, kind: str, params: Any, places: list[Place]) -> str | None:
        """Add a node with one input."""
        if not places:
            return None
        place = self.draw.choice(places)
        made = params(self.facts[place])
        return None if made is None else self.add(kind, made, [("in", place)])

    def _timed(self) -> list[Place]:
        return self.outputs(changelog="append", event_time=True, watermarks=True)

    def _filter(self, kind: str) -> str | None:
        return self._on(kind, lambda facts: {"condition": self.condition(facts)}, self.outputs())

    def _select(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            kept = [[name, _quoted(name)] for name in facts.columns]
            added = [[self.draw.choice(["made", "odd name", "self", "class"]), self.number(facts)]]
            names = {name for name, _ in kept}
            return {"columns": kept + [pair for pair in added if pair[0] not in names]}

        return self._on(kind, params, self.outputs())

    def _with_columns(self, kind: str) -> str | None:
        return self._on(kind, lambda facts: {"columns": [["more", self.number(facts)]]}, self.outputs())

    def _columns(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            names = list(facts.columns)
            renamed = self.draw.choice(names)
            made: dict[str, Any] = {"rename": [[renamed, f"{renamed}_x"]] if f"{renamed}_x" not in names else []}
            keys = set(self.keys(facts))
            if len(names) > 2:
                made["drop"] = [name for name in names if name not in keys and name != renamed][:1]
            made["cast"] = [[name, "string"] for name in self.numbers(facts)[:1] if name not in made.get("drop", [])]
            return made

        return self._on(kind, params, self.outputs())

    def _unnest(self, kind: str) -> str | None:
        places = self._timed()
        if not places:
            return None
        listed = self._on(
            "window.aggregate",
            lambda facts: {
                "keys": self.keys(facts)[:1],
                "window": {"kind": "tumbling", "size": "10 s"},
                "aggregates": [["items", f"collect({_quoted(self.keys(facts)[0])})"]],
            },
            places,
        )
        if listed is None:
            return None
        return self.add(kind, {"column": "items", "alias": self.draw.choice([None, "item"])}, [("in", (listed, "out"))])

    def _parse_json(self, kind: str) -> str | None:
        places = [
            place for place in self.outputs() if not {"json", "made", "one", "two"} & self.facts[place].columns.keys()
        ]
        written = self._on("to_json", lambda facts: {"alias": "json"}, places)
        if written is None:
            return None
        kept = self.draw.choice(self.keys(self.facts[written, "out"]))
        params: dict[str, Any] = {
            "column": "json",
            "type": [["one" if kept == "json" else kept, "string"], ["two", "long"]],
            "alias": "made",
            "bad": self.draw.choice(["fail", "null", "skip", "dead_letters"]),
        }
        if self.draw.random() < 0.5:
            params |= {"type": [["one", "string"], ["two", "long"]], "alias": None}
        return self.add(kind, params, [("in", (written, "out"))])

    def _to_json(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            chosen = self.draw.choice([[], self.some(list(facts.columns))])
            return {"alias": self.draw.choice(["json", "odd name"]), "columns": chosen}

        return self._on(kind, params, self.outputs())

    def _split(self, kind: str) -> str | None:
        return self._on(
            kind,
            lambda facts: {
                "branches": [["first", self.condition(facts)], ["second", self.condition(facts)]],
                "rest": self.draw.choice([True, False]),
            },
            self.outputs(),
        )

    def _union(self, kind: str) -> str | None:
        places = self.outputs()
        if not places:
            return None
        first = self.draw.choice(places)
        alike = [place for place in places if self.facts[place].columns == self.facts[first].columns and place != first]
        others = self.draw.sample(alike, min(len(alike), 2))
        return self.add(kind, {}, [("in", first), *(("in", place) for place in others)])

    def _time_watermark(self, kind: str) -> str | None:
        places = [place for place in self.outputs() if "at" in self.facts[place].columns]
        places = [place for place in places if self.facts[place].columns["at"].type_string() == "long"]
        return self._on(
            kind,
            lambda facts: {"column": "at", "bound": "1 s", "null_times": self.draw.choice(["fail", "drop"])},
            [place for place in places if self.facts[place].changelog == "append"],
        )

    def _window_aggregate(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any] | None:
            keys = self.some(
                [key for key in self.keys(facts) if key not in ("window_end", "window_start", "n", "agg")] or ["?"]
            )
            if keys == ["?"]:
                return None
            made: dict[str, Any] = {
                "keys": keys,
                "window": self.draw.choice(_WINDOWS),
                "aggregates": [pair for pair in self.aggregates(facts) if pair[0] not in keys],
                "window_start": self.draw.choice([True, False]),
                "lateness": self.draw.choice(["0 s", "3 s"]),
                "late_output": self.draw.choice([True, False]),
            }
            if made["window"]["kind"] != "session" and self.draw.random() < 0.2:
                made["early"] = self.draw.choice(["5 s", "4 s"])
            if self.draw.random() < 0.2:
                made |= {"keys": [], "late_output": False}
            if self.by_clock and self.draw.random() < 0.2:
                made |= {"time": "processing", "window": self.draw.choice(_WINDOWS[:3]), "lateness": "0 s"}
                made["late_output"] = False
            return made

        return self._on(kind, params, self._timed())

    def _order(self, facts: StreamFacts) -> list[dict[str, Any]]:
        count = self.draw.choice([1, 2])
        return [{"expression": self.number(facts), "descending": self.draw.choice([True, False])} for _ in range(count)]

    def _window_top_n(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any] | None:
            if {"window_start", "window_end", "place"} & facts.columns.keys():
                return None
            keys = self.draw.choice([[], self.some(self.keys(facts))])
            return {
                "keys": keys,
                "window": self.draw.choice(_WINDOWS[:4]),
                "n": self.draw.choice([1, 3]),
                "by": self._order(facts),
                "rank": self.draw.choice([None, "place"]),
                "with_window": self.draw.choice([True, False]),
                "late_output": bool(keys) and self.draw.choice([True, False]),
            }

        return self._on(kind, params, self._timed())

    def _aggregate(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            keys = self.some(self.keys(facts))
            return {
                "keys": keys,
                "aggregates": [pair for pair in self.aggregates(facts) if pair[0] not in keys] or [["n2", "count(*)"]],
            }

        return self._on(kind, params, self.outputs(changelog="append"))

    def _deduplicate(self, kind: str) -> str | None:
        return self._on(
            kind,
            lambda facts: {
                "keys": self.some(self.keys(facts)),
                "keep": self.draw.choice(["first", "last"]),
                "ttl": self.draw.choice([None, "1 h"]),
            },
            self.outputs(changelog="append"),
        )

    def _top_n(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any] | None:
            if "place" in facts.columns:
                return None
            rank = self.draw.choice([None, "place"])
            return {"keys": self.some(self.keys(facts)), "n": 2, "by": self._order(facts), "rank": rank, "ttl": "1 d"}

        return self._on(kind, params, self.outputs(changelog="append"))

    def _sides(self) -> tuple[Place, Place, str, str] | None:
        """Return two streams with a key of the same type."""
        places = self._timed()
        self.draw.shuffle(places)
        for left in places:
            for right in places:
                for one, kind in self.facts[left].columns.items():
                    for other, other_kind in self.facts[right].columns.items():
                        if kind == other_kind and one in self.keys(self.facts[left]):
                            return left, right, one, other
        return None

    def _join_window(self, kind: str) -> str | None:
        sides = self._sides()
        if sides is None:
            return None
        left, right, one, other = sides
        names = {*self.facts[left].columns, *self.facts[right].columns}
        params = {
            "left_keys": [one],
            "right_keys": [other],
            "window": self.draw.choice(_WINDOWS[:2]),
            "how": self.draw.choice(["inner", "left", "right", "full"]),
            "suffix": f"_r{len(self.nodes)}",
            "with_window": not {"window_start", "window_end"} & names and self.draw.choice([True, False]),
        }
        return self.add(kind, params, [("left", left), ("right", right)])

    def _join_interval(self, kind: str) -> str | None:
        sides = self._sides()
        if sides is None:
            return None
        left, right, one, other = sides
        params = {
            "left_keys": [one],
            "right_keys": [other],
            "lower": self.draw.choice(["-2 s", "0 s"]),
            "upper": self.draw.choice(["0 s", "3 s"]),
            "lower_exclusive": self.draw.choice([True, False]),
            "how": self.draw.choice(["inner", "inner", "left", "right", "full"]),
            "suffix": f"_r{len(self.nodes)}",
            "late_outputs": self.draw.choice([True, False]),
        }
        return self.add(kind, params, [("left", left), ("right", right)])

    def _join_version(self, kind: str) -> str | None:
        sides = self._sides()
        if sides is None:
            return None
        left, right, one, other = sides
        params = {
            "left_keys": [one],
            "right_keys": [other],
            "left_outer": self.draw.choice([True, False]),
            "suffix": f"_r{len(self.nodes)}",
            "late_output": self.draw.choice([True, False]),
        }
        return self.add(kind, params, [("left", left), ("versions", right)])

    def _join_lookup(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            return {
                "connection": "pg-main",
                "table": "sellers",
                "on": [[name, f"{name} of seller"] for name in self.some(self.keys(facts))],
                "type": self.draw.choice([[["seller", "string"]], [["seller", "string"], ["id", "long"]]]),
                "suffix": f"_r{len(self.nodes)}",
                "left": self.draw.choice([True, False]),
                "cache_rows": self.draw.choice([0, 10_000]),
                "cache_ttl": self.draw.choice(["1 min", "5 s"]),
            }

        return self._on(kind, params, self.outputs(changelog="append"))

    def _python_map(self, kind: str) -> str | None:
        name = f"mapped_{len(self.nodes)}"
        code = [f"def {name}(row):", f"    return (len(str(row)), {name!r})"]
        params = {"code": code, "type": [["id", "long"], ["word", "string"]], "changelog": "rows"}
        return self._on(kind, lambda facts: params, self.outputs())

    def _python_flat_map(self, kind: str) -> str | None:
        name = f"flat_{len(self.nodes)}"
        code = [f"def {name}(row):", "    yield (1, 'x')", "    yield (2, None)"]
        params = {"code": code, "type": [["id", "long"], ["word", "string"]], "changelog": "rows"}
        return self._on(kind, lambda facts: params, self.outputs())

    def _python_filter(self, kind: str) -> str | None:
        name = f"kept_{len(self.nodes)}"
        return self._on(kind, lambda facts: {"code": [f"{name} = lambda row: True"], "function": name}, self.outputs())

    def _python_process(self, kind: str) -> str | None:
        name, tag = f"Counted{len(self.nodes)}", f"SIDE_{len(self.nodes)}"
        has_side = self.draw.choice([True, False])
        code = [
            "from runtime.common import Types",
            "from runtime.datastream import KeyedProcessFunction, OutputTag",
            "from runtime.datastream.state import ValueStateDescriptor",
            "",
            f"{tag} = OutputTag('side', Types.ROW_NAMED(['number', 'text'], [Types.LONG(), Types.STRING()]))",
            "",
            f"class {name}(KeyedProcessFunction):",
            "    def open(self, runtime_context):",
            "        self.seen = runtime_context.get_state(ValueStateDescriptor('seen', Types.LONG()))",
            "    def process_element(self, value, ctx):",
            "        self.seen.update((self.seen.value() or 0) + 1)",
            "        yield self.seen.value(), str(ctx.get_current_key())",
            *([f"        yield {tag}, (self.seen.value(), 'side')"] if has_side else []),
        ]
        params = {
            "code": code,
            "type": [["id", "long"], ["word", "string"]],
            "side_outputs": [{"tag": tag, "type": [["number", "long"], ["text", "string"]]}] if has_side else [],
            "changelog": "rows",
        }
        return self._on(kind, lambda facts: {**params, "keys": self.some(self.keys(facts))}, self.outputs())

    def _python_async(self, kind: str) -> str | None:
        name, retry = f"Asked{len(self.nodes)}", f"AGAIN_{len(self.nodes)}"
        code = [
            "from runtime.datastream import AsyncFunction, AsyncRetryStrategy",
            "",
            f"{retry} = AsyncRetryStrategy.fixed_delay(1, 1, None, lambda error: False)",
            "",
            f"class {name}(AsyncFunction):",
            "    async def async_invoke(self, value):",
            "        return [(1, 'asked'), (2, None)]",
        ]
        params = {
            "code": code,
            "type": [["id", "long"], ["word", "string"]],
            "ordered": self.draw.choice([True, False]),
            "capacity": self.draw.choice([1, 100]),
            "retry": self.draw.choice([None, retry]),
        }
        return self._on(kind, lambda facts: params, self.outputs(changelog="append"))

    def _python_stream(self, kind: str) -> str | None:
        places = self.outputs(changelog="append")
        if not places:
            return None
        inputs = {name: self.draw.choice(places) for name in self.draw.choice([["a"], ["a", "b"]])}
        name, outputs = f"built_{len(self.nodes)}", self.draw.choice([["out"], ["first", "second"]])
        code = [
            "from runtime.common import Types",
            "",
            f"def {name}(env, {', '.join(inputs)}):",
            "    made = Types.ROW_NAMED(['id', 'word'], [Types.LONG(), Types.STRING()])",
            *(f"    {each} = {each}.map(lambda row: (len(str(row)), {each!r}), made)" for each in inputs),
            f"    joined = a.union({', '.join(list(inputs)[1:])})" if len(inputs) > 1 else "    joined = a",
            f"    return {'joined' if len(outputs) == 1 else 'joined, a'}",
        ]
        columns = [["id", "long"], ["word", "string"]]
        params = {
            "inputs": list(inputs),
            "outputs": [{"name": output, "type": columns} for output in outputs],
            "code": code,
        }
        return self.add(kind, params, list(inputs.items()))

    def _window_python(self, kind: str) -> str | None:
        keys_or_all = self.draw.choice(["keys", "keys", "all"])
        method = self.draw.choice(["process", "aggregate"])
        name = f"Windowed{len(self.nodes)}"
        key = "key, " if keys_or_all == "keys" else ""
        base = {"process": f"Process{'' if key else 'All'}WindowFunction", "aggregate": "AggregateFunction"}[method]
        methods = {
            "process": [
                f"    def process(self, {key}context, elements):",
                "        yield len(list(elements)), 'window'",
            ],
            "aggregate": [
                "    def create_accumulator(self):",
                "        return 0",
                "    def add(self, value, accumulator):",
                "        return accumulator + 1",
                "    def get_result(self, accumulator):",
                "        return accumulator, 'window'",
                "    def merge(self, acc_a, acc_b):",
                "        return acc_a + acc_b",
            ],
        }[method]
        params: dict[str, Any] = {
            "window": self.draw.choice(_WINDOWS),
            "code": [f"from runtime.datastream import {base}", "", f"class {name}({base}):", *methods],
            "method": method,
            "type": [["id", "long"], ["word", "string"]],
            "lateness": self.draw.choice(["0 s", "3 s"]),
            "late_output": self.draw.choice([True, False]),
        }
        if self.by_clock and self.draw.random() < 0.2:
            params |= {"time": "processing", "window": self.draw.choice([*_WINDOWS[:3], _WINDOWS[4]])}
            params |= {"lateness": "0 s", "late_output": False}
        return self._on(
            kind,
            lambda facts: {**params, "keys": self.some(self.keys(facts)) if key else []},
            self._timed(),
        )

    def _python_frames(self, kind: str) -> str | None:
        name = f"framed_{len(self.nodes)}"
        params: dict[str, Any] = {"code": [f"def {name}(frame):", "    return frame"]}
        if self.draw.random() < 0.5:
            chosen = "    return frame.select('event_time', id=pl.lit(1), word=pl.lit('x'))"
            params = {"code": ["import polars as pl", f"def {name}(frame):", chosen], "rows": "any"}
            params["type"] = [["id", "long"], ["word", "string"]]
        places = [place for place in self.outputs(changelog="append") if "event_time" not in self.facts[place].columns]
        return self._on(kind, lambda facts: params, places)

    def _python_co_process(self, kind: str) -> str | None:
        sides = self._sides()
        if sides is None:
            return None
        left, right, one, other = sides
        name = f"Both{len(self.nodes)}"
        code = [
            "from runtime.datastream import KeyedCoProcessFunction",
            "",
            f"class {name}(KeyedCoProcessFunction):",
            "    def process_element1(self, value, ctx):",
            "        yield 1, str(ctx.get_current_key())",
            "    def process_element2(self, value, ctx):",
            "        yield 2, str(ctx.get_current_key())",
        ]
        params = {"left_keys": [one], "right_keys": [other], "code": code, "type": [["id", "long"], ["word", "string"]]}
        return self.add(kind, params, [("left", left), ("right", right)])

    def _python_broadcast(self, kind: str) -> str | None:
        places = self._timed()
        if not places:
            return None
        stream, rules = self.draw.choice(places), self.draw.choice(places)
        keys = self.draw.choice([[], self.some(self.keys(self.facts[stream]))])
        name, state = f"Ruled{len(self.nodes)}", f"STATE_{len(self.nodes)}"
        code = [
            "from runtime.common import Types",
            "from runtime.datastream import BroadcastProcessFunction, KeyedBroadcastProcessFunction",
            "from runtime.datastream.state import MapStateDescriptor",
            "",
            f"{state} = MapStateDescriptor('rules', Types.LONG(), Types.STRING())",
            "",
            f"class {name}({'Keyed' if keys else ''}BroadcastProcessFunction):",
            "    def process_element(self, value, ctx):",
            # which rules are there already is a matter of timing
            f"        yield 1, str(ctx.get_broadcast_state({state}).get(1) in (None, 'a rule'))",
            "    def process_broadcast_element(self, value, ctx):",
            f"        ctx.get_broadcast_state({state}).put(1, 'a rule')",
            "        return []",
        ]
        params = {"keys": keys, "states": [state], "code": code, "type": [["id", "long"], ["word", "string"]]}
        return self.add(kind, params, [("in", stream), ("rules", rules)])

    def _sink_print(self, kind: str) -> str | None:
        return self._on(kind, lambda facts: {"label": self.draw.choice([None, "out"])}, list(self.facts))

    def _sink_blackhole(self, kind: str) -> str | None:
        places = [place for place, facts in self.facts.items()]
        return self._on(kind, lambda facts: {}, places)

    def _sink_postgres(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any] | None:
            modes: list[dict[str, Any]] = [{"kind": "append"}, {"kind": "exactly_once"}]
            if facts.changelog == "retract":
                if facts.unique_key is None:
                    return None
                modes = [{"kind": "upsert", "keys": list(facts.unique_key)}]
            else:
                modes.append({"kind": "upsert", "keys": self.some(self.keys(facts))})
            return {"connection": "pg-main", "table": "results", "mode": self.draw.choice(modes)}

        return self._on(kind, params, self.outputs())

    def _sink_redis_streams(self, kind: str) -> str | None:
        params = {
            "connection": "redis-main",
            "streams": self.draw.choice([["alarms"], ["a", "b"]]),
            "value_field": self.draw.choice(["value", "odd name"]),
            "max_length": self.draw.choice([None, 1_000]),
        }
        return self._on(kind, lambda facts: params, self.outputs(changelog="append"))

    def _sink_kafka(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            draw, columns = self.draw, list(facts.columns)
            keys = [{"kind": "none"}, {"kind": "text", "column": columns[0]}, {"kind": "json", "columns": columns[:2]}]
            once = {"kind": "exactly_once", "prefix": "p", "transaction_timeout": draw.choice([None, "14 min"])}
            guarantees = [{"kind": "none"}, {"kind": "at_least_once"}, once]
            made = {"connection": "kafka-main", "topic": draw.choice(["a", "b.c"])}
            return {**made, "key": draw.choice(keys), "guarantee": draw.choice(guarantees)}

        return self._on(kind, params, self.outputs(changelog="append"))

    def _sink_files(self, kind: str) -> str | None:
        def params(facts: StreamFacts) -> dict[str, Any]:
            nested = any("<" in column.type_string() for column in facts.columns.values())
            kinds = ["ndjson", "parquet"] if nested else ["ndjson", "csv", "parquet"]
            path = self.directory / f"out{len(self.nodes)}-{self.draw.randrange(10**9)}"
            return {"path": str(path), "format": {"kind": self.draw.choice(kinds)}}

        return self._on(kind, params, self.outputs(changelog="append"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def grown(
    draw: random.Random, catalog: Catalog, directory: Path, wanted: str | None = None, by_clock: bool = True
) -> dict[str, Any]:
    """Return a pipeline at random, with a node of a type if one is wanted."""
    pipeline = Grown(draw, catalog, directory, by_clock)
    pipeline.source()
    if draw.random() < 0.5:
        pipeline.source()
    kinds = [kind for kind in catalog.types if not kind.startswith("source.") and kind not in SERVERS]
    for _ in range(draw.randint(0, 5)):
        pipeline.grow(draw.choice(kinds))
    if wanted is not None and pipeline.grow(wanted) is None:
        # a source on which everything makes sense; the draw may still fall on another stream
        pipeline.source("source.generator")
        assert any(pipeline.grow(wanted) is not None for _ in range(20)), wanted
    if wanted in SERVERS:
        for _ in range(2):
            pipeline.grow(draw.choice(kinds))
    pipeline.grow("sink.print")
    return pipeline.document()
