#!/usr/bin/env python
"""Django's command line: `manage.py run` (everything), `jobmanager`, `taskmanager`, `migrate` and the usual ones."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from runtime.client.confinement import hide_process

if __name__ == "__main__":
    # these processes hold secrets, and the code of users runs beside them
    hide_process()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    execute_from_command_line(sys.argv)
