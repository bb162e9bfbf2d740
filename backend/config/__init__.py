"""Settings, URL table, ASGI and Celery applications."""
