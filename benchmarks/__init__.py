"""Measures the engine and reference loops over the same file, in the same run."""
