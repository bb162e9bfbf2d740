"""The page's side of the web process: live documents over WebSocket and REST, logs, the page's files, health."""
