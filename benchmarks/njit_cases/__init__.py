"""The cases of the benchmark of `nbgrad.njit`, one module a group."""

from __future__ import annotations

import importlib

from .base import NjitCase

GROUPS = ("classics", "particles", "heat", "ba", "hand", "sequences", "forward", "scalars")

CASES: dict[str, NjitCase] = {
    case.name: case
    for group in GROUPS
    for case in importlib.import_module(f".{group}", __name__).CASES
}
