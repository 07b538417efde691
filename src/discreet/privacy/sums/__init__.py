"""Private running sums of vectors."""
