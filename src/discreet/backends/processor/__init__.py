"""Families of loops over NumPy arrays that are tiled and threaded: the twins of those on devices."""
