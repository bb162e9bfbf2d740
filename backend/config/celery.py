"""The Celery application: short, idempotent commands to TaskManagers, JSON only, no results.

The broker holds no job state: a lost or duplicate command does no harm.
"""

from __future__ import annotations

from celery import Celery

from backend.config import environment

app = Celery("tidemark", broker=environment.redis_url(), set_as_current=True)
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    event_serializer="json",
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    # late acks would redeliver a long command after an hour; duplicates are recognised by their id anyway
    task_acks_late=False,
    worker_direct=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "global_keyprefix": f"{environment.redis_prefix()}:celery:",
        "socket_keepalive": True,
        "socket_connect_timeout": 5,
        "health_check_interval": 10,
        "visibility_timeout": 3600,
    },
    imports=["backend.cluster.tasks"],
)
