"""`nodeless` for people: simulate, explain, view, check, dump, convert; reads only.

Commands are loaded when they are called for, so that `nodeless run` starts without any of this.
"""
