"""Simulations: streams of people replayed through learners."""
