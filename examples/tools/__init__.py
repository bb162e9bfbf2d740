"""Tools that make the data of the examples."""
