"""Families of loops in operations of the Array API standard, for any library that follows it."""
