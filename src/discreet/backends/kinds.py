"""Kinds of objectives over rows of numbers, by the codes that compiled loops and array operations know."""

COVER, SURVIVE, BEST, SQRT, LOG, CAP = range(6)
