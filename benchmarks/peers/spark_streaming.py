"""The five works over bids in Spark Structured Streaming, trigger availableNow; needs PySpark."""

import json
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

SCHEMA = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts BIGINT"


def windowed(bids: DataFrame, slide: str) -> DataFrame:
    timed = bids.withColumn("event_time", F.timestamp_millis("ts"))
    grouped = timed.groupBy("auction", F.window("event_time", "10 seconds", slide))
    counted = grouped.agg(F.count("*").alias("bids"), F.max("price").alias("top"))
    return counted.select("auction", "bids", "top", F.unix_millis("window.start").alias("start"))


WORKS = {
    "pass-through": lambda bids: bids,
    "filter": lambda bids: bids.where("price > 50000 AND channel = 'apple'"),
    "projection": lambda bids: bids.selectExpr("auction", "bidder", "price * CAST(0.908 AS DOUBLE) AS euros", "ts"),
    "tumbling": lambda bids: windowed(bids, "10 seconds"),
    "sliding": lambda bids: windowed(bids, "2 seconds"),
}


def main(work: str, path: str, sink: str, slots: str) -> None:
    builder = SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false")
    settings = {"spark.sql.shuffle.partitions": slots, "spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR"}
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    # a stream reads directories
    reader = spark.readStream.schema(SCHEMA).option("pathGlobFilter", Path(path).name)
    result = WORKS[work](reader.json(str(Path(path).parent)))
    # windows: all at the end, as the other engines give them when the input ends
    mode = "complete" if work in ("tumbling", "sliding") else "append"

    def write(frame: DataFrame, _: int) -> None:
        if sink == "-":
            frame.write.format("noop").mode("overwrite").save()
        else:
            frame.write.mode("overwrite").json(str(Path(sink) / "results"))

    with tempfile.TemporaryDirectory() as checkpoint:
        started = time.monotonic()
        stream = result.writeStream.outputMode(mode).trigger(availableNow=True).foreachBatch(write)
        stream.option("checkpointLocation", checkpoint).start().awaitTermination()
        seconds = time.monotonic() - started
    spark.stop()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
