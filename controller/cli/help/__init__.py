"""A page of the documentation in the terminal, without a network."""
