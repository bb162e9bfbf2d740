"""Keyed state as Python objects in dicts."""
