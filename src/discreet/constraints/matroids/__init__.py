"""Matroids: what they contain, their ranks and their polytopes."""
