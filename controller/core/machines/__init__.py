"""A node's life: launch requests, registration, draining, detachment, collection."""
