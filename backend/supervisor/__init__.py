"""`make run`: everything that a session cluster on one machine needs, started and watched by one process.

It has no threads and does nothing but that; what needs Django runs in a child (`prepare`).
"""
