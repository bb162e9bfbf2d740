"""Backend of the web page: sends live documents over WebSocket and REST, logs, static files, health checks.

The jobmanager builds the documents, so their builders stand below this app: `backend.cluster.live_document` for a job,
`checkpoint_document` for its checkpoints, `cluster_document` for the cluster.
"""
