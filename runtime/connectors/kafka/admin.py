"""Admin: an admin client of librdkafka that says why brokers do not answer.

librdkafka tries again whatever happens, and tells of wrong passwords, unknown certificates and addresses where nobody
listens to a callback only: an answer that does not come has no reason of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ResourceType,
)

_STEP_S: Final = 2.0
"""Time after which a question is asked again, unless it is known that nobody will answer."""
_HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_NO_ANSWER: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._SSL, *_HOPELESS}
)


class Admin:
    """Connects when it is asked something. Used by one thread.

    Args:
        properties: of a client of librdkafka.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._servers = str(properties.get("bootstrap.servers", ""))
        self._reason: KafkaError | None = None
        self._hopeless: KafkaError | None = None
        settings: dict[str, Any] = {**properties, "error_cb": self._on_error}
        self.client = AdminClient(settings)

    def topics(self, timeout_s: float) -> ClusterMetadata:
        """Return what the brokers know of themselves and of all topics.

        Raises:
            KafkaException: they do not answer in time, or refuse this client, which is told at once; with the reason.
        """
        until = time.monotonic() + timeout_s
        while True:
            left_s = until - time.monotonic()
            try:
                return self.client.list_topics(timeout=min(_STEP_S, max(0.1, left_s)))
            except KafkaException as error:
                self.client.poll(0)
                if error.args[0].code() not in _NO_ANSWER:
                    raise
                if self._hopeless is not None or left_s <= _STEP_S:
                    raise self.explained(error) from error

    def max_message_bytes(self, topic: str, timeout_s: float) -> int | None:
        """Return how large a batch of records a topic takes; None: nobody says so to this client in time."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            [answer] = self.client.describe_configs([resource], request_timeout=timeout_s).values()
            entry = answer.result(timeout_s).get("max.message.bytes")
        except (KafkaException, TimeoutError):
            return None
        return None if entry is None or entry.value is None else int(entry.value)

    def explained(self, error: KafkaException) -> KafkaException:
        """Return an error with what is known of its reason, if it is that nobody has answered."""
        self.client.poll(0)
        known = self._hopeless or self._reason
        if error.args[0].code() not in _NO_ANSWER or known is None:
            return error
        return KafkaException(KafkaError(error.args[0].code(), f"no answer from {self._servers}: {known.str()}"))

    def _on_error(self, error: KafkaError) -> None:
        # that all brokers are down is told behind what is the matter with each of them
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._reason = error
        if error.code() in _HOPELESS:
            self._hopeless = error
