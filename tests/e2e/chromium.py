"""Finds the browser for the journeys: TIDEMARK_CHROMIUM, PATH, or, as root on Debian, its package.

Playwright's own download is not used: it is large, and not allowed everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess

#: nothing of it calls home, and it runs as root in a container
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # a page of the product asks nobody but its own server
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_HELP = "install Chromium (Debian: apt-get install chromium) or name one with TIDEMARK_CHROMIUM"


class NoChromium(Exception):
    """No browser was found; the message is one line that says what to do."""


def find_chromium() -> str:
    """Return the browser's binary, installing it if possible.

    Raises:
        NoChromium: there is none.
    """
    named = os.environ.get("TIDEMARK_CHROMIUM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NoChromium(f"TIDEMARK_CHROMIUM is {named}, which is no program; {_HELP}")
        return found
    found = _in_path()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (("update", "-q"), ("install", "-y", "-q", "--no-install-recommends", "chromium")):
            subprocess.run(("apt-get", *command), env=environment, capture_output=True, check=False, timeout=300)
        found = _in_path()
    if found is None:
        raise NoChromium(f"no Chromium was found in PATH; {_HELP}")
    return found


def _in_path() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)
