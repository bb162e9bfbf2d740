"""The workloads of `make bench`, by group: each module has a function that creates them for given options."""
