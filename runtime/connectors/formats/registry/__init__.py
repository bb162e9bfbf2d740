"""Messages whose schema is in a registry: Confluent's wire format for Avro and for JSON.

`client`: the registry's REST API; `wire`: the bytes before a message; `avro` and `json`: the formats, named as Flink's
in SQL (`avro-confluent`).
"""
