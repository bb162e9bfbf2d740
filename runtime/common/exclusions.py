"""PyFlink's public names that Tidemark does not have, each with its reason.

The one table of them: objects and modules refuse such a name with its reason, and the parity test holds the table
against PyFlink's names. Patterns are `fnmatch` ones over the full PyFlink name; the first that fits counts.
"""

from __future__ import annotations

import dis
import fnmatch
import importlib
import sys
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any, NoReturn

__all__ = ["EXCLUSIONS", "NotOffered", "refusal_of", "refuse_attribute", "refusing_module"]

_JAVA = "it wraps a Java object, and there is no JVM in the data plane"
_JAVA_SERIALIZATION = "it sets up Java's serialization, which no record passes through here"
_CODER = "it belongs to PyFlink's coders; values are converted by `TypeInformation.coercer`"
_INNER = "it is a part of PyFlink's window operator, not of a program"
_JAR = "PyFlink's drives a jar, and Tidemark has no connector of its own for it yet"
_OLD_KAFKA = "Flink replaced it by KafkaSource and KafkaSink, of connectors.kafka"
_JDBC = "PyFlink's drives a jar; for PostgreSQL there are runtime.connectors.postgres_sink and postgres_source"
_INTERPRETER = "slots run the interpreter and the packages of the program: install what it needs there"
_LEGACY = "it takes a Java object; use from_source() with a Source, sink_to() with a Sink"
_COMPACTION = "part files stay as they were written"

EXCLUSIONS: tuple[tuple[str, str], ...] = (
    # wrappers of Java objects
    ("*.get_java_type_info", _JAVA),
    ("*.get_java_output_tag", _JAVA),
    ("*.get_java_function", _JAVA),
    ("*.get_java_memory_size", _JAVA),
    ("*.get_java_slot_sharing_group", _JAVA),
    ("pyflink.common.types.RowKind.to_j_row_kind", _JAVA),
    ("pyflink.common.utils", _JAVA),
    ("pyflink.common.utils.*", _JAVA),
    ("pyflink.common.io", _JAVA),
    ("pyflink.common.io.*", _JAVA),
    ("pyflink.common.typeinfo.ExternalTypeInfo*", "it is the type of a Java table that became a stream"),
    ("pyflink.common.typeinfo.LocalTimeTypeInfo*", "only Java programs make it; use SQL_DATE, SQL_TIME, SQL_TIMESTAMP"),
    ("pyflink.datastream.functions.JavaFunctionWrapper*", _JAVA),
    ("pyflink.datastream.checkpoint_storage.CustomCheckpointStorage*", _JAVA),
    ("pyflink.datastream.state_backend.CustomStateBackend*", _JAVA),
    ("pyflink.common*.AssignerWithPeriodicWatermarksWrapper", _JAVA),
    ("pyflink.datastream.CustomCheckpointStorage", _JAVA),
    ("pyflink.datastream.CustomStateBackend", _JAVA),
    # what only Java's serialization needs
    ("pyflink.common.execution_config.ExecutionConfig.*closure_cleaner*", _JAVA_SERIALIZATION),
    ("pyflink.common.execution_config.ExecutionConfig.*force_kryo*", _JAVA_SERIALIZATION),
    ("pyflink.common.execution_config.ExecutionConfig.*force_avro*", _JAVA_SERIALIZATION),
    ("pyflink.common.execution_config.ExecutionConfig.*generic_types*", _JAVA_SERIALIZATION),
    ("pyflink.common.execution_config.ExecutionConfig.get_default_kryo_serializer_classes", _JAVA_SERIALIZATION),
    ("pyflink.common.execution_config.ExecutionConfig.get_registered_*_types", _JAVA_SERIALIZATION),
    ("pyflink.common.typeinfo.*.need_conversion", _CODER),
    ("pyflink.common.typeinfo.*.to_internal_type", _CODER),
    ("pyflink.common.typeinfo.*.from_internal_type", _CODER),
    ("pyflink.common.typeinfo.*.EPOCH_ORDINAL", _CODER),
    # PyFlink's own inside
    ("pyflink.datastream.functions.FunctionWrapper", _INNER),
    ("pyflink.datastream.functions.ReduceFunctionWrapper*", _INNER),
    ("pyflink.datastream.functions.Internal*", _INNER),
    ("pyflink.datastream.functions.PassThrough*", _INNER),
    ("pyflink.datastream.window.WindowOperationDescriptor*", _INNER),
    # without effect in Flink 2
    ("pyflink.common*.InputDependencyConstraint*", "Flink ignores it since 1.13"),
    ("pyflink.common.input_dependency_constraint", "Flink ignores it since 1.13"),
    ("pyflink.datastream.*.set_uid_hash", "state finds its operator by uid(), never by a hash of Flink's graph"),
    # legacy sources and sinks
    ("pyflink.datastream*.SourceFunction", _LEGACY),
    ("pyflink.datastream*.SinkFunction", _LEGACY),
    ("pyflink.datastream.*.add_sink", _LEGACY),
    ("pyflink.datastream.*.add_source", _LEGACY),
    ("pyflink.datastream.*.create_input", _LEGACY),
    ("pyflink.datastream.connectors.*StreamingFileSink*", "Flink replaced it by FileSink"),
    # the environment's ways to ship classes and interpreters
    ("pyflink.datastream.*.StreamExecutionEnvironment.add_classpaths", "classpaths lead to Java classes"),
    ("pyflink.datastream.*.StreamExecutionEnvironment.add_python_archive", _INTERPRETER),
    ("pyflink.datastream.*.StreamExecutionEnvironment.set_python_executable", _INTERPRETER),
    (
        "pyflink.datastream.*.StreamExecutionEnvironment.register_cached_file",
        "Python functions cannot read cached files in PyFlink either; use add_python_file() or a path that slots see",
    ),
    (
        "pyflink.datastream.*.StreamExecutionEnvironment.*changelog_state_backend*",
        "there is no changelog state backend",
    ),
    # state in RocksDB
    (
        "pyflink.datastream.state_backend.EmbeddedRocksDBStateBackend.*et_options",
        "an options factory is a Java class; set the options state.backend.rocksdb.* instead",
    ),
    # connectors and formats
    ("pyflink.common.*Row*erializationSchema", "it stands in its format's module, as in PyFlink: datastream.formats"),
    ("pyflink.datastream.connectors.*FlinkKafka*", _OLD_KAFKA),
    ("pyflink.datastream.connectors*.Semantic*", _OLD_KAFKA),
    ("pyflink.datastream.connectors.kafka.KafkaSink.get_transformer", "sinks here need no operator in front"),
    ("pyflink.datastream.connectors.DynamicKafka*", _JAR),
    ("pyflink.datastream.connectors.KafkaMetadataService", _JAR),
    ("pyflink.datastream.connectors.KafkaRecordDeserializationSchema", _JAR),
    ("pyflink.datastream.connectors.KafkaStream*Subscriber", _JAR),
    ("pyflink.datastream.connectors.SingleClusterTopicMetadataService", _JAR),
    ("pyflink.datastream.connectors.StreamPatternSubscriber", _JAR),
    ("pyflink.datastream.connectors.Pulsar*", _JAR),
    ("pyflink.datastream.connectors.St*Cursor", _JAR),
    ("pyflink.datastream.connectors.RMQ*", _JAR),
    ("pyflink.datastream.connectors.Jdbc*", _JDBC),
    ("pyflink.datastream.connectors.cassandra*", _JAR),
    ("pyflink.datastream.connectors.dynamic_kafka*", _JAR),
    ("pyflink.datastream.connectors.elasticsearch*", _JAR),
    ("pyflink.datastream.connectors.jdbc*", _JDBC),
    ("pyflink.datastream.connectors.kinesis*", _JAR),
    ("pyflink.datastream.connectors.pulsar*", _JAR),
    ("pyflink.datastream.connectors.rabbitmq*", _JAR),
    ("pyflink.datastream.connectors.hybrid_source*", "there is no source yet that follows another one"),
    ("pyflink.datastream.connectors.base.StreamTransformer*", "sinks here need no operator in front of them"),
    ("pyflink.datastream.connectors.base.SupportsPreprocessing*", "sinks here need no operator in front of them"),
    ("pyflink.datastream.connectors.file_system.FileSink.get_transformer", "sinks here need no operator in front"),
    ("pyflink.datastream.connectors.file_system.FileCompact*", _COMPACTION),
    ("pyflink.datastream.connectors.*FileEnumeratorProvider*", "the file source creates and assigns splits"),
    ("pyflink.datastream.connectors.*FileSplitAssignerProvider*", "the file source assigns splits"),
    (
        "pyflink.datastream.connectors.file_system.FileSourceBuilder.set_file_enumerator",
        "the file source cuts files itself; set_splits() says how finely",
    ),
    (
        "pyflink.datastream.connectors.file_system.FileSourceBuilder.set_split_assigner",
        "splits go to any reader that asks",
    ),
    ("pyflink.datastream.formats.avro.AvroInputFormat*", _LEGACY),
    ("pyflink.datastream.formats.parquet.AvroParquet*", "take the columns as a row type: ParquetBulkWriters"),
    ("pyflink.datastream.formats.orc*", "there is no ORC format; write Parquet"),
)


