"""Asks Flink SQL for the changelogs of Top-N that test_top_n.py compares with. Run by a Python with apache-flink 2.x:

    python tests/operators/columnar/record_top_n_golden.py

Writes goldens/top_n.json: the rows, and for each ORDER BY, without and with the rank, what comes out in order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

GOLDEN = Path(__file__).parent / "goldens" / "top_n.json"
N = 2
ORDERS = ("v DESC", "v ASC", "v DESC, s ASC")
ROWS: list[tuple[str, int | None, str]] = [
    ("a", 1, "x"),
    ("a", 5, "p"),
    ("b", 2, "q"),
    ("a", 3, "r"),
    ("a", 3, "s"),
    ("a", None, "n"),
    ("b", None, "n1"),
    ("b", None, "n2"),
    ("b", None, "n3"),
    ("a", 7, "t"),
    ("a", 5, "u"),
    ("a", 9, "v"),
    ("b", 2, "w"),
    ("a", 9, "v"),
    ("a", 0, "z"),
    ("a", 10, "zz"),
]


def changelog(table_env: Any, order: str, rank: str) -> list[str]:
    """The rows that come out, each as its kind and its values."""
    numbered = f"SELECT k, v, s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM src"
    query = f"SELECT k, v, s{rank} FROM ({numbered}) WHERE rn <= {N}"
    with table_env.execute_sql(query).collect() as rows:
        return [f"{row.get_row_kind()} {tuple(row)!r}" for row in rows]


def main() -> None:
    """Ask Flink and write the file."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    table_env = StreamTableEnvironment.create(env)
    row_type = Types.ROW_NAMED(["k", "v", "s"], [Types.STRING(), Types.LONG(), Types.STRING()])
    table_env.create_temporary_view("src", env.from_collection(ROWS, row_type))
    golden = {
        "n": N,
        "rows": [repr(row) for row in ROWS],
        "changelogs": [
            {"order": order, "ranked": bool(rank), "changes": changelog(table_env, order, rank)}
            for order in ORDERS
            for rank in ("", ", rn")
        ],
    }
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
