"""`manage.py taskmanager`: offer slots until a signal.

SIGTERM drains the process: its jobs are moved elsewhere, which may take TIDEMARK_DRAIN_TIMEOUT. A second one, SIGINT or
a timeout of 0 end it within seconds, and its jobs restart.

The order matters: the SparkSession is created first, while the process has one thread (PySpark forks to start its JVM);
before that, secrets are removed from the environment, because user code inherits it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from typing import Any

import redis
from celery.signals import setup_logging
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from backend.cluster import bus, tasks
from backend.cluster.lifelines import dead_taskmanagers, hold_lifeline
from backend.cluster.open_files import raise_open_files
from backend.cluster.process_report import ProcessReporter
from backend.cluster.taskmanager import TaskManager, TaskManagerIdentity
from backend.config import environment
from backend.config.celery import app
from runtime.common.configuration import Configuration
from runtime.common.options import SPARK_MASTER
from runtime.core.clock import SYSTEM_CLOCK
from runtime.execution.errors import ExecutionError
from runtime.execution.session_health import SessionWatch, kill_jvm
from runtime.execution.spark_executors import SparkExecutors
from runtime.execution.spark_session import acquire_context, is_local
from runtime.execution.spark_stages import SparkStages
from runtime.network.addresses import listening_host
from runtime.network.tls import TlsError, Transport

logger = logging.getLogger(__name__)

#: variables that user code must not find in its environment; this process has read them already
SECRETS = (
    "TIDEMARK_ADMIN_TOKEN",
    "TIDEMARK_CLUSTER_KEY",
    "TIDEMARK_FORMER_CLUSTER_KEYS",
    "TIDEMARK_SECRET_KEY",
    "TIDEMARK_FORMER_SECRET_KEYS",
    "DATABASE_URL",
    "REDIS_URL",
)
#: commands only hand over work; with two threads, a command that waits for a lock does not delay the ping
WORKER_THREADS = 2
DRAIN_BEAT_S = 0.5


class Command(BaseCommand):
    help = (
        "Run a TaskManager: it offers TIDEMARK_SLOTS slots on TIDEMARK_SPARK_MASTER. "
        "SIGTERM moves its jobs elsewhere first; a second one, or SIGINT, ends it at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        raise_open_files()
        signals = _Signals()
        slots, master, drain_s = environment.slots(), environment.spark_master(), environment.drain_timeout_s()
        for name in (*SECRETS, *environment.reference_rules().variables()):
            os.environ.pop(name, None)
        _tell_of_the_dead()
        try:
            # its slots have the same environment
            Transport.of_environment()
            context = acquire_context(_configuration(master), slots)
        except (ExecutionError, TlsError) as error:
            raise CommandError(str(error)) from error
        identity = TaskManagerIdentity.create(slots, master, SYSTEM_CLOCK.now_ms())
        # held until the process ends
        lifeline = hold_lifeline(settings.TIDEMARK_HOME, identity.host, identity.id)
        stages = SparkStages(context)
        if is_local(master):
            stages.warm_up()
        watch = SessionWatch(context)

        def die(cause: str) -> None:
            try:
                # one that hangs would outlive this process
                kill_jvm(context)
            finally:
                _die(cause)

        manager = TaskManager(identity, stages, watch.defect, SYSTEM_CLOCK, die)
        tasks.serve(manager, identity.worker_name)
        worker = threading.Thread(target=_consume, args=(identity.worker_name,), name="celery", daemon=True)
        worker.start()
        manager.start()
        # after Spark has forked: what it starts has no threads
        ProcessReporter(identity.id, "taskmanager", executors=SparkExecutors(context).look).start()
        logger.info("TaskManager %s offers %d slots on %s", identity.id, slots, master)
        signals.wait()
        if drain_s and not signals.at_once.is_set():
            logger.info("TaskManager %s is drained within %d s", identity.id, drain_s)
            manager.drain(drain_s * 1000.0)
            logger.info("TaskManager %s has drained: %s", identity.id, _drained(manager, signals.at_once))
        logger.info("TaskManager %s stops", identity.id)
        manager.stop()
        lifeline.close()
        # do not wait for the worker's threads or a JVM that is slow to stop: they end with the process
        _exit(0)


def _drained(manager: TaskManager, at_once: threading.Event) -> str:
    """Wait until the process has drained, or is to end at once; return why that is."""
    while not at_once.wait(DRAIN_BEAT_S):
        cause = manager.why_drained()
        if cause:
            return cause
    return "it was told to end at once"


class _Signals:
    """Notes the signals that end this process."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.at_once = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def wait(self) -> None:
        """Wait for the first signal.

        Only this thread handles signals, and one that another thread gets does not wake it: it has to look.
        """
        while not self.told.wait(DRAIN_BEAT_S):
            pass

    def _on_signal(self, number: int, _: object) -> None:
        if number == signal.SIGINT or self.told.is_set():
            self.at_once.set()
        self.told.set()


def _tell_of_the_dead() -> None:
    """Report TaskManagers killed on this machine as gone: they could not sign off, and time out only much later."""
    try:
        with dead_taskmanagers(settings.TIDEMARK_HOME, socket.gethostname()) as names:
            for name in names:
                bus.post_event({"type": "gone", "taskmanager": name, "cause": "its process has ended"})
    except (redis.RedisError, OSError) as error:
        # the leader notices in the end, by their timeout
        logger.warning("ended TaskManagers could not be reported: %s", error)


def _configuration(master: str) -> Configuration:
    configuration = Configuration()
    configuration.set_string(SPARK_MASTER.key, master)
    configuration.set_string("spark.app.name", "Tidemark TaskManager")
    host = os.environ.get("TIDEMARK_TASKMANAGER_HOST")
    if host:
        # the address by which other machines reach this driver and the slots of a local master
        configuration.set_string("spark.driver.host", host)
        configuration.set_string("spark.driver.bindAddress", listening_host(host))
    return configuration


def _consume(worker_name: str) -> None:
    """Consume commands from this worker's own queue until the process ends."""
    setup_logging.connect(lambda **_: None, weak=False)
    app.conf.task_queues = []
    controller = app.WorkController(
        app=app,
        hostname=worker_name,
        pool="threads",
        concurrency=WORKER_THREADS,
        queues=[],
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
        loglevel="INFO",
    )
    try:
        controller.start()
    finally:
        _die("the Celery worker ended")


def _die(cause: str) -> None:
    """End this process without cleaning up, because the clean-up itself might hang."""
    logger.error("TaskManager ends: %s", cause)
    _exit(1)


def _exit(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
