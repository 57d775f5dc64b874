"""The demo: the guides' own objects on the sandbox, and what a person wants to see of it."""
