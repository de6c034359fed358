"""numba-cuda exists for Linux and Windows only; elsewhere there is no backend to test."""

import sys

if sys.platform == "darwin":
    collect_ignore_glob = ["test_*.py"]
