"""CUDA kernels for Numba, by category: the same file names as `kernels_cpu`.

Nothing here knows nbgrad. Kernels are generated source text, compiled by numba-cuda on first use. `numba.cuda` itself is
imported by `_compat` alone, and only when a kernel is needed.
"""
