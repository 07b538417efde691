"""Learners that choose k of n items every round."""
