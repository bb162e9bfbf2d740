"""`manage.py first_run`: a cluster that nobody has used yet gets a pipeline, and its job. Prints nothing."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from rest_framework.exceptions import APIException

from backend.accounts.services import ADMIN_NAME
from backend.cluster.program_files import StorageProblem
from backend.config import environment
from backend.pipelines.first_run import first_run
from backend.pipelines.services import PipelineError

PARALLELISM = 2


class Command(BaseCommand):
    help = "Make the pipeline of the first run and deploy it, once."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            first_run(User.objects.get(username=ADMIN_NAME), min(PARALLELISM, environment.slots()))
        except DatabaseError as error:
            raise CommandError(f"the database cannot be used: {str(error).strip().splitlines()[0]}") from error
        except APIException as error:
            raise CommandError(in_words(error)) from error
        except (PipelineError, StorageProblem) as error:
            raise CommandError(str(error)) from error


def in_words(error: APIException) -> str:
    """Return what an error says, without the structure that it has for REST clients."""
    return " ".join(_texts(error.detail))


def _texts(detail: Any) -> list[str]:
    if isinstance(detail, dict):
        detail = list(detail.values())
    return [text for each in detail for text in _texts(each)] if isinstance(detail, list) else [str(detail)]
