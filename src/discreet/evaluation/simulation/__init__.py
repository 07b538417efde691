"""Streams of people replayed through learners, and what comes of it."""
