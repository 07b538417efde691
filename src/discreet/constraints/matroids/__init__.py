"""Matroids: independence, ranks and polytopes."""
