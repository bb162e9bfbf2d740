"""Pipelines that are drawn in the browser: their versions, drafts, connections and deployments."""
