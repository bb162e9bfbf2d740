"""The reference loops: the same work without an engine. Imports nothing of the engine, on purpose.

Each loop has its own part of the input in its own process, as many processes as the engine has slots, and hands back
its partial result; partial results are merged at the end, within the measured time. There is no exchange, no
checkpoint, no watermark: less than a stream has to do. Polars gets one thread per process.
"""
