"""The session cluster: SQL models, the leading jobmanager, TaskManagers, and services for the apps above."""
