"""Make a plan cheaper: linear programs, dual prices, diving, local search."""
