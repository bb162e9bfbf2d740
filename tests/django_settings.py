"""Settings of the tests: the real ones, in a home of their own that is gone afterwards."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# before the settings are read: they make the home's secrets and name its database
_home = tempfile.mkdtemp(prefix="tidemark-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["TIDEMARK_HOME"] = _home

from backend.config.settings import *  # noqa: E402, F403

#: logging in is tested, the cost of guessing a password is not
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

#: users of many tests have the same id; a test that wants a limit sets one
TIDEMARK_SUBMISSIONS_PER_MINUTE = 0
TIDEMARK_SOCKETS_PER_USER = 0

#: a test that wants a process to be kept ready says so, and ends it
TIDEMARK_WARM_PREVIEWS = False

if "options" in DATABASES["default"].get("OPTIONS", {}):  # noqa: F405
    #: a test is one transaction, which waits for processes of its own, and PostgreSQL would end it on a busy machine
    DATABASES["default"]["OPTIONS"]["options"] = "-c lock_timeout=5000"  # noqa: F405

#: compares all answers with docs/openapi.json
MIDDLEWARE = [*MIDDLEWARE, "tests.contract.checked_answers.CheckedAnswers"]  # noqa: F405
