"""Clients of a session cluster: plan extraction in a child process, REST client, and the `tidemark` command.

The web process imports `extract` only, which loads no Spark and no user code.
"""
