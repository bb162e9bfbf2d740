"""Passes: a job's tasks, run one after the other over one batch of input: see `job_pass`."""
