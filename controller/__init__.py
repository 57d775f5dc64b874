"""The NodeLess controller: it turns unschedulable pods into EC2 nodes and takes away nodes that earn nothing."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Before numpy is imported: the solver's products are small, threads that wait for each other cost half its time."""

__version__ = "0.1.0"
