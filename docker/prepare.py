"""Prepares database and storage: migrations, the administrator (TIDEMARK_ADMIN_TOKEN), programs. Run once per release.

A separate step before any process starts: processes that migrate by themselves would do so concurrently.
"""

from __future__ import annotations

import os
import sys

import django
from django.core.management import call_command


def main() -> None:
    """Migrate the database, create the administrator, and copy programs of earlier releases to the storage.

    Raises:
        SystemExit: there is no token.
    """
    token = os.environ.get("TIDEMARK_ADMIN_TOKEN", "")
    if not token:
        sys.exit("prepare: TIDEMARK_ADMIN_TOKEN is not set; make one with `openssl rand -hex 32`")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    from backend.config.environment import EnvironmentProblem, check_secret

    try:
        check_secret("TIDEMARK_ADMIN_TOKEN", token)
    except EnvironmentProblem as problem:
        sys.exit(f"prepare: {problem}")
    django.setup()
    # these can be imported only once Django is set up
    from backend.accounts.services import ensure_admin
    from backend.cluster.connections import lift_limits
    from backend.cluster.job_logs import copy_logs_of_home
    from backend.cluster.program_files import copy_programs_of_home

    lift_limits()
    call_command("migrate", interactive=False)
    ensure_admin(token)
    copy_programs_of_home()
    copy_logs_of_home()


if __name__ == "__main__":
    main()
