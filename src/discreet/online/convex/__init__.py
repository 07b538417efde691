"""Online convex learning on private sums."""
