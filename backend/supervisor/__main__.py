"""Entry point of `make run`: `python -m backend.supervisor`."""

from __future__ import annotations

import sys

from backend.config.environment import EnvironmentProblem
from backend.supervisor.checks import StartProblem
from backend.supervisor.supervisor import Supervisor
from runtime.client.confinement import hide_process
from runtime.network.tls import TlsError, Transport


def main() -> int:
    """Run until a signal; print one line and return 1 if something is missing."""
    hide_process()
    try:
        # JobManagers and TaskManagers would end, and be started again for ever
        Transport.of_environment()
        return Supervisor().run()
    except (EnvironmentProblem, StartProblem, TlsError) as problem:
        print(f"run: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
