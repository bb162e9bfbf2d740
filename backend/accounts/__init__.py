"""Who may do what: API tokens, sessions, one-time login links, roles."""
