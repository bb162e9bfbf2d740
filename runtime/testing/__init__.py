"""Public test kit: a manual clock, operator harnesses, sources that crash where told."""
