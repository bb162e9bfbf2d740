"""Serves the web application: `python -m backend.config.web_server [--host ADDRESS] [--port PORT] [--workers N]`.

The one place of uvicorn's options. Proxies are Tidemark's own matter (TIDEMARK_TRUSTED_PROXIES): uvicorn believes
whatever is on loopback.
"""

from __future__ import annotations

import argparse
from typing import Final

import uvicorn

MAX_FRAME_BYTES: Final = 1 << 16
"""Of a WebSocket; larger ones end it."""
START_TIMEOUT_S: Final = 60
"""What is being imported on a busy machine does not answer for seconds, and would be killed again and again."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="backend.config.web_server", description="Serve Tidemark's page and API.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at (8000)")
    parser.add_argument("--workers", type=int, default=1, help="processes on that port; each answers on one core (1)")
    options = parser.parse_args()
    uvicorn.run(
        "backend.config.asgi:application",
        host=options.host,
        port=options.port,
        workers=options.workers,
        http="backend.config.patient_http:PatientHttp",
        ws_max_size=MAX_FRAME_BYTES,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        timeout_worker_healthcheck=START_TIMEOUT_S,
    )


if __name__ == "__main__":
    main()
