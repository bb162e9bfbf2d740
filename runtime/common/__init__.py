"""Plain values that programs and engine share: types, rows, options, watermark strategies. Source: PyFlink, common."""

from typing import TYPE_CHECKING

from runtime.common import exclusions as _exclusions
from runtime.common.accumulators import Accumulator as Accumulator
from runtime.common.accumulators import AverageAccumulator as AverageAccumulator
from runtime.common.accumulators import DoubleCounter as DoubleCounter
from runtime.common.accumulators import DoubleMaximum as DoubleMaximum
from runtime.common.accumulators import DoubleMinimum as DoubleMinimum
from runtime.common.accumulators import IntCounter as IntCounter
from runtime.common.accumulators import IntMaximum as IntMaximum
from runtime.common.accumulators import IntMinimum as IntMinimum
from runtime.common.accumulators import LongCounter as LongCounter
from runtime.common.accumulators import LongMaximum as LongMaximum
from runtime.common.accumulators import LongMinimum as LongMinimum
from runtime.common.completable_future import CompletableFuture as CompletableFuture
from runtime.common.config_options import ConfigOption as ConfigOption
from runtime.common.config_options import ConfigOptions as ConfigOptions
from runtime.common.config_options import ConfigurationError as ConfigurationError
from runtime.common.configuration import Configuration as Configuration
from runtime.common.execution_config import ExecutionConfig as ExecutionConfig
from runtime.common.job_client import JobClient as JobClient
from runtime.common.job_execution_result import JobExecutionResult as JobExecutionResult
from runtime.common.job_id import JobID as JobID
from runtime.common.job_status import JobStatus as JobStatus
from runtime.common.restart_strategy import RestartStrategies as RestartStrategies
from runtime.common.restart_strategy import RestartStrategyConfiguration as RestartStrategyConfiguration
from runtime.common.secrets import SecretRef as SecretRef
from runtime.common.secrets import secret_text as secret_text
from runtime.common.serialization import ByteArraySchema as ByteArraySchema
from runtime.common.serialization import DeserializationSchema as DeserializationSchema
from runtime.common.serialization import Encoder as Encoder
from runtime.common.serialization import SerializationSchema as SerializationSchema
from runtime.common.serialization import SimpleStringSchema as SimpleStringSchema
from runtime.common.serializer import TypeSerializer as TypeSerializer
from runtime.common.time import Duration as Duration
from runtime.common.time import Instant as Instant
from runtime.common.time import Time as Time
from runtime.common.typeinfo import BasicArrayTypeInfo as BasicArrayTypeInfo
from runtime.common.typeinfo import BasicTypeInfo as BasicTypeInfo
from runtime.common.typeinfo import ListTypeInfo as ListTypeInfo
from runtime.common.typeinfo import MapTypeInfo as MapTypeInfo
from runtime.common.typeinfo import ObjectArrayTypeInfo as ObjectArrayTypeInfo
from runtime.common.typeinfo import PickledBytesTypeInfo as PickledBytesTypeInfo
from runtime.common.typeinfo import PrimitiveArrayTypeInfo as PrimitiveArrayTypeInfo
from runtime.common.typeinfo import RowTypeInfo as RowTypeInfo
from runtime.common.typeinfo import SqlTimeTypeInfo as SqlTimeTypeInfo
from runtime.common.typeinfo import TupleTypeInfo as TupleTypeInfo
from runtime.common.typeinfo import TypeInformation as TypeInformation
from runtime.common.typeinfo import Types as Types
from runtime.common.types import Row as Row
from runtime.common.types import RowKind as RowKind
from runtime.common.watermark_strategy import TimestampAssigner as TimestampAssigner
from runtime.common.watermark_strategy import WatermarkGenerator as WatermarkGenerator
from runtime.common.watermark_strategy import WatermarkStrategy as WatermarkStrategy

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "BasicArrayTypeInfo",
    "BasicTypeInfo",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "ConfigurationError",
    "DeserializationSchema",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "ListTypeInfo",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "RowTypeInfo",
    "SecretRef",
    "SerializationSchema",
    "SimpleStringSchema",
    "SqlTimeTypeInfo",
    "Time",
    "TimestampAssigner",
    "TupleTypeInfo",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "secret_text",
]

if not TYPE_CHECKING:
    __getattr__ = _exclusions.refusing_module(__name__)
