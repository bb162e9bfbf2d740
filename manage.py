#!/usr/bin/env python
"""Django's command line: `manage.py run` (everything), `jobmanager`, `taskmanager`, `migrate` and the usual ones."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
    execute_from_command_line(sys.argv)
