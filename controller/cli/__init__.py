"""`nodeless` for people: simulate, explain, view, check, dump and convert. Nothing here writes to a cluster or to AWS.

Commands are loaded when they are called for, so that `nodeless run` starts without any of this.
"""
