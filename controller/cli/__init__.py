"""The `nodeless` command: run, rebalance, and the read-only simulate, explain, view, cost, check, dump and others.

Commands are imported on demand, so that `nodeless run` starts without the others.
"""
