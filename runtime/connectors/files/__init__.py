"""File source and file sink, with their formats.

`FileSource` cuts files into splits and reads them through a `FileFormat`; `FileSink` writes part files through a
`FileWriterFormat` and gives them their final names in a second step. Local file systems only: paths or `file:` URIs.
"""
