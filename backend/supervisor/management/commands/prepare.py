"""`manage.py prepare`: the steps of `make run` that need Django and run before the processes start.

Migrates the database, copies programs and logs of earlier releases to the storage, sets the administrator's token
(TIDEMARK_ADMIN_TOKEN) and creates a login link. Prints one line of JSON: {"login": path of the link, "first_run":
whether `manage.py first_run` has something to do}.
"""

from __future__ import annotations

import json
import os
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from backend.accounts.services import create_login_link, ensure_admin
from backend.cluster.connections import lift_limits
from backend.cluster.job_logs import copy_logs_of_home
from backend.cluster.program_files import copy_programs_of_home
from backend.config.environment import EnvironmentProblem
from backend.pipelines import first_run
from runtime.checkpoint.errors import CheckpointStorageError


class Command(BaseCommand):
    help = "Migrate the database, set the administrator's token and print a login link as JSON."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lift_limits()
            call_command("migrate", verbosity=0, interactive=False)
            admin = ensure_admin(os.environ["TIDEMARK_ADMIN_TOKEN"])
            copy_programs_of_home()
            copy_logs_of_home()
            answer = {"login": create_login_link(admin), "first_run": first_run.is_due()}
        except EnvironmentProblem as problem:
            raise CommandError(str(problem)) from problem
        except DatabaseError as error:
            raise CommandError(f"the database cannot be used: {str(error).strip().splitlines()[0]}") from error
        except (CheckpointStorageError, OSError) as error:
            raise CommandError(f"the storage cannot be used: {error}") from error
        self.stdout.write(json.dumps(answer))
