"""Make a plan cheaper: linear programs, dual prices, local search."""
