"""Compiled loops, in Cython, one implementation of each.

They are built when the package is installed (setup.py). Slow, obvious twins of them are in the tests. What
Python calls checks shapes and ranges first, so that no index of a saved state can leave an array.
"""
