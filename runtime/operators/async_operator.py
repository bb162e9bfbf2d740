"""AsyncWaitOperator: calls an asynchronous function for each record, many at the same time.

At most `capacity` calls are in flight; records beyond that wait in the operator, which is not available meanwhile, so
that back-pressure arises. Results come back as mail and go on in the order of the records, or as they are ready between
two watermarks. Records whose results have not gone on are part of the snapshot and are called again after a restore.
Time limits and waits for another attempt are processing-time timers. Used by the task's thread, but for `_on_outcome`.
Source: Flink, AsyncWaitOperator.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import PickledBytesTypeInfo, TypeInformation, Types
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import Watermark, WatermarkStatus
from runtime.operators.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy, NoRetryStrategy
from runtime.operators.async_queue import Boundary, Call, OrderedQueue, UnorderedQueue
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import user_function_error
from runtime.operators.event_loop import EventLoopThread
from runtime.operators.user_operator import UserFunctionOperator
from runtime.state.descriptors import ListStateDescriptor
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, OperatorStateSnapshot, SnapshotRequest
from runtime.state.state_meta import DeclaredStates, operator_list

STATE_NAME = "async-wait-records"
"""Name of the list state with the records in flight: (event time, record)."""


class AsyncWaitOperator(UserFunctionOperator):
    """The calls of one subtask."""

    def __init__(self, factory: AsyncWaitOperatorFactory) -> None:
        super().__init__([factory.function], factory.output_type)
        self._function = factory.function
        self._capacity = factory.capacity
        self._timeout_ms = factory.timeout_ms
        self._strategy = factory.retry_strategy
        predicate = self._strategy.get_retry_predicate()
        self._retries_result = predicate.result_predicate()
        self._retries_error = predicate.exception_predicate()
        self._queue = OrderedQueue() if factory.is_ordered else UnorderedQueue()
        self._descriptor = _in_flight(factory.input_type)
        #: what does not fit into the queue yet, in order
        self._waiting: deque[Call | Boundary] = deque()
        #: attempts in progress in the other thread
        self._num_running = 0
        self._outcomes: deque[tuple[Call, int, Any, BaseException | None]] = deque()
        #: whether a mail that will take the outcomes is queued; set by the loop's thread, cleared by the task's
        self._has_mail = False
        self._loop: EventLoopThread | None = None

    def open(self) -> None:
        super().open()
        self._state = self.operator_state.get_list_state(self._descriptor)
        self._loop = EventLoopThread(
            f"async-io {self.context.operator_name}", self._function.async_invoke, self._on_outcome
        )
        self._loop.start()
        for timestamp, value in self._state.get():
            self._add(value, timestamp)
        self._state.clear()
        self._go_on()

    def is_available(self) -> bool:
        return not self._waiting and len(self._queue) < self._capacity

    def has_pending(self) -> bool:
        return bool(self._waiting) or len(self._queue) > 0

    def awaits_mail(self) -> bool:
        return self._num_running > 0

    def process_batch(self, batch: RecordBatch) -> None:
        values = batch.values()
        timestamps = batch.timestamps()
        if timestamps is None:
            timestamps = [NO_TIMESTAMP] * len(values)
        for start, stop, watermark in batch.segments():
            for value, timestamp in zip(values[start:stop], timestamps[start:stop], strict=True):
                self._add(value, timestamp)
            if watermark is not None:
                self._waiting.append(Watermark(watermark))
        self._go_on()

    def process_watermark(self, watermark: Watermark) -> None:
        self._waiting.append(watermark)
        self._go_on()

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        self._waiting.append(status)
        self._go_on()

    def snapshot_operator_state(self) -> dict[str, OperatorStateSnapshot]:
        calls = [*self._queue.calls(), *(element for element in self._waiting if isinstance(element, Call))]
        self._state.update([(call.timestamp, call.value) for call in calls])
        states = super().snapshot_operator_state()
        self._state.clear()
        return states

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        return OperatorSnapshot(operator_states=self.snapshot_operator_state())

    def close(self) -> None:
        loop, self._loop = self._loop, None
        for call in self._queue.calls():
            _cancel_timer(call)
        try:
            if loop is not None:
                loop.stop()
        finally:
            super().close()

    # --- calls --------------------------------------------------------------------------------------------------------

    def _add(self, value: Any, timestamp: int) -> None:
        self._waiting.append(Call(value, timestamp))

    def _go_on(self) -> None:
        """Hand on what may go, and fill the queue up with waiting records."""
        self._take()
        if self._waiting:
            self._fill()
            # boundaries with nothing before them
            self._take()
        self.collector.flush()

    def _fill(self) -> None:
        assert self._loop is not None
        queue, waiting = self._queue, self._waiting
        started: list[Call] = []
        while waiting:
            element = waiting[0]
            if isinstance(element, Call):
                if len(queue) >= self._capacity:
                    break
                self._set_timer(element)
                started.append(element)
                queue.put(element)
            else:
                queue.put_boundary(element)
            waiting.popleft()
        if started:
            self._num_running += len(started)
            self._loop.submit(started)

    def _set_timer(self, call: Call) -> None:
        if self._timeout_ms > 0:
            service = self.context.processing_time
            call.cancel_timer = service.register_timer(
                service.now_ms() + self._timeout_ms, lambda _: self._on_timeout(call)
            )

    def _on_outcome(self, call: Call, attempt: int, result: Any, error: BaseException | None) -> None:
        # on the loop's thread; one mail serves all outcomes that come before it is read
        self._outcomes.append((call, attempt, result, error))
        if not self._has_mail:
            self._has_mail = True
            self.context.mailbox(self._take_outcomes)

    def _take_outcomes(self) -> None:
        # first: an outcome that comes while these are taken may need a mail of its own
        self._has_mail = False
        if self._loop is None:
            return
        while self._outcomes:
            call, attempt, result, error = self._outcomes.popleft()
            self._num_running -= 1
            if not call.is_done and attempt == call.attempt:
                self._on_result(call, result, error)
        self._go_on()

    def _on_result(self, call: Call, result: Any, error: BaseException | None) -> None:
        if error is None:
            result = self._checked(call, result, "async_invoke")
        if self._wants_retry(call, result, error):
            self._retry_later(call)
        elif error is not None:
            raise user_function_error(self.context, error, call.value, self._function.async_invoke) from error
        else:
            self._complete(call, result)

    def _wants_retry(self, call: Call, result: Any, error: BaseException | None) -> bool:
        try:
            if error is None:
                wanted = self._retries_result is not None and self._retries_result(result)
            else:
                wanted = self._retries_error is not None and isinstance(error, Exception) and self._retries_error(error)
            return bool(wanted) and self._strategy.can_retry(call.attempt)
        except Exception as failure:
            during = "the retry strategy"
            raise user_function_error(self.context, failure, call.value, during=during) from failure

    def _retry_later(self, call: Call) -> None:
        service = self.context.processing_time
        delay_ms = self._strategy.get_backoff_time_millis(call.attempt)
        service.register_timer(service.now_ms() + delay_ms, lambda _: self._retry(call))

    def _retry(self, call: Call) -> None:
        if self._loop is None or call.is_done:
            return
        call.attempt += 1
        self._num_running += 1
        self._loop.submit([call])

    def _on_timeout(self, call: Call) -> None:
        if self._loop is None or call.is_done:
            return
        self._loop.cancel(call)
        try:
            result = self._function.timeout(call.value)
        except Exception as error:
            raise user_function_error(self.context, error, call.value, self._function.timeout) from error
        self._complete(call, self._checked(call, result, "timeout"))
        self._go_on()

    def _complete(self, call: Call, results: list[Any]) -> None:
        _cancel_timer(call)
        call.results = results
        self._queue.complete(call)

    def _checked(self, call: Call, result: Any, method: str) -> list[Any]:
        if isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
            return list(result)
        name = f"{type(self._function).__name__}.{method}()"
        error = TypeError(f"{name} must return a list of results, not {result!r}")
        raise user_function_error(self.context, error, call.value, getattr(self._function, method)) from error

    def _take(self) -> None:
        collector = self.collector
        for element in self._queue.take():
            if isinstance(element, Call):
                collector.add_results(element.results, element.timestamp)
            elif isinstance(element, Watermark):
                collector.mark(element.timestamp)
            else:
                collector.flush()
                self.output.emit_watermark_status(element)


def _cancel_timer(call: Call) -> None:
    if call.cancel_timer is not None:
        call.cancel_timer()
        call.cancel_timer = None


def _in_flight(input_type: TypeInformation | None) -> ListStateDescriptor:
    if input_type is None or isinstance(input_type, PickledBytesTypeInfo):
        return ListStateDescriptor(STATE_NAME)
    return ListStateDescriptor(STATE_NAME, Types.TUPLE([Types.LONG(), input_type]))


@dataclass(frozen=True)
class AsyncWaitOperatorFactory:
    """AsyncWait.

    Args:
        function: with an `async def async_invoke`.
        timeout_ms: time limit for a record, all its attempts together; 0 = none.
        capacity: most calls in flight at the same time.
        is_ordered: whether results come in the order of the records; else none passes a watermark.
        retry_strategy: when a call is made again.
        input_type: type of the records; None = Python objects.
        output_type: type of the results; None = Python objects.

    Raises:
        TypeError: the function is no AsyncFunction, or its `async_invoke` is no coroutine function.
        ValueError: the capacity is not positive, the timeout is negative, or retries have no time limit.
    """

    function: AsyncFunction[Any, Any]
    timeout_ms: int
    capacity: int = 100
    is_ordered: bool = True
    retry_strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY
    input_type: TypeInformation | None = None
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.function, AsyncFunction):
            raise TypeError(f"asynchronous I/O needs an AsyncFunction, not {self.function!r}")
        if not inspect.iscoroutinefunction(self.function.async_invoke):
            raise TypeError(f"{type(self.function).__name__}.async_invoke must be declared as `async def`")
        if not isinstance(self.retry_strategy, AsyncRetryStrategy):
            raise TypeError(f"expected an AsyncRetryStrategy, not {self.retry_strategy!r}")
        if self.capacity < 1:
            raise ValueError(f"the capacity must be at least 1, not {self.capacity}")
        if self.timeout_ms < 0:
            raise ValueError(f"the timeout must not be negative, it is {self.timeout_ms} ms")
        if self.timeout_ms == 0 and not isinstance(self.retry_strategy, NoRetryStrategy):
            raise ValueError("retries need a timeout: without one a record could be retried forever")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function], [operator_list(_in_flight(self.input_type))])

    def create(self) -> AsyncWaitOperator:
        return AsyncWaitOperator(self)
