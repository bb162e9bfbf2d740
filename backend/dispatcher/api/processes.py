"""Logs, threads and environment of the processes: /jobmanager/… of the leader, /taskmanagers/:taskmanagerid/…"""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.cluster.jobmanager_list import leading_jobmanager
from backend.cluster.process_log import read_process_log
from backend.cluster.process_report import ProcessReport, read_process
from backend.cluster.program_files import storage_problems
from backend.cluster.slot_output import SlotOutput, read_slot_output
from backend.cluster.storage_calls import LOGS, ask
from backend.contract.operation import operation
from backend.dispatcher.answers import cluster as answers
from backend.dispatcher.api.base import FlinkView
from backend.dispatcher.api.cluster import find_taskmanager, used_slots
from backend.dispatcher.shapes.processes import LOG_NAMES, OUT_NAME, environment_info, thread_infos

TEXT = "text/plain"
OUTPUT_BYTES = 64 << 10
"""Of a slot, in a TaskManager's standard output."""


class JobManagerLogsView(FlinkView):
    @operation(answers.ProcessLogs)
    def get(self, request: Request) -> Response:
        return Response({"logs": _logs_of(leading_jobmanager())})


class JobManagerLogFileView(FlinkView):
    @operation(str, answer_media_type=TEXT)
    def get(self, request: Request, file_name: str) -> HttpResponse:
        return _log(leading_jobmanager(), "jobmanager", file_name)


class JobManagerLogView(FlinkView):
    @operation(str, answer_media_type=TEXT)
    def get(self, request: Request) -> HttpResponse:
        return _log(leading_jobmanager(), "jobmanager", LOG_NAMES["jobmanager"])


class JobManagerOutputView(FlinkView):
    """Standard output of the JobManager: empty, as programs run in slots."""

    @operation(str, answer_media_type=TEXT)
    def get(self, request: Request) -> HttpResponse:
        return _text("")


class JobManagerThreadsView(FlinkView):
    @operation(answers.ThreadDumps)
    def get(self, request: Request) -> Response:
        return Response(thread_infos(read_process(leading_jobmanager())))


class JobManagerEnvironmentView(FlinkView):
    @operation(answers.ProcessEnvironment)
    def get(self, request: Request) -> Response:
        return Response(environment_info(read_process(leading_jobmanager())))


class TaskManagerLogsView(FlinkView):
    @operation(answers.ProcessLogs)
    def get(self, request: Request, taskmanager_id: str) -> Response:
        find_taskmanager(taskmanager_id)
        outputs = _outputs(taskmanager_id)
        printed = {
            "name": OUT_NAME,
            "size": sum(output.size for _, output in outputs),
            "mtime": max((output.changed_at for _, output in outputs), default=0),
        }
        return Response({"logs": [*_logs_of(taskmanager_id), printed]})


class TaskManagerLogFileView(FlinkView):
    @operation(str, answer_media_type=TEXT)
    def get(self, request: Request, taskmanager_id: str, file_name: str) -> HttpResponse:
        find_taskmanager(taskmanager_id)
        if file_name == OUT_NAME:
            return _printed(taskmanager_id)
        return _log(taskmanager_id, "taskmanager", file_name)


class TaskManagerLogView(FlinkView):
    @operation(str, answer_media_type=TEXT)
    def get(self, request: Request, taskmanager_id: str) -> HttpResponse:
        find_taskmanager(taskmanager_id)
        return _log(taskmanager_id, "taskmanager", LOG_NAMES["taskmanager"])


class TaskManagerOutputView(FlinkView):
    """The newest lines that each slot in use there has printed."""

    @operation(str, answer_media_type=TEXT)
    def get(self, request: Request, taskmanager_id: str) -> HttpResponse:
        find_taskmanager(taskmanager_id)
        return _printed(taskmanager_id)


class TaskManagerThreadsView(FlinkView):
    @operation(answers.ThreadDumps)
    def get(self, request: Request, taskmanager_id: str) -> Response:
        find_taskmanager(taskmanager_id)
        return Response(thread_infos(read_process(taskmanager_id)))


def _logs_of(process: str) -> list[dict[str, str | int]]:
    report: ProcessReport | None = read_process(process)
    if report is None:
        return []
    size = len(read_process_log(process).encode())
    return [{"name": LOG_NAMES[report["kind"]], "size": size, "mtime": report["logged_at"]}]


def _log(process: str, kind: str, file_name: str) -> HttpResponse:
    text = read_process_log(process) if file_name == LOG_NAMES[kind] else ""
    # a process that has said nothing yet has an empty log
    if not text and (file_name != LOG_NAMES[kind] or read_process(process) is None):
        raise exceptions.NotFound(f"The file {file_name[:100]} is not available on {process or 'the JobManager'}.")
    return _text(text)


def _printed(taskmanager_id: str) -> HttpResponse:
    parts = (f"# {title}\n{output.text}" for title, output in _outputs(taskmanager_id) if output.text)
    return _text("".join(parts))


def _outputs(taskmanager_id: str) -> list[tuple[str, SlotOutput]]:
    slots = used_slots(taskmanager_id)

    def look() -> list[tuple[str, SlotOutput]]:
        return [
            (
                f"job {slot.job_id}, slot {slot.slot}",
                read_slot_output(slot.job_id, slot.attempt, slot.slot, OUTPUT_BYTES),
            )
            for slot in slots
        ]

    with storage_problems(LOGS):
        return ask(LOGS, look)


def _text(text: str) -> HttpResponse:
    return HttpResponse(text, content_type=f"{TEXT}; charset=utf-8")
