"""Records of decisions, launch outcomes, and what existing nodes cost."""
