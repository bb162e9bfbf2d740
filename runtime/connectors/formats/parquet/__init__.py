"""Parquet. `files`: reading and writing of files; `rows`: how row groups become columns in memory."""
