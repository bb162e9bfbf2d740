"""Django's admin at /admin, for administrators: looks into the tables, and asks for what the REST API asks for."""
