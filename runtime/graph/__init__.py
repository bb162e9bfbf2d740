"""Translation of the user's program into a job: StreamGraph → chaining → JobGraph, and the plans that a UI draws.

Pure functions over plain values; nothing here runs user code, though `chaining` pickles it.
"""
