"""Problems made up from seeds about one kind of rule each; `bench/shapes.py` makes up those with every rule."""
