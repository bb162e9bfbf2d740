"""Tidemark programs, and the data and tools that they use. Run each one as a script."""
