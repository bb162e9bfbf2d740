"""Nexmark's queries in Spark Structured Streaming, each in one batch over the files of benchmarks.nexmark_data.

q4 gives closing prices, not their averages: an aggregate of an aggregate without windows is refused. q5 counts only,
and q7 gives one of the highest bids of a window: two aggregates joined to one another are refused.

    python benchmarks/peers/spark_nexmark.py QUERY PERSONS AUCTIONS BIDS SLOTS REPEATS
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

Read = Callable[[str], DataFrame]
WINDOW, SLIDE = "10 seconds", "2 seconds"
STATES = ("OR", "ID", "CA")


def timed(frame: DataFrame) -> DataFrame:
    # Spark takes event time of the type TIMESTAMP only; the session is in UTC
    return frame.withColumn("date_time", F.col("date_time").cast("timestamp")).withWatermark("date_time", "0 seconds")


def q3(read: Read) -> DataFrame:
    auctions = read("auctions").where("category = 10").select("id", "seller")
    persons = read("persons").where(F.col("state").isin(*STATES)).withColumnRenamed("id", "person")
    return auctions.join(persons, F.expr("seller = person")).select("name", "city", "state", "id")


def q4(read: Read) -> DataFrame:
    auctions = timed(read("auctions")).selectExpr("id", "category", "date_time AS opened", "expires")
    bids = timed(read("bids")).selectExpr("auction", "price", "date_time")
    while_open = "auction = id AND date_time >= opened AND date_time <= opened + INTERVAL 1 SECOND"
    valid = auctions.join(bids, F.expr(while_open)).where("date_time <= expires")
    sessions = valid.groupBy("id", "category", F.session_window("date_time", "1 second"))
    return sessions.agg(F.max("price").alias("price")).select("category", "price")


def q7(read: Read) -> DataFrame:
    bid = F.struct("price", "auction", "bidder", "date_time", "extra")
    highest = timed(read("bids")).groupBy(F.window("date_time", WINDOW)).agg(F.max(bid).alias("bid"))
    return highest.select("bid.*")


def q8(read: Read) -> DataFrame:
    persons = timed(read("persons")).select("id", "name", F.window("date_time", WINDOW))
    sellers = timed(read("auctions")).groupBy("seller", F.window("date_time", WINDOW).alias("sold")).count()
    return persons.join(sellers, F.expr("id = seller AND window = sold")).select("id", "name", "window.start")


QUERIES: dict[str, Callable[[Read], DataFrame]] = {
    "q0": lambda read: read("bids").select("auction", "bidder", "price", "date_time", "extra"),
    "q1": lambda read: read("bids").selectExpr(
        "auction", "bidder", "price * CAST(0.908 AS DOUBLE) AS price", "date_time", "extra"
    ),
    "q2": lambda read: read("bids").where("auction % 123 = 0").select("auction", "price"),
    "q3": q3,
    "q4": q4,
    "q5": lambda read: timed(read("bids")).groupBy("auction", F.window("date_time", WINDOW, SLIDE)).count(),
    "q7": q7,
    "q8": q8,
    "q11": lambda read: timed(read("bids")).groupBy("bidder", F.session_window("date_time", WINDOW)).count(),
}


def main(query: str, persons: str, auctions: str, bids: str, slots: str, repeats: str) -> None:
    builder = SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false")
    settings = {
        "spark.sql.shuffle.partitions": slots,
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        # the batch that reads is measured, not the one behind it that ends windows
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.driver.memory": "8g",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    paths = {"persons": Path(persons), "auctions": Path(auctions), "bids": Path(bids)}

    def read(kind: str) -> DataFrame:
        path = paths[kind]
        schema = spark.read.parquet(str(path)).schema
        return spark.readStream.schema(schema).option("pathGlobFilter", path.name).parquet(str(path.parent))

    def write(frame: DataFrame, _: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    seconds = []
    for _ in range(int(repeats)):
        with tempfile.TemporaryDirectory() as checkpoint:
            stream = QUERIES[query](read).writeStream.outputMode("append").trigger(availableNow=True)
            started = stream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
            started.awaitTermination()
            batches = [progress for progress in started.recentProgress if progress["numInputRows"]]
            seconds.append(sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1_000)
    spark.stop()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
