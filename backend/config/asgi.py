"""ASGI application of the web process: HTTP to Django, /ws/ to the live consumers.

Programs that it plans run as its user, so it hides its environment and memory first.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from typing import Final, cast

from channels.routing import ProtocolTypeRouter

from backend.config import environment, request_handler
from runtime.client.confinement import end_with_parent, hide_process
from runtime.core.garbage import collect_garbage_less_often

SWITCH_INTERVAL_S: Final = 0.0005
"""So long a thread computes while another one waits for its turn. A request gives its turn up ten times, at every query
and whenever it talks to Redis; with the interpreter's 5 ms, it waits that long each time if others compute. Shorter:
threads do little but change."""

hide_process()
sys.setswitchinterval(SWITCH_INTERVAL_S)
if (parent := multiprocessing.parent_process()) is not None:
    # one of several that share a port: without the one that starts them it would hold the port for ever
    end_with_parent(cast("int", parent.pid))
if "TIDEMARK_HOST" in os.environ:
    # where the server listens, as `make run` and the compose file tell
    environment.check_exposure(environment.host())
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.config.settings")
http_application = request_handler.http_application()

# models can be imported only once Django is set up
from backend.accounts.client_address import ForwardedClients  # noqa: E402
from backend.config import urls  # noqa: E402, F401
from backend.config.base_path import WithBasePath, WithoutBasePath  # noqa: E402
from backend.dispatcher.presence import ClientWatch  # noqa: E402
from backend.dispatcher.uploads import BodyLimit  # noqa: E402
from backend.live.routing import websocket_application  # noqa: E402

base_path = environment.base_path()
http = BodyLimit(ClientWatch(WithBasePath(http_application, base_path)))
application = ForwardedClients(
    WithoutBasePath(ProtocolTypeRouter({"http": http, "websocket": websocket_application}), base_path),
    environment.trusted_proxies(),
)

# of what was imported, a full collection stops every request for 0.1 s
gc.collect()
collect_garbage_less_often()
