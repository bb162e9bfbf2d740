"""Flink's answers as plain values, built from rows and live documents. Pure: no request, query or clock in here.

A live document is what `backend.cluster` publishes of a job; times are epoch milliseconds. Source of the shapes:
answers of a Flink 2.3 cluster.
"""
