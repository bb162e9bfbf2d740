"""The inbox: what has happened on the cluster since a user last looked."""
