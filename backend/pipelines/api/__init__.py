"""REST routes under /api/v1/pipelines and /api/v1/connections."""
