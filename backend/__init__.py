"""Tidemark's control plane: Django apps around the engine in `runtime`, which knows nothing of them.

`cluster` runs jobs (jobmanager, taskmanager, SQL models), `accounts` knows who asks, `dispatcher` and `live` are the
REST and WebSocket faces, `config` holds settings. Apps import downwards only: live, dispatcher, cluster, accounts.
"""
