"""User functions and what they are given, at PyFlink's module path."""

from runtime.operators.functions import AggregateFunction as AggregateFunction
from runtime.operators.functions import AllWindowFunction as AllWindowFunction
from runtime.operators.functions import FilterFunction as FilterFunction
from runtime.operators.functions import FlatMapFunction as FlatMapFunction
from runtime.operators.functions import Function as Function
from runtime.operators.functions import KeyedProcessFunction as KeyedProcessFunction
from runtime.operators.functions import KeyedStateStore as KeyedStateStore
from runtime.operators.functions import KeySelector as KeySelector
from runtime.operators.functions import MapFunction as MapFunction
from runtime.operators.functions import NullByteKeySelector as NullByteKeySelector
from runtime.operators.functions import Partitioner as Partitioner
from runtime.operators.functions import ProcessAllWindowFunction as ProcessAllWindowFunction
from runtime.operators.functions import ProcessFunction as ProcessFunction
from runtime.operators.functions import ProcessWindowFunction as ProcessWindowFunction
from runtime.operators.functions import ReduceFunction as ReduceFunction
from runtime.operators.functions import RuntimeContext as RuntimeContext
from runtime.operators.functions import WindowFunction as WindowFunction
