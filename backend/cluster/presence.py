"""Presence: a jobmanager's process shows that it lives: to users on the bus, to standbys by accepting their lines."""

from __future__ import annotations

import logging
import threading

import redis

from backend.cluster import bus
from backend.cluster.leader_line import LeaderListener

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0


class Presence:
    """Reports this process on a thread of its own, whether it leads or stands by.

    Args:
        name: host and process.
        listener: its listener; used by that thread only.
    """

    def __init__(self, name: str, listener: LeaderListener) -> None:
        self._name = name
        self._listener = listener
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """Sign off."""
        self._stop.set()
        self._thread.join(2 * INTERVAL_S)

    def _run(self) -> None:
        is_away = False
        while not self._stop.is_set():
            self._listener.accept()
            try:
                bus.show_jobmanager(self._name)
                is_away = False
            except redis.RedisError as error:
                if not is_away:
                    logger.warning("Redis cannot be told of this JobManager: %s", error)
                is_away = True
            self._stop.wait(INTERVAL_S)
        try:
            bus.hide_jobmanager(self._name)
        except redis.RedisError as error:
            logger.warning("this JobManager could not sign off: %s", error)
        self._listener.close()
