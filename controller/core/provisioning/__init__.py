"""From pending pods to a plan: which nodes to launch, which pods go where, and why."""
