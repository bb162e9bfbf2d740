"""The audit trail: who did what, from where, and how it ended. Append-only, in the database."""
