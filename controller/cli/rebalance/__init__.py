"""A plan of steps that make a cluster cheaper, by few moved pods; and those steps, once approved."""
