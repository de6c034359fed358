"""The cases of the compiler's benchmark, one module a group."""

from __future__ import annotations

import importlib

from .base import Case

GROUPS = ("residuals", "laplacians", "chains", "newton", "gradbench", "lstm", "brusselator")

CASES: dict[str, Case] = {
    case.name: case
    for group in GROUPS
    for case in importlib.import_module(f".{group}", __name__).CASES
}
