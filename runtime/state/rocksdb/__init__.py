"""Keyed state as rows of RocksDB, read through a write-back cache of decoded values."""
