"""Files, stack configuration, dumps and clusters read into objects."""
