"""Flink's responses as plain values, built from rows and live documents. Pure: without requests, queries and clocks.

A live document is published by `backend.cluster` for each job; times are epoch milliseconds. Source: responses of a
Flink 2.3 cluster.
"""
