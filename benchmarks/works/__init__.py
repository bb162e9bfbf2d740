"""The works of `make bench`, by group: each module has a function that makes them for given options."""
