"""A backend without a compiler: some of the loops, interpreted."""
