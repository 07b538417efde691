"""People who live in a store: scores are summed over its buckets, by threads or by a cluster of machines."""
