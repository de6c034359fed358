"""A cheap test of a pattern: one product with a random vector, two ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, message
from ..func.flat import flat_jvp
from ..tensor import Tensor
from .compress import row_numbers
from .plan import Plan
from .sweep import Problem, size


def probe(plan: Plan, inputs: Sequence[Tensor], values: np.ndarray, op: str) -> None:
    """Compare ``J v`` with a jvp along one random v; entries missing from the pattern show up as a difference.

    Raises
    ------
    ArgumentError : the pattern lacks entries (the message names a row).
    DTypeError : a complex function that is not holomorphic.
    """
    v, tangents = _direction(plan.problem, len(inputs))
    _, dots = flat_jvp(plan.problem.tape.call, inputs, tangents)
    true = np.concatenate([np.zeros(0), *(d.detach().cpu().numpy().reshape(-1) for d in dots)])
    sets = plan.pattern.sets
    terms = values * v[sets.indices]
    found = _row_sums(sets, terms)
    scale = _row_sums(sets, np.abs(terms)) + np.abs(true)
    wrong = np.abs(found - true) > scale * np.sqrt(np.finfo(plan.dtype()).eps) * 10
    if not wrong.any():
        return
    row = int(np.argmax(np.where(wrong, np.abs(found - true), 0)))
    numbers = (
        f"along a random v the derivative is {true[row]:.6g}, with this pattern {found[row]:.6g}"
    )
    if v.dtype.kind == "c":
        raise DTypeError(
            message(
                op,
                f"the complex derivative in row {row}",
                f"no product of one matrix ({numbers})",
                "a holomorphic function, and a complete pattern if you gave one",
                "Pass real and imaginary parts as real arguments.",
            )
        )
    # a symmetric entry may be read in the other row
    near = " (or in a row that it has an entry for)" if plan.compression.mode == "symmetric" else ""
    raise ArgumentError(
        message(
            op,
            f"argument 'sparsity' in row {row}{near}",
            f"incomplete ({numbers})",
            "a pattern with every entry that may be nonzero",
            "Leave 'sparsity' out to have it found from the function.",
        )
    )


def _direction(problem: Problem, n_inputs: int) -> tuple[np.ndarray, list[Any]]:
    """A random vector without small entries (complex where an input is), flat and as tangents."""
    rng = np.random.default_rng(0)
    n = size(problem.columns())
    v = rng.uniform(0.5, 1.5, n) * rng.choice((-1.0, 1.0), n)
    if any(s.dtype.kind == "c" for s in problem.columns()):
        v = v * np.exp(1j * rng.uniform(0.3, 1.2, n))
    tangents: list[Any] = [None] * n_inputs
    start = 0
    for i, s in zip(problem.wrt, problem.columns(), strict=True):
        mine = slice(start, start + math.prod(s.shape))
        part = v[mine] if s.dtype.kind == "c" else v[mine].real
        v[mine] = part
        tangents[i] = Tensor(part.astype(s.dtype).reshape(s.shape))
        start = mine.stop
    return v, tangents


def _row_sums(sets: Any, terms: np.ndarray) -> np.ndarray:
    """Sums over the entries of each row."""
    rows, n = row_numbers(sets), sets.shape[0]
    real = np.bincount(rows, terms.real, n)
    return real + 1j * np.bincount(rows, terms.imag, n) if terms.dtype.kind == "c" else real
