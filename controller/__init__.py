"""The NodeLess controller: launch EC2 nodes for unschedulable pods, remove nodes that are not worth their price."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Before numpy is imported: the solver's products are small, threads that wait for each other cost half its time."""

__version__ = "0.1.0"
