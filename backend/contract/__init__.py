"""The contract between server and clients: what every route takes and answers, and what every live topic sends.

Types are ordinary Python types (`TypedDict`, `NamedTuple`, `Literal` …). `operation` attaches them to the views,
`schema` turns them into JSON Schema. `backend.gen` writes docs/openapi.json and the page's types from them.
"""
