"""A job that ends: as many numbers as it is told, through an exchange into a sink that has a vertex of its own."""

import argparse

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=1000)
parser.add_argument("--rate", type=float)
options = parser.parse_args()

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, options.rows, options.rate)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.rebalance().map(lambda n: f"number {n}", Types.STRING()).name("label").uid("label").print().uid("labels")
env.execute("bounded numbers")
