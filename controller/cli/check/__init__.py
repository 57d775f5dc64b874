"""What is wrong with the installation, and how to fix it."""
