"""TaskMetrics: the counts and rates of a task, of its operators and of its channels, by Flink's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.core.clock import Clock
from runtime.metrics import MetricRegistry
from runtime.network.record_writer import RecordWriter
from runtime.task.io_metrics import EDGE, edge_queues, edge_totals, io_totals, queue_metrics
from runtime.task.operator_chain import OperatorChain
from runtime.task.rates import Rates
from runtime.task.task_input import TaskInput

LATE_RECORDS = ".numLateRecordsDropped"
#: counters of operators of which there are rates
_RATED = (".numRecordsIn", ".numRecordsOut", ".numRecordsSend", ".totalSendTime", LATE_RECORDS)


class TaskMetrics:
    """The metrics of one task.

    Args:
        clock: for rates.
        redact: takes out of names what nobody may see.
    """

    def __init__(self, clock: Clock, redact: Callable[[str], str]) -> None:
        self._registry = MetricRegistry(redact=redact)
        self.group = self._registry.root()
        self.records_in = self.group.counter("numRecordsIn")
        self._rates = Rates(clock)

    def report(
        self,
        chain: OperatorChain,
        task_input: TaskInput,
        writers: Sequence[RecordWriter],
        num_records_in: int,
        num_mails: int,
    ) -> dict[str, object]:
        """Return the flat metrics; rates per second, since the last report.

        Args:
            chain: the operators.
            task_input: where records come from.
            writers: where they go to.
            num_records_in: so far; a source's own.
            num_mails: run so far.
        """
        # a gauge without a value yet is left out
        values = {name: value for name, value in self._registry.snapshot().items() if value is not None}
        inputs = [(channel, channel.statistics()) for channel in task_input.channels]
        outputs = [(channel, channel.statistics()) for writer in writers for channel in writer.channels]
        received, sent = [statistics for _, statistics in inputs], [statistics for _, statistics in outputs]
        totals = {
            "numRecordsIn": num_records_in,
            "numRecordsOut": chain.records_sent,
            "numFiredTimers": chain.num_fired_timers(),
            **io_totals(received, sent),
            **edge_totals(inputs, outputs),
        }
        watermarks = [gate.valve.watermark for gate in task_input.gates]
        values |= chain.metrics(num_records_in, watermarks)
        # rates of the operators too: their counts go by "<operator id>.numRecordsIn"
        counts = {name: n for name, n in values.items() if name.endswith(_RATED) and isinstance(n, int)}
        rates = self._rates.per_second({**totals, **counts, "mailboxMails": num_mails})
        values |= totals
        # Flink names this one's rate differently
        values |= {n.replace(f"{LATE_RECORDS}PerSecond", ".lateRecordsDroppedRate"): v for n, v in rates.items()}
        values |= queue_metrics(received, sent, float(str(rates["numBytesInPerSecond"])))
        values |= edge_queues(inputs, outputs)
        for number, writer in enumerate(writers):
            for channel in writer.channels[:1]:
                values[f"{EDGE}{channel.channel_id.edge_id}.currentOutputWatermark"] = chain.watermark_of_exit(number)
        values["currentOutputWatermark"] = chain.output_watermark
        values["isWatermarkIdle"] = chain.is_idle
        if watermarks:
            values["currentInputWatermark"] = min(watermarks)
        if len(watermarks) > 1:
            for gate in task_input.gates:
                values[f"currentInput{gate.input_index + 1}Watermark"] = gate.valve.watermark
        return values
