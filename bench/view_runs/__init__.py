"""What a frame of `nodeless view` takes."""
