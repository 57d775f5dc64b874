"""An anonymised snapshot for a bug report, which simulate can load."""
