"""A day of a cluster in virtual time: the controller's own loops, and Kubernetes and EC2 in memory around them."""
