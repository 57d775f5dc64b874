"""`nodeless dump`: an anonymised snapshot for a bug report."""
