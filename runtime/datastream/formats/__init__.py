"""Formats of messages and files at PyFlink's module paths: `json`, `csv`, `avro`, `parquet`."""
