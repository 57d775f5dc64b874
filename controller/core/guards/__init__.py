"""Guards: what bounds launches beyond what pods need: money, speed, a mix of capacity types, and room kept free."""
