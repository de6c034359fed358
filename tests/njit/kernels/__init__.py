"""Numerical kernels as projects that use Numba write them, with no thought of differentiation.

No file here knows of nbgrad; ``test_kernels.py`` differentiates them as they are.
"""
