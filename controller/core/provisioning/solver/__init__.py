"""The solver: rounds, reasons for pods left out, commitments, preferences."""
