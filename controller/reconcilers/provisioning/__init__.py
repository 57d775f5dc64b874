"""Pending pods to launches: the loop, its log, its events and ledger records."""