class NotOffered(AttributeError):
    """PyFlink has this attribute and Tidemark does not; the message is the reason."""


def refusal_of(pyflink_name: str) -> str | None:
    """Return why Tidemark lacks a name of PyFlink's (dotted, from `pyflink` on); None if the table does not list it."""
    return next((reason for pattern, reason in EXCLUSIONS if fnmatch.fnmatchcase(pyflink_name, pattern)), None)


def refuse_attribute(owner: object, name: str) -> NoReturn:
    """Refuse an attribute, for `__getattr__` of a public class, with the table's reason if it has one.

    Raises:
        NotOffered: PyFlink's class or one of its bases has the attribute.
        AttributeError: it has not.
    """
    for kind in type(owner).__mro__:
        reason = refusal_of(f"pyflink{kind.__module__.removeprefix('runtime')}.{kind.__qualname__}.{name}")
        if reason is not None:
            raise NotOffered(f"{kind.__name__}.{name} is not offered: {reason}", name=name, obj=owner)
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)


def refusing_module(module: str, lazy: Mapping[str, str] = MappingProxyType({})) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that refuses PyFlink's names with the table's reason.

    It raises what the reader of the name can deal with: an ImportError in `from … import …`, where Python would put a
    text of its own in place of an AttributeError's, else a NotOffered, so that `hasattr` and `inspect` go on. One class
    cannot be both: CPython lays them out differently.

    Args:
        module: the module's `__name__`.
        lazy: names that are imported at their first use, with the modules that have them.
    """

    def refuse(name: str) -> Any:
        if name in lazy:
            return getattr(importlib.import_module(lazy[name]), name)
        reason = None if name.startswith("__") else refusal_of(f"pyflink{module.removeprefix('runtime')}.{name}")
        if reason is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        text = f"{module}.{name} is not offered: {reason}"
        if _is_import(sys._getframe(1)):
            raise ImportError(text, name=module)
        raise NotOffered(text, name=name)

    return refuse


def _is_import(frame: FrameType) -> bool:
    """Return whether what a frame is executing is `from … import …`."""
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]
