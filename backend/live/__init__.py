"""Backend of the web page: live documents over WebSocket and REST, logs, static files, health checks."""
