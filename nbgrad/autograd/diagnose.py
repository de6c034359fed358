"""What a failed derivative check says: the worst entry, and the likely cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import NbgradError
from ..tensor import Tensor


class GradcheckError(NbgradError, RuntimeError, AssertionError):
    """A derivative (or a condition that derivative checks rest on) is wrong."""


class Tolerance(NamedTuple):
    """``|analytical - numerical| <= atol + rtol * |numerical|``."""

    atol: float
    rtol: float

    def allowed(self, n: np.ndarray, factor: float = 1.0) -> np.ndarray:
        """The allowed difference of each entry."""
        return factor * (self.atol + self.rtol * np.abs(n))

    def wrong(self, a: np.ndarray, n: np.ndarray, factor: float = 1.0) -> np.ndarray:
        """Where two arrays differ by more than allowed (NaN differs from everything)."""
        with np.errstate(all="ignore"):
            return ~((np.abs(a - n) <= self.allowed(n, factor)) | (a == n))


class Block(NamedTuple):
    """One block of the Jacobian: an input's columns, an output's rows, in real coordinates."""

    mode: str
    i: int
    j: int
    x: Tensor
    out: Tensor
    analytical: np.ndarray
    numerical: np.ndarray
    left: np.ndarray
    right: np.ndarray


def spot(t: Tensor, k: int) -> str:
    """Index of real coordinate k of a tensor, e.g. ``[1, 0].imag``."""
    is_complex = t.dtype.kind == "c"
    at = np.unravel_index(k // 2 if is_complex else k, tuple(t.shape)) if t.ndim else ()
    part = (".imag" if k % 2 else ".real") if is_complex else ""
    return f"[{', '.join(str(int(v)) for v in at)}]{part}"


def report(op: str, b: Block, tol: Tolerance, names: Sequence[str], eps: float) -> str:
    """The message for a block that has wrong entries."""
    bad = tol.wrong(b.analytical, b.numerical)
    with np.errstate(all="ignore"):
        excess = np.abs(b.analytical - b.numerical) / tol.allowed(b.numerical)
    excess = np.where(np.isnan(excess), np.inf, excess)
    worst = int(np.argmax(np.where(bad, excess, -1.0)))
    row, col = divmod(worst, bad.shape[1])
    a, n = float(b.analytical[row, col]), float(b.numerical[row, col])
    diff = abs(a - n)
    relative = diff / abs(n) if n else np.inf
    lines = [
        f"{op}: {b.mode} derivative of output {b.j} with respect to {names[b.i]} is wrong in "
        f"{int(bad.sum())} of {bad.size} entries.",
        f"  worst entry: d output_{b.j}{spot(b.out, row)} / d {names[b.i]}{spot(b.x, col)}",
        f"  analytical:  {a!r}",
        f"  numerical:   {n!r}",
        f"  difference:  {diff:.3g} absolute, {relative:.3g} relative "
        f"(allowed {float(tol.allowed(np.asarray(n))):.3g} = atol {tol.atol:g} + rtol {tol.rtol:g} * |numerical|)",
        f"  likely cause: {cause(b, tol, row, col, eps)}",
    ]
    if b.analytical.size <= 36:
        lines += [
            f"  analytical Jacobian:\n{_indent(b.analytical)}",
            f"  numerical Jacobian:\n{_indent(b.numerical)}",
        ]
    return "\n".join(lines)


def _indent(a: np.ndarray) -> str:
    text = np.array2string(a, precision=6, suppress_small=True, max_line_width=100)
    return "\n".join("    " + line for line in text.splitlines())


def cause(b: Block, tol: Tolerance, row: int, col: int, eps: float) -> str:
    """The first pattern that explains a wrong block."""
    a, n = b.analytical, b.numerical
    for t, what in ((b.x, "input"), (b.out, "output")):
        if t.dtype.name in ("float16", "float32", "complex64"):
            return (
                f"the {what} is {t.dtype.name}: differences with eps={eps:g} have almost no correct digit in "
                "it. Check in float64 (x.double()), or pass a larger eps, atol and rtol."
            )
    found = _kink(b, tol, row, col) or _not_finite(a[row, col], n[row, col])
    if found:
        return found
    if not a.any():
        return (
            "the analytical derivative is zero throughout: no gradient path. Look for detach(), .item(), NumPy, "
            "an integer cast, no_grad() or a value stored as a constant between the input and the output."
        )
    known = _scaled(a, n, tol) or _arranged(b, tol) or _partial(a, n, tol)
    if known:
        return known
    hint = " In a matrix product, check which factor is transposed and on which side it stands."
    return "the formula itself is wrong in these entries." + (hint if b.x.ndim >= 2 else "")


def _not_finite(a: float, n: float) -> str:
    if not np.isfinite(a) and np.isfinite(n):
        return (
            f"the analytical derivative is {a} where the function is smooth: an intermediate value overflows or "
            "a branch divides by zero (0 * inf, inf - inf). autograd.detect_anomaly() names the operation."
        )
    if not np.isfinite(n):
        return (
            f"the function is not finite beside this point (numerical derivative {n}): the input lies at the "
            "edge of the function's domain. Move it inside."
        )
    return ""


def _kink(b: Block, tol: Tolerance, row: int, col: int) -> str:
    left, right = float(b.left[row, col]), float(b.right[row, col])
    allowed = 10 * (tol.atol + tol.rtol * max(abs(left), abs(right)))
    if not np.isfinite(left + right) or abs(left - right) <= allowed:
        return ""
    return (
        f"a kink: the slopes from the left ({left:.6g}) and from the right ({right:.6g}) differ, so there is no "
        "derivative here, only a convention. Move the input away from the kink."
    )


def _scaled(a: np.ndarray, n: np.ndarray, tol: Tolerance) -> str:
    """A constant factor between the two."""
    size = float(np.abs(n).max())
    big = np.abs(n) > 1e-3 * size
    if not big.any() or not size:
        return ""
    factor = float(np.median(a[big] / n[big]))
    if tol.wrong(a, factor * n, 3).any() or not factor:
        return ""
    if abs(factor + 1) < 1e-3:
        return "the sign: the analytical derivative is the numerical one times -1."
    text = f"a factor {factor:.6g}: the analytical derivative is that multiple of the numerical one"
    inverse = round(1 / factor) if abs(factor) < 1 else 0
    if abs(factor - 2) < 1e-3 or abs(factor - 0.5) < 5e-4:
        return (
            text + " (a factor 2, often from a square or a symmetric term counted once or twice)."
        )
    if inverse > 2 and abs(factor * inverse - 1) < 1e-3:
        return text + f" (1/{inverse}: perhaps a mean where a sum belongs)."
    return text + "."


def _arranged(b: Block, tol: Tolerance) -> str:
    """The right numbers in the wrong place: conjugated or transposed."""
    per = 2 if b.x.dtype.kind == "c" else 1
    if per == 2 and not tol.wrong(b.analytical * _conjugation(b), b.numerical, 3).any():
        return (
            "the complex conjugate of the right gradient: the convention is df/dRe + i df/dIm (PyTorch's); a "
            "holomorphic rule multiplies by conj(derivative)."
        )
    shape = tuple(b.x.shape)
    if len(shape) >= 2:
        a = b.analytical.reshape((-1, *shape[:-2], shape[-1], shape[-2], per)).swapaxes(-3, -2)
        if not tol.wrong(a.reshape(b.numerical.shape), b.numerical, 3).any():
            return "the gradient is transposed (its last two dimensions are swapped)."
    return ""


def _conjugation(b: Block) -> np.ndarray:
    """Signs that turn a Jacobian into the one with the derivative conjugated."""
    rows = np.arange(b.numerical.shape[0])[:, None] if b.out.dtype.kind == "c" else np.zeros((1, 1))
    columns = np.arange(b.numerical.shape[1])[None, :]
    return np.where((rows + columns) % 2 == 0, 1.0, -1.0)


def _partial(a: np.ndarray, n: np.ndarray, tol: Tolerance) -> str:
    """Right entries and zeros only: something was not summed or was dropped."""
    bad = tol.wrong(a, n)
    if not a[bad].any():
        return (
            "part of the gradient is missing (the wrong entries are 0, the others right): a sum over a broadcast "
            "dimension, repeated indices that overwrite instead of accumulating, or a path that is cut."
        )
    if not n[bad].any():
        return "entries that should be 0 are not: the gradient goes to elements the output does not use."
    return ""
