"""StreamExecutionEnvironment: the start of a program, which also runs it. Source: PyFlink.

Options come, later ones first, from the methods called here, the Configuration given, and environment variables of the
form TIDEMARK_CONF_<KEY> (upper case, `_` for `.` and `__` for `-`), so that a program can be run elsewhere unchanged.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.exclusions import refuse_attribute
from runtime.common.execution_config import ExecutionConfig
from runtime.common.execution_kind import ExecutionKind
from runtime.common.job_execution_result import JobExecutionResult
from runtime.common.time import Duration
from runtime.common.typeinfo import TypeInformation
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.collection import CollectionSource
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import new_job_id
from runtime.core.places import calling_place
from runtime.core.python_requirements import RequirementsError, parse_requirements
from runtime.datastream.batch_programs import check_batch, runtime_mode, with_final_results
from runtime.datastream.cached_stream import Caches
from runtime.datastream.checkpoint_config import CheckpointConfig
from runtime.datastream.checkpointing_mode import CheckpointingMode
from runtime.datastream.data_stream import DataStream, DataStreamError
from runtime.datastream.execution_mode import RuntimeExecutionMode
from runtime.datastream.extraction import installed_extraction
from runtime.datastream.jars import unneeded_jars
from runtime.datastream.job_client import JobClient, execution_result
from runtime.datastream.micro_batch_programs import check_micro_batch
from runtime.datastream.option_notes import former_keys, ignored_options, misplaced_references
from runtime.datastream.slot_sharing_group import SlotSharingGroup
from runtime.datastream.transformation import Port, Program
from runtime.execution.errors import JobExecutionError
from runtime.graph.chaining import create_job_graph
from runtime.graph.job_graph import JobGraph
from runtime.graph.plan import execution_plan
from runtime.graph.stream_graph import StreamGraph, StreamNode
from runtime.graph.uids import stateful_without_uid
from runtime.operators.source import Source
from runtime.operators.source_operator import SourceOperatorFactory

if TYPE_CHECKING:
    from runtime.execution.application import JobHandle

__all__ = ["DEFAULT_JOB_NAME", "ENVIRONMENT_PREFIX", "StreamExecutionEnvironment", "configuration_from_environment"]

logger = logging.getLogger(__name__)

DEFAULT_JOB_NAME = "Flink Streaming Job"
ENVIRONMENT_PREFIX = "TIDEMARK_CONF_"
APPLICATION: Final = "runtime.execution.application"
"""The module that runs jobs. A program of which only the graph is wanted does not import it: a third of all imports."""


class StreamExecutionEnvironment:
    """Collects a program and runs it. Make one with `get_execution_environment`; not thread-safe."""

    #: of every environment of this process; None = the number of CPUs
    _default_local_parallelism: int | None = None

    def __init__(self, configuration: Configuration) -> None:
        self.program = Program()
        self._configuration = configuration
        self._config = ExecutionConfig(configuration)
        self._checkpoint_config = CheckpointConfig(configuration)
        self.caches = Caches()
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._buffer_timeouts: dict[int, int] = {}
        self._non_parallel: set[int] = set()
        self._python_files: list[str] = []

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return a new environment with these options.

        Raises:
            ConfigurationError: an option cannot be read.
        """
        extraction = installed_extraction()
        merged = configuration_from_environment(os.environ) if extraction is None else Configuration()
        if extraction is not None:
            merged.add_all(extraction.configuration)
        if configuration is not None:
            merged.add_all(configuration)
        return StreamExecutionEnvironment(merged)

    # --- options ------------------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """Take over more options."""
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """Return the options; changes to them are changes to the environment's."""
        return self._configuration

    def get_config(self) -> ExecutionConfig:
        return self._config

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the parallelism of operators that are added from now on and set none themselves; see ExecutionConfig."""
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism that was set, else the number of CPUs."""
        return self._configuration.get(options.PARALLELISM_DEFAULT) or self.get_default_local_parallelism()

    @staticmethod
    def get_default_local_parallelism() -> int:
        """Return the parallelism that was set for this process, else the number of CPUs."""
        return StreamExecutionEnvironment._default_local_parallelism or os.cpu_count() or 1

    @staticmethod
    def set_default_local_parallelism(parallelism: int) -> None:
        """Set the parallelism of programs of this process that set none.

        Raises:
            DataStreamError: it is not positive.
        """
        if parallelism < 1:
            raise DataStreamError(f"the parallelism must be positive, not {parallelism}")
        StreamExecutionEnvironment._default_local_parallelism = parallelism

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups of operators that set none."""
        self._configuration.set(options.PIPELINE_MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the max parallelism that was set, else -1: computed from the parallelism."""
        return self._configuration.get(options.PIPELINE_MAX_PARALLELISM) or -1

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Set how long records may wait for a batch to fill; 0 = not at all, -1 = until it is full."""
        self._configuration.set(options.BUFFER_TIMEOUT, Duration.of_millis(timeout_millis))
        return self

    def get_buffer_timeout(self) -> int:
        if not self._configuration.get(options.BUFFER_TIMEOUT_ENABLED):
            return -1
        return self._configuration.get(options.BUFFER_TIMEOUT).to_millis()

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Let every operator have a task of its own."""
        self._configuration.set(options.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        return self._configuration.get(options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        return self._configuration.get(options.CHAIN_DIFFERENT_MAX_PARALLELISM)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set how the program is to be executed; BATCH is refused then if a source is unbounded."""
        self._configuration.set(options.RUNTIME_MODE, execution_mode.name)
        return self

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Say what a group's slots need; kept, not enforced: the Spark cluster's configuration says what they have."""
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        return self._checkpoint_config

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Take a checkpoint every `interval` ms.

        Raises:
            ValueError: it is below 10 ms.
        """
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return milliseconds; -1 = no checkpoints."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set where savepoints go that name no directory."""
        self._configuration.set(options.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        return self._configuration.get(options.SAVEPOINT_DIRECTORY)

    def add_jars(self, *jars_path: str) -> None:
        """Accept jars of Flink's connectors and formats, which are Python here: nothing is loaded.

        Args:
            jars_path: paths or URLs.

        Raises:
            DataStreamError: one may hold other classes.
        """
        try:
            names = unneeded_jars(jars_path)
        except ValueError as error:
            raise DataStreamError(f"add_jars: {error}") from error
        logger.info("add_jars: not needed, the runtime has these itself: %s", ", ".join(names))

    def add_python_file(self, file_path: str) -> None:
        """Make a Python file or a directory with packages importable in the slots.

        Raises:
            DataStreamError: it does not exist.
        """
        if not Path(file_path).exists():
            raise DataStreamError(f"add_python_file: {file_path} does not exist")
        self._python_files.append(str(Path(file_path).resolve()))

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Name the packages that functions import: a session cluster gets wheels of them for the job's slots.

        A program that is run by itself finds them where it is installed. A submitted one that imports them outside of
        its functions is submitted with them: `tidemark run --py-requirements`.

        Args:
            requirements_file_path: lines with names and versions.
            requirements_cache_dir: not supported; the cluster has an index.

        Raises:
            DataStreamError: the file cannot be read, or a line is something else.
        """
        if requirements_cache_dir is not None:
            raise DataStreamError(
                "set_python_requirements: a directory of packages is not supported; the cluster has an index of wheels"
            )
        try:
            lines = Path(requirements_file_path).read_text(encoding="utf-8").splitlines()
            wanted = "\n".join(parse_requirements(lines))
        except (OSError, UnicodeDecodeError, RequirementsError) as error:
            raise DataStreamError(f"set_python_requirements: {requirements_file_path}: {error}") from error
        self._configuration.set(options.PYTHON_REQUIREMENTS, wanted)

    # --- sources ------------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream:
        """Add a bounded stream of the values of a list, read by one subtask.

        Raises:
            TypeError: a value does not fit the type.
        """
        source = CollectionSource(collection, type_info)
        stream = self._add_source(source, WatermarkStrategy.no_watermarks(), "Collection Source", parallelism=1)
        return stream.force_non_parallel()

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Add a stream from a source; the strategy is applied to each of its splits.

        Args:
            source: what to read.
            watermark_strategy: event times and watermarks; `WatermarkStrategy.no_watermarks()` for none.
            source_name: shown in plans and messages.
            type_info: type of the records, where it is not the one that the source tells.

        Raises:
            TypeError: it is no Source.
        """
        if not isinstance(source, Source):
            raise TypeError(f"from_source() needs a Source, not {source!r}")
        return self._add_source(source, watermark_strategy, source_name, type_info=type_info)

    def _add_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        name: str,
        *,
        parallelism: int | None = None,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        factory = SourceOperatorFactory(source, watermark_strategy, name)
        output_type = type_info if type_info is not None else source.produced_type()
        node = self.add_operator(
            name, factory, output_type, [], parallelism=parallelism, is_source=True, is_stateful=True
        )
        return DataStream(self, (Port(node.node_id),), output_type)

    # --- running ------------------------------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run what has been added since the last execution, and wait for its end.

        Ctrl-C cancels the job and waits for it; that of an application with a `high-availability.cluster-id` resumes
        when it is started again.

        Raises:
            GraphError: the program cannot run as it is.
            ExecutionError: the job cannot be started, or it failed; the message is the first cause.
        """
        extraction = installed_extraction()
        if extraction is not None:
            extraction.executed(self._checked(self.create_stream_graph(job_name), is_submitted=True))
        handle = self._submit(job_name, wait_in_caller=True)
        try:
            snapshot = handle.wait()
        except KeyboardInterrupt:
            handle.interrupt()
            with suppress(JobExecutionError):
                handle.wait()
            raise
        self.caches.join()
        return execution_result(snapshot)

    def execute_async(
        self, job_name: str | None = None, *, collect_ids: tuple[str, ...] = (), clock: Clock = SYSTEM_CLOCK
    ) -> JobClient:
        """Run what has been added since the last execution in the background.

        Args:
            job_name: name of the job.
            collect_ids: of the collect sinks whose output the caller will take.
            clock: for a MiniCluster, see there; Spark's slots use the machine's.

        Raises:
            GraphError, ExecutionError: as `execute`, as far as the start is concerned.
        """
        extraction = installed_extraction()
        if extraction is not None:
            if collect_ids:
                raise DataStreamError(
                    "execute_and_collect() gives records back to the program, and a submitted program ends when its "
                    "job starts: let the job write them with print() or sink_to(), or run the program by itself"
                )
            extraction.executed(self._checked(self.create_stream_graph(job_name), is_submitted=True))
        return JobClient(self._submit(job_name, collect_ids=collect_ids, clock=clock))

    def _submit(
        self,
        job_name: str | None,
        *,
        collect_ids: tuple[str, ...] = (),
        wait_in_caller: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> JobHandle:
        self.caches.settle()
        graph = self._checked(self.create_stream_graph(job_name))
        self._warn_of(graph)
        sinks = self.caches.add_sinks(graph)
        handle: JobHandle = importlib.import_module(APPLICATION).submit(
            create_job_graph(graph, new_job_id()),
            collect_ids=(*collect_ids, *sinks),
            # a waiting caller must not have to collect the job's results as well
            wait_in_caller=wait_in_caller and not sinks,
            clock=clock,
        )
        self.program.pending.clear()
        self.caches.fill(handle, sinks)
        return handle

    def _checked(self, graph: StreamGraph, is_submitted: bool = False) -> StreamGraph:
        """Return the program, if it asks for nothing that jobs do not do.

        Args:
            graph: of the program.
            is_submitted: whether a session cluster executes the job, not this process.

        Raises:
            DataStreamError: it does; the message says which option or operator.
        """
        configuration = Configuration.from_dict(dict(graph.configuration))
        kind = ExecutionKind.of(configuration)
        if kind is ExecutionKind.BATCH:
            check_batch(graph)
        elif kind is ExecutionKind.MICRO_BATCH:
            check_micro_batch(graph, is_submitted)
        missing = stateful_without_uid(graph, graph.nodes)
        if missing and not configuration.get(options.AUTO_GENERATE_UIDS):
            raise DataStreamError(f"auto-generated uids are disabled, and these have none: {', '.join(missing)}")
        return graph

    def _warn_of(self, graph: StreamGraph) -> None:
        """Warn of what a job that is run from here does otherwise than its program may expect."""
        missing = stateful_without_uid(graph, graph.nodes)
        if missing and self._checkpoint_config.is_checkpointing_enabled():
            logger.warning(
                "state of %s is found again only while the program above stays the same: give these operators a uid()",
                ", ".join(missing),
            )
        former = former_keys(self._configuration.key_set())
        if former:
            logger.warning(
                "options under their former keys: %s", "; ".join(f"{old} (now {new})" for old, new in former.items())
            )
        ignored = ignored_options(self._configuration.key_set())
        if ignored:
            logger.warning(
                "options that have no effect: %s", "; ".join(f"{key} ({reason})" for key, reason in ignored.items())
            )

    def get_execution_plan(self) -> str:
        """Return the program as Flink's plan JSON."""
        return json.dumps(execution_plan(self.create_stream_graph(None)))

    def create_stream_graph(self, job_name: str | None) -> StreamGraph:
        """Return what has been added since the last execution.

        Raises:
            DataStreamError: nothing was.
        """
        nodes, edges = self.program.closure(self.caches.sources(self.program.nodes))
        if not nodes:
            raise DataStreamError("there is nothing to execute: no operators have been added since the last execution")
        for edge in edges:
            edge.buffer_timeout_ms = self._buffer_timeouts.get(edge.source)
        flat = self._options()
        for key, accepted in misplaced_references(flat).items():
            raise ConfigurationError(key, flat[key], accepted)
        if options.RUNTIME_MODE.key in flat:
            flat[options.RUNTIME_MODE.key] = runtime_mode(self._configuration, nodes)
        if ExecutionKind.of(Configuration.from_dict(flat)) is ExecutionKind.BATCH:
            nodes = with_final_results(nodes)
        return StreamGraph(
            job_name=job_name or self._configuration.get(options.PIPELINE_NAME) or DEFAULT_JOB_NAME,
            configuration=flat,
            buffer_timeout_ms=self.get_buffer_timeout(),
            max_parallelism=self._configuration.get(options.PIPELINE_MAX_PARALLELISM),
            chaining_enabled=self.is_chaining_enabled(),
            nodes=nodes,
            edges=edges,
            job_parameters=self._config.get_global_job_parameters(),
        )

    def _options(self) -> dict[str, str]:
        flat = self._configuration.to_dict()
        if self._python_files:
            flat[options.PYTHON_FILES.key] = ",".join(self._python_files)
        return flat

    def create_job_graph(self, job_name: str | None) -> JobGraph:
        """Return what has been added since the last execution, chained and ready to run."""
        return create_job_graph(self.create_stream_graph(job_name), new_job_id())

    def close(self) -> None:
        """Do nothing: the Spark session stays warm until the program ends."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse_attribute(self, name)

    # --- for streams --------------------------------------------------------------------------------------------------

    def add_operator(
        self,
        name: str,
        factory: Any,
        output_type: TypeInformation | None,
        inputs: list[tuple[int, tuple[Port, ...]]],
        *,
        parallelism: int | None = None,
        is_source: bool = False,
        is_sink: bool = False,
        is_stateful: bool = False,
    ) -> StreamNode:
        """Add an operator to the program; for streams."""
        node = StreamNode(
            node_id=len(self.program.nodes) + 1,
            name=name,
            factory=factory,
            parallelism=parallelism or self.get_parallelism(),
            output_type=output_type,
            is_source=is_source,
            is_sink=is_sink,
            is_stateful=is_stateful,
            makes_changelog=getattr(factory, "makes_changelog", False),
            defined_at=calling_place(),
        )
        self.program.add_node(node, inputs)
        return node

    def mark_non_parallel(self, node_id: int) -> None:
        """Refuse any parallelism but 1 for an operator; for streams."""
        self._non_parallel.add(node_id)

    def is_non_parallel(self, node_id: int) -> bool:
        return node_id in self._non_parallel

    def set_node_buffer_timeout(self, node_id: int, timeout_ms: int) -> None:
        """Set the buffer timeout of all edges out of an operator; for streams."""
        self._buffer_timeouts[node_id] = timeout_ms


def configuration_from_environment(environment: Mapping[str, str]) -> Configuration:
    """Return the options from environment variables: TIDEMARK_CONF_EXECUTION_TARGET=mini-cluster is
    execution.target.
    """
    configuration = Configuration()
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "-").replace("_", ".")
            configuration.set_string(key, value)
    return configuration
