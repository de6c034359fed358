"""numba-cuda exists for Linux and Windows only; elsewhere there are no kernels to test."""

import sys

if sys.platform == "darwin":
    collect_ignore_glob = ["test_cuda_*.py"]
