"""A lower bound on the price of any plan, and what explains the gap to it."""
