"""Types of what the routes of pipelines take and answer, for the contract with clients; one file for each of `api`.

Times are epoch ms.
"""
