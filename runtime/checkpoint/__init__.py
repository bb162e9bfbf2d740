"""Checkpoints and savepoints: the coordinator that decides (pure), handling of barriers, and storage of snapshots.

Pure: coordinator, barrier_handler, assignment, shared_registry, statistics, settings, layout, metadata. At the edge:
file_system, storage, snapshot_files, file_completed_store, cleanup, savepoint_reader.
"""
