"""Formats of messages and files at PyFlink's module paths: `json`, `csv`, `avro`, `parquet`."""

__all__: list[str] = []
