"""Fused kernels for arrays on a GPU of NVIDIA's, of torch or CuPy: one pass over memory, not several."""
