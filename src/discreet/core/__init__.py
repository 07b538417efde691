"""Helpers that every package stands on: checks of arguments, read-only settings, saved states, tables."""
