"""Columnar state in files of Arrow columns that checkpoints share."""
