"""The fast first plan: items onto existing and new nodes."""
