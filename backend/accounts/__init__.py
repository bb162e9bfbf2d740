"""Authentication and authorization: API tokens, sessions, one-time login links, roles."""
