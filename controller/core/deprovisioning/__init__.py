"""Which nodes go before their time, why, and what takes their place: candidates, the gate, methods, records."""
