"""Stack configuration: its schema, how it is read once at the edge, and the rules that hold between its keys."""
