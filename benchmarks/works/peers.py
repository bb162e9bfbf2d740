"""`--peers`: our jobs beside other engines over the same files.

Before a peer is timed, it runs once over a small file with its results written out, and they are compared with those of
the loops by hand; timed, it throws them away, while ours are digested.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from benchmarks.bids import ndjson_bids
from benchmarks.digest import EMPTY, Digest, digest_of, digest_of_numbers
from benchmarks.engine import results_directory
from benchmarks.measure import TIDEMARK, Options, Outcome, Run, Target, Work, WrongResultError
from benchmarks.reference import bid_loops, json_loops
from benchmarks.works.bids import NDJSON_ROWS, QUICK_ROWS, TEXTS, run_bids
from benchmarks.works.state import NDJSON_ROWS as STATE_ROWS
from benchmarks.works.state import run_count_auctions

PROGRAMS = Path(__file__).resolve().parent.parent / "peers"
SMALL_ROWS = 50_000
#: for engines that call Python for each record: some 3 µs in Bytewax, 40 in its windows, 80 in PyFlink
PYTHON_ROWS, BYTEWAX_WINDOW_ROWS = 300_000, 50_000
FLINK_SQL, PYFLINK, SPARK, BYTEWAX = "flink sql", "pyflink", "spark streaming", "bytewax"
TIMES_FLINK_SQL = 2.0
TIMES_PYFLINK = 20.0
REPEATS = 3
TIMEOUT_S = 900


class Peer(NamedTuple):
    """An engine that can be run."""

    interpreter: str
    program: str

    def run(self, work: str, path: Path, sink: str, slots: int) -> float:
        """Seconds.

        Raises:
            subprocess.CalledProcessError: the program failed.
        """
        command = [self.interpreter, str(PROGRAMS / self.program), work, str(path), sink, str(slots)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=PROGRAMS)
        if done.returncode:
            raise RuntimeError(f"{self.program} {work} failed: {done.stderr[-2000:]}")
        return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


def peer_works(options: Options) -> list[Work]:
    """Works with those peers that there are; none without `--peers`."""
    if not options.peers:
        return []
    peers = {SPARK: Peer(sys.executable, "spark_streaming.py")}
    if options.flink_python is not None:
        peers[FLINK_SQL] = Peer(options.flink_python, "flink_sql.py")
    if options.bytewax_python is not None:
        peers[BYTEWAX] = Peer(options.bytewax_python, "bytewax_bids.py")
    rows = options.rows(NDJSON_ROWS, QUICK_ROWS)
    bids = partial(ndjson_bids, options.directory, rows)
    works = []
    for name, text in TEXTS.items():
        contestants: dict[str, Run] = {TIDEMARK: partial(run_bids, name, bids, rows, options.slots, options.execution)}
        for engine, peer in peers.items():
            contestants[engine] = partial(_run_bids, engine, peer, name, options, _rows_for(engine, name, options))
        targets = [Target(TIDEMARK, FLINK_SQL, at_least=TIMES_FLINK_SQL)] if FLINK_SQL in peers else []
        works.append(Work(f"peers {name}", text, contestants, targets, compared=False, repeats=_repeats(options)))
    keyed = {}
    if options.flink_python is not None:
        keyed[PYFLINK] = Peer(options.flink_python, "pyflink_state.py")
    if BYTEWAX in peers:
        keyed[BYTEWAX] = peers[BYTEWAX]
    return [*works, _state_work(options, keyed)] if keyed else works


def _rows_for(engine: str, name: str, options: Options) -> int:
    if engine != BYTEWAX:
        return options.rows(NDJSON_ROWS, QUICK_ROWS)
    return options.rows(BYTEWAX_WINDOW_ROWS if name in bid_loops.WINDOWED else PYTHON_ROWS, QUICK_ROWS)


def _repeats(options: Options) -> int:
    return min(options.repeats, REPEATS)


def _state_work(options: Options, peers: Mapping[str, Peer]) -> Work:
    rows, peer_rows = options.rows(STATE_ROWS, QUICK_ROWS), options.rows(PYTHON_ROWS, QUICK_ROWS)
    contestants: dict[str, Run] = {TIDEMARK: partial(run_count_auctions, options, rows, options.slots)}
    for engine, peer in peers.items():
        contestants[engine] = partial(_run_state, engine, peer, options, peer_rows)
    return Work(
        "peers state",
        f"running count per auction from NDJSON; peers with {peer_rows:,} rows",
        contestants,
        [Target(TIDEMARK, PYFLINK, at_least=TIMES_PYFLINK)] if PYFLINK in peers else [],
        compared=False,
        repeats=_repeats(options),
    )


def _run_bids(engine: str, peer: Peer, name: str, options: Options, rows: int) -> Outcome:
    _check_bids(engine, peer, name, options)
    return Outcome(peer.run(name, ndjson_bids(options.directory, rows), "-", options.slots), rows, None)


@functools.cache
def _check_bids(engine: str, peer: Peer, name: str, options: Options) -> None:
    path = ndjson_bids(options.directory, SMALL_ROWS)
    with results_directory() as directory:
        peer.run(name, path, str(directory), options.slots)
        found = _digest_of_json(directory, name)
    expected = bid_loops.by_hand(name, path, options.slots).result
    if found != expected:
        raise WrongResultError(f"peers {name}: {engine} found {found}, the loop by hand {expected}")


def _digest_of_json(directory: Path, name: str) -> Digest:
    """Return the digest of JSON lines that a peer has written; hidden files are unfinished ones."""
    digest = EMPTY
    for path in _parts(directory):
        digest += digest_of(pl.read_ndjson(path, schema=RESULTS.get(name, bid_loops.SCHEMA)))
    return digest


def _parts(directory: Path) -> list[Path]:
    return [
        path
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name[0] not in "._" and path.stat().st_size
    ]


_WINDOWS: dict[str, pl.DataType] = dict.fromkeys(("auction", "bids", "top", "start"), pl.Int64())
RESULTS: dict[str, dict[str, pl.DataType]] = {
    "projection": {"auction": pl.Int64(), "bidder": pl.Int64(), "euros": pl.Float64(), "ts": pl.Int64()},
    "tumbling": _WINDOWS,
    "sliding": _WINDOWS,
}


def _run_state(engine: str, peer: Peer, options: Options, rows: int) -> Outcome:
    _check_state(engine, peer, options)
    return Outcome(peer.run("state", ndjson_bids(options.directory, rows), "-", options.slots), rows, None)


@functools.cache
def _check_state(engine: str, peer: Peer, options: Options) -> None:
    path = ndjson_bids(options.directory, SMALL_ROWS)
    with results_directory() as directory:
        peer.run("state", path, str(directory), options.slots)
        counts = [int(line) for part in _parts(directory) for line in part.read_text(encoding="utf-8").split()]
    expected = json_loops.count_auctions(path, options.slots).result
    if digest_of_numbers(counts) != expected:
        raise WrongResultError(f"peers state: {engine} found {len(counts)} counts that are not those of the plain loop")
