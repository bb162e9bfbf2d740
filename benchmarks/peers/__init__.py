"""The works in other engines, for `--peers`: programs of their own that import nothing of Tidemark.

Each is run by an interpreter that has the engine, with the same arguments: `PROGRAM WORK INPUT SINK SLOTS`. SINK is a
directory for JSON lines, or `-` to throw results away. The last line of its stdout is a JSON object with `seconds`,
which leaves the engine's own start out.
"""
