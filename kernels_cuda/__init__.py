"""CUDA kernels by category (see kernels_cpu for the same names)."""
