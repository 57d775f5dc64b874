"""A plan of steps that make a cluster cheaper, by few moved pods; nothing is changed."""
