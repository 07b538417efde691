"""One learner for each value of a public attribute, with one account."""
