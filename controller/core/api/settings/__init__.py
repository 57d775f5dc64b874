"""One table of the controller's settings, and the readers of their texts."""
