"""`make run`: one process that starts and watches everything a session cluster on one machine needs.

It has no threads; work that needs Django runs in a child process (`prepare`).
"""
