"""Measurements of the engine beside reference loops over the same file, in the same run."""
