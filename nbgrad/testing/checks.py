"""Properties every correct derivative has, for users' own functions and for nbgrad's operators.

All of them take a function ``f`` of tensors (a structure of tensors is fine), its arguments, and a ``seed`` (an integer
or a NumPy ``Generator``) for their random directions; every floating or complex argument is differentiated, whatever
its ``requires_grad``. They raise `GradcheckError`, an AssertionError. Use float64 or complex128 arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd import jacobians as jac
from ..autograd.diagnose import GradcheckError, spot
from ..errors import ArgumentError, message
from ..func.api import flat_vjp, flat_vmap
from ..op import Spec, as_tensor
from . import differences as fd
from .differences import Function

Seed = int | np.random.Generator
_WORDS = {"fwd": "forward", "rev": "reverse"}


def check_grads(
    f: Callable,
    args: Any,
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    atol: float = 1e-7,
    rtol: float = 1e-7,
    seed: Seed = 0,
) -> None:
    """Check derivatives up to ``order`` in all combinations of ``modes`` along random directions.

    Order 2 with both modes checks forward over forward, reverse over forward, forward over reverse and reverse over
    reverse, each against extrapolated finite differences of the derivative one order below.

    Parameters
    ----------
    order : highest order; the cost doubles with each order when both modes are checked.
    modes : ``"fwd"``, ``"rev"`` or both.
    atol, rtol : tolerance relative to the size of the cotangents and of the derivative; the error estimate of the
        differences is added.

    Raises
    ------
    GradcheckError : naming the combination, the derivative and the numerical value.
    """
    unknown = set(modes) - set(_WORDS)
    if unknown or order < 1:
        raise ArgumentError(
            message(
                "check_grads",
                "arguments 'order' and 'modes'",
                f"{order} and {tuple(modes)}",
                "a positive order, and modes among 'fwd' and 'rev'",
            )
        )
    fn = Function("check_grads", f, args, seed)
    _check_order(fn.rng, fn, fn.points, order, modes, "", (atol, rtol))


def _check_order(rng, fn: Callable, xs, order: int, modes, name: str, tol: tuple) -> None:
    outs = fd.arrays(fn(*fd.tensors(xs)))
    ds, vs = [fd.dense(rng, x) for x in xs], [fd.dense(rng, o) for o in outs]
    size = fd.magnitude([v * np.where(np.isfinite(o), o, 0) for v, o in zip(vs, outs, strict=True)])

    def value(t: float) -> float:
        return fd.inner(vs, fd.arrays(fn(*fd.moved(xs, ds, t))))

    for mode in modes:
        label = f"check_grads: {_WORDS[mode]}{' over ' + name if name else ''}"
        if mode == "fwd":
            got = fd.inner(vs, fd.push(fn, xs, ds))
            inner_fn = fd.tangent_function(fn, ds)
        else:
            got = fd.inner(ds, fd.pull(fn, xs, vs))
            inner_fn = fd.gradient_function(fn, vs)
        fd.matches(label, got, value, size, *tol)
        if order > 1:
            below = f"{_WORDS[mode]}{' over ' + name if name else ''}"
            _check_order(rng, inner_fn, xs, order - 1, modes, below, tol)


def dot_product_test(f: Callable, args: Any, *, rtol: float = 1e-10, seed: Seed = 0) -> None:
    """Forward and reverse mode are transposes: ``<v, J d> == <J^T v, d>``; needs no differences, so it is sharp."""
    fn = Function("dot_product_test", f, args, seed)
    ds, vs = fn.directions(), fn.cotangents()
    forward = fd.inner(vs, fd.push(fn, fn.points, ds))
    reverse = fd.inner(ds, fd.pull(fn, fn.points, vs))
    limit = rtol * fd.scale(forward, fd.magnitude(vs))
    if not abs(forward - reverse) <= limit:
        raise GradcheckError(
            f"dot_product_test: <v, J d> is {forward:.15g} by forward mode, <J^T v, d> is {reverse:.15g} by reverse mode "
            f"(allowed difference {limit:.1e}); one of the two modes is wrong, or J is not linear."
        )


def taylor_remainder_test(
    f: Callable, args: Any, *, order: int = 1, mode: str = "rev", seed: Seed = 0, h: float = 0.1
) -> float:
    """The remainder of the Taylor polynomial of degree ``order`` shrinks like ``h ** (order + 1)``.

    With derivatives D^j of ``phi(t) = <v, f(x + t d)>`` from nested forward mode (``mode="fwd"``) or nested reverse mode
    (``"rev"``): ``|phi(h) - sum_j h^j D^j / j!|`` must have slope ``order + 1`` in a log-log plot, else some
    derivative is wrong.

    Returns
    -------
    The measured slope, or inf where the remainder vanishes (a polynomial).

    Raises
    ------
    GradcheckError : the slope is below ``order + 0.8``.
    """
    if mode not in _WORDS:
        raise ArgumentError(
            message("taylor_remainder_test", "argument 'mode'", repr(mode), "'fwd' or 'rev'")
        )
    fn = Function("taylor_remainder_test", f, args, seed)
    # several directions, because the leading term of one may happen to be small
    lines = [_remainders(fn, order, mode, h) for _ in range(3)]
    rest = np.sqrt(np.sum([r**2 for r, _ in lines], axis=0))
    usable = rest[rest > max(floor for _, floor in lines)]
    if len(usable) < 2:
        return np.inf
    slope = float(np.log2(usable[0] / usable[-1]) / (len(usable) - 1))
    if not slope >= order + 0.8:
        raise GradcheckError(
            f"taylor_remainder_test: with derivatives up to order {order} ({_WORDS[mode]} mode) the remainder "
            f"shrinks with slope {slope:.2f}; expected {order + 1}. A derivative of order at most {order} is wrong."
        )
    return slope


def _remainders(fn: Function, order: int, mode: str, h: float) -> tuple[np.ndarray, float]:
    """What the Taylor polynomial leaves for steps h, h/2 ... in a random direction, and its rounding error."""
    xs, ds, vs = fn.points, fn.directions(), fn.cotangents()
    terms = _derivatives(fn, xs, ds, vs, order, mode)
    outs = fd.arrays(fn(*fd.tensors(xs)))
    floor = 1e3 * np.finfo(float).eps * fd.magnitude([v * o for v, o in zip(vs, outs, strict=True)])
    rest = []
    for t in h / 2.0 ** np.arange(8):
        value = fd.inner(vs, fd.arrays(fn(*fd.moved(xs, ds, t))))
        rest.append(value - sum(d * t**j for j, d in enumerate(terms)))
    return np.array(rest), floor + 1e-300


def _derivatives(fn: Callable, xs, ds, vs, order: int, mode: str) -> list[float]:
    """Coefficients ``D^j phi / j!`` along one direction, j = 0..order."""
    out = [fd.inner(vs, fd.arrays(fn(*fd.tensors(xs))))]
    current, weights, factorial = fn, vs, 1
    for j in range(1, order + 1):
        if mode == "fwd":
            current = fd.tangent_function(current, ds)
        else:
            current, weights = fd.gradient_function(current, weights), ds
        factorial *= j
        out.append(fd.inner(weights, fd.arrays(current(*fd.tensors(xs)))) / factorial)
    return out


def hessian_symmetry(f: Callable, args: Any, *, rtol: float = 1e-9, seed: Seed = 0) -> None:
    """``u^T H w == w^T H u`` for the Hessian of ``<v, f>``, by reverse over reverse and forward over reverse."""
    fn = Function("hessian_symmetry", f, args, seed)
    us, ws, vs = fn.directions(), fn.directions(), fn.cotangents()
    gradient = fd.gradient_function(fn, vs)
    rr, fr = fd.pull, fd.push
    for name, apply in (("reverse over reverse", rr), ("forward over reverse", fr)):
        first = fd.inner(us, apply(gradient, fn.points, ws))
        second = fd.inner(ws, apply(gradient, fn.points, us))
        limit = rtol * fd.scale(first, second, fd.magnitude(vs))
        if not abs(first - second) <= limit:
            raise GradcheckError(
                f"hessian_symmetry: {name} gives u'Hw = {first:.15g} but w'Hu = {second:.15g} (allowed difference "
                f"{limit:.1e}); a first derivative is wrong, or it is not differentiated again correctly."
            )


def forward_vs_reverse(f: Callable, args: Any, *, rtol: float = 1e-9, seed: Seed = 0) -> None:
    """The Jacobians by forward and by reverse mode are equal, entry by entry."""
    fn = Function("forward_vs_reverse", f, args, seed)
    inputs = [t.requires_grad_() for t in fd.tensors(fn.points)]
    problem = jac.Problem("forward_vs_reverse", lambda *xs: tuple(fn(*xs)), tuple(inputs))
    fwd, rev, outs = jac.forward(problem), jac.reverse(problem), problem.run()
    for i, x in enumerate(problem.wanted):
        for j, out in enumerate(outs):
            a, b = fwd[i][j], rev[i][j]
            with np.errstate(all="ignore"):
                bad = ~((np.abs(a - b) <= rtol * fd.scale(a, b)) | (a == b))
            bad &= ~(np.isnan(a) & np.isnan(b))
            if bad.any():
                row, col = (int(k) for k in np.argwhere(bad)[0])
                raise GradcheckError(
                    f"forward_vs_reverse: d output_{j}{spot(out, row)} / d argument_{fn.which[i]}{spot(x, col)} is "
                    f"{a[row, col]:.12g} by forward mode and {b[row, col]:.12g} by reverse mode"
                )


def inputs_unmodified(f: Callable, args: Any, *, seed: Seed = 0) -> None:
    """Neither the function nor its derivatives in both modes write into the arguments."""
    fn = Function("inputs_unmodified", f, args, seed)
    ds, vs = fn.directions(), None
    for what in ("the function", "reverse mode", "forward mode"):
        xs = [x.copy() for x in fn.points]
        rest = [t.numpy().copy() for t in fn.leaves]
        if what == "the function":
            vs = [fd.dense(fn.rng, o) for o in fd.arrays(fn(*fd.tensors(xs)))]
        elif what == "reverse mode":
            assert vs is not None
            fd.pull(fn, xs, vs)
        else:
            fd.push(fn, xs, ds)
        pairs = zip(fn.which, xs, fn.points, strict=True)
        changed = [i for i, x, old in pairs if x.tobytes() != old.tobytes()]
        changed += [i for i, t in enumerate(fn.leaves) if t.numpy().tobytes() != rest[i].tobytes()]
        if changed:
            raise GradcheckError(
                f"inputs_unmodified: {what} changed argument {changed[0]} in place; clone() it inside the function "
                "before writing."
            )


def tape_agrees(f: Callable, args: Any, *, rtol: float = 1e-11, seed: Seed = 0) -> None:
    """A traced tape verifies, and replays value, vjp and jvp like eager, at the arguments and at new ones."""
    from ..tape.record import trace_flat

    fn = Function("tape_agrees", f, args, seed)
    specs = [Spec(x.shape, x.dtype) for x in fn.points]
    tape = trace_flat(fn, specs).verify()
    pulled, pushed = tape.vjp().verify(), tape.jvp().verify()
    ds, vs = fn.directions(), fn.cotangents()
    for where, t in (("the recorded point", 0.0), ("a new point", 0.01)):
        xs = fd.arrays(fd.moved(fn.points, ds, t))
        want = fd.arrays(fn(*fd.tensors(xs)))
        back = fd.pull(fn, xs, vs)
        dots = fd.push(fn, xs, ds)
        n = len(want)
        for what, got, expected in (
            ("replay", tape.run(fd.tensors(xs)), want),
            ("simplify().replay", tape.simplify().run(fd.tensors(xs)), want),
            ("vjp()", pulled.run(fd.tensors([*xs, *vs])), [*want, *back]),
            ("jvp()", pushed.run(fd.tensors([*xs, *ds])), [*want, *dots]),
        ):
            for k, (a, b) in enumerate(zip(fd.arrays(got), expected, strict=True)):
                part = f"value {k}" if k < n else f"derivative {k - n}"
                _same(f"tape_agrees: tape.{what}, {part}, at {where}", a, b, rtol)


def vmap_agrees(
    f: Callable, args: Any, *, size: int = 3, rtol: float = 1e-10, seed: Seed = 0
) -> None:
    """vmap of value and gradient equals a Python loop, with all arguments batched and with one at a time."""
    fn = Function("vmap_agrees", f, args, seed)
    rows = [
        [x + 0.05 * k * d for x, d in zip(fn.points, fn.directions(), strict=True)]
        for k in range(size)
    ]
    every = tuple(range(len(fn.points)))
    vs = fd.tensors(fn.cotangents())
    for chosen in dict.fromkeys([every, *[(i,) for i in every]]):
        members = [[r[i] if i in chosen else rows[0][i] for i in every] for r in rows]
        stacked = [np.stack([m[i] for m in members]) if i in chosen else rows[0][i] for i in every]
        dims = [0 if i in chosen else None for i in every]
        for what, fun in (
            ("value", fn.outputs),
            ("gradient", lambda *xs: flat_vjp(fn, xs)[1](vs)),
        ):
            got = fd.arrays(flat_vmap(fun, fd.tensors(stacked), dims, size))
            loop = [fd.arrays(fun(*fd.tensors(m))) for m in members]
            for k, g in enumerate(got):
                label = (
                    f"vmap_agrees: {what} {k}, batched arguments {[fn.which[i] for i in chosen]}"
                )
                _same(label, g, np.stack([row[k] for row in loop]), rtol)


def _same(what: str, got: np.ndarray, want: np.ndarray, rtol: float) -> None:
    try:
        assert_close(got, want, rtol=0, atol=rtol * fd.scale(want), equal_nan=True)
    except AssertionError as e:
        raise GradcheckError(f"{what} differs from the expected one.\n{e}") from None


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
) -> None:
    """Tensors, arrays or numbers are equal within ``atol + rtol * |expected|``.

    The tolerances default to the dtype's (1e-9 for float64, 1e-4 for float32, 0 for integers).

    Raises
    ------
    AssertionError : saying how many entries differ, and the greatest absolute and relative differences with their
        indices.
    """
    a, b = (as_tensor(x, "assert_close").detach().numpy() for x in (actual, expected))
    if a.shape != b.shape:
        raise AssertionError(f"The shapes do not match: {a.shape} != {b.shape}.")
    if check_dtype and a.dtype != b.dtype:
        raise AssertionError(f"The dtypes do not match: {a.dtype.name} != {b.dtype.name}.")
    default = max(dt.tolerance(a.dtype), dt.tolerance(b.dtype))
    rtol = default if rtol is None else rtol
    atol = default if atol is None else atol
    with np.errstate(all="ignore"):
        if a.dtype.kind == "b" or b.dtype.kind == "b":
            a, b = a.astype(np.int64), b.astype(np.int64)
        diff = np.abs(a - b)
        good = (diff <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
        if equal_nan:
            good |= np.isnan(a) & np.isnan(b)
    if good.all():
        return
    raise AssertionError(_mismatch(a, b, diff, ~good, rtol, atol))


def _mismatch(a, b, diff, bad: np.ndarray, rtol: float, atol: float) -> str:
    """PyTorch's wording of a mismatch."""
    if not bad.ndim:
        return f"Scalars are not close: expected {b} but got {a} (up to {atol} absolute and {rtol} relative)."
    with np.errstate(all="ignore"):
        relative = diff / np.abs(b)
    lines = [
        "Tensor-likes are not close!",
        f"Mismatched elements: {int(bad.sum())} / {bad.size} ({100 * bad.mean():.1f}%)",
    ]
    for name, values, allowed in (("absolute", diff, atol), ("relative", relative, rtol)):
        ranked = np.where(bad, np.where(np.isnan(values), np.inf, values), -1.0)
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), bad.shape))
        lines.append(
            f"Greatest {name} difference: {values[at]:.6g} at index {at} (up to {allowed:g} allowed): got {a[at]}, "
            f"expected {b[at]}"
        )
    return "\n".join(lines)


__all__ = [
    "assert_close",
    "check_grads",
    "dot_product_test",
    "forward_vs_reverse",
    "hessian_symmetry",
    "inputs_unmodified",
    "tape_agrees",
    "taylor_remainder_test",
    "vmap_agrees",
]
