"""The NodeLess controller: it turns unschedulable pods into EC2 nodes and takes away nodes that earn nothing."""

__version__ = "0.1.0"
