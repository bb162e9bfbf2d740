"""Vectorised operators: whole batches in Polars, expressions in SQL, state in columnar segments.

They take batches with columns (`Types.ROW_NAMED`) and return the same results as the operators that call a function for
each record. `polars.sql_expr` defines their SQL. Polars reads POLARS_MAX_THREADS when it is first imported: a slot that
shares its machine with others should run with 1. Used by the task's thread.
"""
