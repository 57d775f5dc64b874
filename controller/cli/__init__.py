"""The `nodeless` command: run, and the read-only simulate, explain, view, cost, check, dump, convert, manifests.

Commands are imported on demand, so that `nodeless run` starts without the others.
"""
