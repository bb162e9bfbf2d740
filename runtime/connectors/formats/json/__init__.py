"""JSON. `ndjson`: files of one value a line; `messages`: rows as objects."""
