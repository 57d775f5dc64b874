"""The `nodeless` command: run, and the read-only simulate, rebalance, explain, view, cost, check, dump and others.

Commands are imported on demand, so that `nodeless run` starts without the others.
"""
