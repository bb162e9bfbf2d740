"""Kafka → 10 s windows → Kafka in Flink SQL; needs an interpreter with apache-flink, a Java, and Flink's SQL connector
for Kafka as a jar.
"""

import json
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

BIDS = """
CREATE TABLE bids (
  auction BIGINT, price BIGINT, ts BIGINT,
  event_time AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR event_time AS event_time
) WITH ('connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'{bounded})
"""
RESULTS = """
CREATE TABLE results (auction BIGINT, bids BIGINT, top BIGINT, `start` BIGINT)
WITH ('connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sink}',
  'properties.transaction.timeout.ms' = '800000')
"""
QUERY = """
INSERT INTO results SELECT auction, COUNT(*), MAX(price),
  CAST(1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)) AS BIGINT)
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(event_time), INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end
"""


def main(jar: str, servers: str, source: str, sink: str, interval_ms: str, slots: str, bounded: str) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": f"file://{jar}",
        "parallelism.default": slots,
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": f"{interval_ms} ms",
        "execution.checkpointing.min-pause": "0",
    }
    for key, value in settings.items():
        tables.get_config().set(key, value)
    end = ", 'scan.bounded.mode' = 'latest-offset'" if bounded == "bounded" else ""
    tables.execute_sql(BIDS.format(source=source, servers=servers, bounded=end))
    tables.execute_sql(RESULTS.format(sink=sink, servers=servers))
    result = tables.execute_sql(QUERY).get_job_client().get_job_execution_result().result()
    print(json.dumps({"seconds": result.get_net_runtime() / 1000}))


if __name__ == "__main__":
    main(*sys.argv[1:])
