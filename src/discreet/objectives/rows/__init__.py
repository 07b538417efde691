"""People as rows of a matrix: row kinds, their matrices, whole-number gains over many of them."""
