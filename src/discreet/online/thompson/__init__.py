"""Thompson sampling on private sums of blocks of rounds."""
