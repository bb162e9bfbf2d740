"""The five works over bids in Flink SQL, streaming mode; needs an interpreter with apache-flink and a Java."""

import json
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

BIDS = """
CREATE TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts BIGINT,
  event_time AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR event_time AS event_time
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')
"""
WINDOWED = """
SELECT auction, COUNT(*) AS bids, MAX(price) AS top,
  CAST(1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)) AS BIGINT) AS `start`
FROM TABLE({windows}) GROUP BY auction, window_start, window_end
"""
WINDOW_COLUMNS = "auction BIGINT, bids BIGINT, top BIGINT, `start` BIGINT"
ALL_COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts BIGINT"
#: query, columns of the result
WORKS = {
    "pass-through": ("SELECT auction, bidder, price, channel, url, ts FROM bids", ALL_COLUMNS),
    "filter": (
        "SELECT auction, bidder, price, channel, url, ts FROM bids WHERE price > 50000 AND channel = 'apple'",
        ALL_COLUMNS,
    ),
    "projection": (
        "SELECT auction, bidder, price * CAST(0.908 AS DOUBLE) AS euros, ts FROM bids",
        "auction BIGINT, bidder BIGINT, euros DOUBLE, ts BIGINT",
    ),
    "tumbling": (
        WINDOWED.format(windows="TUMBLE(TABLE bids, DESCRIPTOR(event_time), INTERVAL '10' SECOND)"),
        WINDOW_COLUMNS,
    ),
    "sliding": (
        WINDOWED.format(windows="HOP(TABLE bids, DESCRIPTOR(event_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"),
        WINDOW_COLUMNS,
    ),
}


def main(work: str, path: str, sink: str, slots: str) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", slots)
    tables.get_config().set("table.local-time-zone", "UTC")
    tables.execute_sql(BIDS.format(path=path))
    query, columns = WORKS[work]
    target = "'connector' = 'blackhole'"
    if sink != "-":
        target = f"'connector' = 'filesystem', 'path' = '{sink}', 'format' = 'json'"
    tables.execute_sql(f"CREATE TABLE results ({columns}) WITH ({target})")
    client = tables.execute_sql(f"INSERT INTO results {query}").get_job_client()
    result = client.get_job_execution_result().result()
    print(json.dumps({"seconds": result.get_net_runtime() / 1000}))


if __name__ == "__main__":
    main(*sys.argv[1:])
