"""Polytopes of constraints: projection, linear maximisation, faces."""
