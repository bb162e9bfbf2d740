"""Starts the command line. Ctrl-C while its modules are still loading ends it at once and without a traceback."""

from __future__ import annotations

import signal
import sys

_handler = signal.getsignal(signal.SIGINT)
# a shell that starts it in the background makes it ignore the signal
if _handler is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from runtime.client.cli import main  # noqa: E402 (loading is what takes the time)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, _handler)
    sys.exit(main())
