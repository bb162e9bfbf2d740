"""Tidemark's control plane: Django apps around the engine in `runtime`, which does not depend on them.

`cluster` runs jobs (jobmanager, taskmanager, SQL models), `accounts` authenticates users, `dispatcher` and `live` serve
REST and WebSocket, `config` holds settings. Apps import downwards only: live, dispatcher, cluster, accounts.
"""
