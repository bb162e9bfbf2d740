"""Django with an empty database in memory, for a process that is no test's."""

from __future__ import annotations

import os

import django
from django.core.management import call_command
from django.db import connection


def set_up() -> None:
    """Set Django up; to be called before any module with models is imported."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django_settings")
    django.setup()
    connection.settings_dict["NAME"] = ":memory:"
    call_command("migrate", verbosity=0)
