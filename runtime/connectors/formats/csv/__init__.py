"""CSV. `columns`: plain files by Arrow, the fast way; `schema`, `files`, `messages`: all that PyFlink's CsvSchema and
message schemas can say, line by line over `lines`.
"""
