"""Generates what is committed of the contract: docs/openapi.json and the page's types.

`python -m backend.gen` (`make gen`) writes both. Needs the packages of requirements-dev.txt; nothing that runs on a
server imports it.
"""
