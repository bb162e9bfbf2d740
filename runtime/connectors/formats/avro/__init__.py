"""Avro. `types`: Avro's types as Tidemark's, with the conversion of values; `schema`: the schema of records; `files`:
container files, and `codecs` of their blocks; `messages`: one datum each.
"""
