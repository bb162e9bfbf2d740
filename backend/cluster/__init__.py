"""The session cluster: SQL models, the jobmanager that leads it, TaskManagers, and services for the faces above."""
