"""Meta-Frank-Wolfe: ascent directions learned online, for sets and for points."""
