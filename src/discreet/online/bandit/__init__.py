"""Set selection from the value of the set that was shown."""
