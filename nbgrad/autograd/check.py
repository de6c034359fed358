"""``gradcheck`` and ``gradgradcheck``: derivatives against finite differences, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, message
from ..tensor import Tensor
from ..utils import pytree
from . import jacobians as jac
from .api import grad
from .diagnose import Block, GradcheckError, Tolerance, report

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class _Options:
    """The settings of one check."""

    def __init__(self, op: str, eps: float, atol: float, rtol: float, nondet: float, zero: str):
        if zero not in ("verify", "fail", "allow"):
            raise ArgumentError(
                message(op, "argument 'zero_wins'", repr(zero), "'verify', 'fail' or 'allow'")
            )
        self.op, self.eps, self.tol = op, eps, Tolerance(atol, rtol)
        self.nondet, self.zero = nondet, zero
        self.names: list[str] = []
        self.rng = np.random.default_rng(20240229)


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
    zero_wins: str = "verify",
) -> bool:
    """Check first derivatives of ``func`` against central differences; True if they agree.

    Parameters
    ----------
    func : takes the inputs, returns a tensor or a structure of tensors. Integer outputs are not checked.
    inputs : a tensor or a tuple; every floating or complex tensor in it that requires grad is checked. The
        inputs are perturbed in their own memory (and restored), so ``func`` may also read them as parameters.
        float64 or complex128, else differences have too few digits.
    eps, atol, rtol : step, and tolerance ``atol + rtol * |numerical|`` of every entry.
    raise_exception : raise `GradcheckError` instead of returning False.
    nondet_tol : how much two evaluations at one point may differ.
    check_undefined_grad : with several outputs, missing cotangents must act as zeros.
    check_grad_dtypes : gradients must have their input's dtype.
    check_batched_grad, check_batched_forward_grad : vectorised cotangents (tangents) equal a loop.
    check_forward_ad, check_backward_ad : which modes to check.
    fast_mode : compare one random projection ``v^T J u`` per input and output; on failure every entry is checked
        to find the worst one.
    masked : accepted for PyTorch's signature; nbgrad has no sparse tensors.
    zero_wins : what to do where a zero cotangent met an infinite or NaN partial derivative, so that a value was decided by
        the rule "zero wins" and not by arithmetic. ``"verify"``: the slopes from both sides must confirm the
        value; ``"fail"``: always an error; ``"allow"``: accept the convention.

    Complex inputs are perturbed along the real and the imaginary axis; the gradient of a real loss is
    ``df/dRe + i df/dIm`` (PyTorch's convention). A function that writes into its inputs fails the check.

    Raises
    ------
    GradcheckError : with the worst entry and a likely cause.
    ArgumentError : no input requires grad, an input's elements share memory, or no floating output.
    """
    if not callable(func):
        raise ArgumentError(message("gradcheck", "argument 'func'", repr(func), "a callable"))
    o = _Options("gradcheck", eps, atol, rtol, nondet_tol, zero_wins)
    problem = jac.Problem("gradcheck", func, inputs)
    o.names = [f"input_{_position(problem, t)}" for t in problem.wanted]
    checks = _plan(o, problem, check_backward_ad, check_forward_ad, fast_mode)
    if check_backward_ad and check_undefined_grad:
        checks.append(lambda: _undefined(o, problem))
    if check_grad_dtypes:
        checks.append(lambda: _dtypes(o, problem))
    if check_batched_grad:
        checks.append(lambda: _batched(o, problem))
    if check_batched_forward_grad:
        checks.append(lambda: _batched_forward(o, problem))
    return _run(checks, raise_exception)


def _plan(
    o: _Options, problem: jac.Problem, backward: bool, forward: bool, fast: bool
) -> list[Callable[[], None]]:
    """What both functions check first."""
    checks: list[Callable[[], None]] = [lambda: _repeatable(o, problem)]
    if backward:
        checks.append(lambda: _compare(o, problem, "reverse-mode", fast))
    if forward:
        checks.append(lambda: _compare(o, problem, "forward-mode", fast))
    if o.zero != "allow":
        checks.append(lambda: _zero_wins(o, problem, backward, forward))
    return checks


def _run(checks: Sequence[Callable[[], None]], raise_exception: bool) -> bool:
    try:
        for check in checks:
            check()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _position(problem: jac.Problem, t: Tensor) -> int:
    return next(i for i, x in enumerate(problem.tensors) if x is t)


def _repeatable(o: _Options, problem: jac.Problem) -> None:
    """The function leaves its inputs alone and gives the same values twice."""
    before = [t._data.copy() for t in problem.tensors]
    first = jac.values(problem.run())
    for i, (t, old) in enumerate(zip(problem.tensors, before, strict=True)):
        if t._data.tobytes() != old.tobytes():
            raise GradcheckError(
                f"{o.op}: the function changed input {i} in place, so its values depend on how often it is "
                "called; clone() the input inside the function first."
            )
    second = jac.values(problem.run())
    for j, (a, b) in enumerate(zip(first, second, strict=True)):
        if not _close(a, b, o.nondet):
            raise GradcheckError(
                f"{o.op}: output {j} differs by {_distance(a, b):.3g} between two calls with the same inputs "
                "(non-determinism: random numbers, or state kept between calls); fix the seed inside the "
                "function, or pass nondet_tol."
            )


def _close(a: np.ndarray, b: np.ndarray, tol: float) -> bool:
    if a.shape != b.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(((np.abs(a - b) <= tol) | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.nanmax(np.abs(a - b), initial=0.0)) if a.shape == b.shape else np.inf


def _compare(o: _Options, problem: jac.Problem, mode: str, fast: bool) -> None:
    """Analytical against numerical Jacobian, every entry (or one projection in fast mode)."""
    jacobian = jac.reverse if mode == "reverse-mode" else jac.forward
    if fast and _projection(o, problem, mode):
        return
    found, numeric = jacobian(problem), jac.Numerical(problem, o.eps)
    outs = problem.run()
    for i, x in enumerate(problem.wanted):
        for j, out in enumerate(outs):
            n = numeric.jacobian[i][j]
            b = Block(mode, i, j, x, out, found[i][j], n, numeric.left[i][j], numeric.right[i][j])
            if n.size and o.tol.wrong(b.analytical, n).any():
                raise GradcheckError(report(o.op, b, o.tol, o.names, o.eps))
    if mode == "reverse-mode" and not fast:
        _same_twice(o, found, jacobian(problem))


def _same_twice(o: _Options, first: Any, second: Any) -> None:
    for i, (r, s) in enumerate(zip(first, second, strict=True)):
        for a, b in zip(r, s, strict=True):
            if not _close(a, b, o.nondet):
                raise GradcheckError(
                    f"{o.op}: the gradient of {o.names[i]} differs by {_distance(a, b):.3g} between two backward "
                    "passes (non-determinism in a backward rule); pass nondet_tol if that is intended."
                )


def _projection(o: _Options, problem: jac.Problem, mode: str) -> bool:
    """Whether ``v^T J u`` agrees with differences for random u and v, per input and output."""
    outs = problem.run()
    base = jac.values(outs)
    vs = [jac.dense(t, o.rng) for t in outs]
    for i, x in enumerate(problem.wanted):
        if not x.numel():
            continue
        u = jac.dense(x, o.rng) / np.sqrt(x.numel())
        d = jac.Differences(problem, x, u, o.eps, base)
        for j, v in enumerate(vs):
            n = np.asarray(jac.as_real(v) @ d.central(j))
            a = np.asarray(_project(problem, mode, i, j, u, vs))
            size = max(1.0, float(np.sqrt(v.size)))
            if o.tol.wrong(a, n, size):
                return False
    return True


def _project(problem: jac.Problem, mode: str, i: int, j: int, u: np.ndarray, vs: Sequence) -> float:
    if mode == "forward-mode":
        dot = jac.push(problem, [u if k == i else None for k in range(len(problem.wanted))])[j]
        return float(jac.as_real(vs[j]) @ jac.as_real(dot))
    cots = [v if k == j else None for k, v in enumerate(vs)]
    g = jac.pull(problem.run(), problem.wanted, cots)[i]
    if g is None:
        return 0.0
    return float(jac.as_coordinates(g, problem.wanted[i]) @ jac.as_real(u))


def _undefined(o: _Options, problem: jac.Problem) -> None:
    """Leaving a cotangent out equals a zero cotangent."""
    outs = problem.run()
    live = [j for j, t in enumerate(outs) if t._node is not None]
    if len(live) < 2:
        return
    vs = [jac.dense(t, o.rng) for t in outs]
    for j in live:
        alone = [v if k == j else None for k, v in enumerate(vs)]
        zeros = [v if k == j else np.zeros_like(v) for k, v in enumerate(vs)]
        a, b = (jac.pull(outs, problem.wanted, c) for c in (alone, zeros))
        for i, (g, h) in enumerate(zip(a, b, strict=True)):
            g, h = (np.zeros(problem.wanted[i].shape) if t is None else t for t in (g, h))
            if not np.allclose(g, h, rtol=1e-9, atol=1e-12, equal_nan=True):
                raise GradcheckError(
                    f"{o.op}: the gradient of {o.names[i]} differs when the cotangents of the outputs other "
                    f"than {j} are left out instead of zero; the backward must take None for zero."
                )


def _dtypes(o: _Options, problem: jac.Problem) -> None:
    outs = problem.run()
    got = jac.pull(outs, problem.wanted, [jac.dense(t, o.rng) for t in outs])
    for i, (g, x) in enumerate(zip(got, problem.wanted, strict=True)):
        if g is not None and g.dtype != x.dtype:
            raise GradcheckError(
                f"{o.op}: the gradient of {o.names[i]} has dtype {g.dtype.name}; expected {x.dtype.name}, the "
                "input's own."
            )


def _batched(o: _Options, problem: jac.Problem) -> None:
    """``is_grads_batched`` equals a loop over the cotangents."""
    outs = [t for t in problem.run() if t._node is not None]
    vs = [np.stack([jac.dense(t, o.rng) for _ in range(3)]) for t in outs]
    cots = [Tensor(v) for v in vs]
    options = {"retain_graph": True, "allow_unused": True}
    got = grad(outs, problem.wanted, cots, is_grads_batched=True, **options)
    for i, g in enumerate(got):
        rows = [jac.pull(outs, problem.wanted, [v[k] for v in vs])[i] for k in range(3)]
        if g is None or any(r is None for r in rows):
            continue
        _equal_batches(o, f"the batched gradient of {o.names[i]}", g.detach().numpy(), rows)


def _batched_forward(o: _Options, problem: jac.Problem) -> None:
    """vmap over tangents equals a loop."""
    from ..func.api import flat_vmap

    us = [np.stack([jac.dense(x, o.rng) for _ in range(3)]) for x in problem.wanted]
    got = flat_vmap(
        lambda *ds: jac.push_tensors(problem, ds), [Tensor(u) for u in us], [0] * len(us), 3
    )
    loop = [jac.push(problem, [u[k] for u in us]) for k in range(3)]
    for j, g in enumerate(got):
        rows = [row[j] for row in loop]
        _equal_batches(o, f"the batched tangent of output {j}", g.detach().numpy(), rows)


def _equal_batches(o: _Options, what: str, got: np.ndarray, rows: Sequence[np.ndarray]) -> None:
    if not np.allclose(got, np.stack(rows), rtol=1e-7, atol=1e-10, equal_nan=True):
        raise GradcheckError(
            f"{o.op}: {what} differs from a loop by {_distance(got, np.stack(rows)):.3g}; a batching rule (vmap) "
            "on the way is wrong."
        )


def _zero_wins(o: _Options, problem: jac.Problem, backward: bool, forward: bool) -> None:
    """Values decided by the zero-wins rule are errors unless finite differences confirm them."""
    hits = jac.zero_wins(problem, o.rng, backward, forward)
    if not hits:
        return
    where = ", ".join(hits)
    if o.zero == "verify":
        kink = _disputed(o, problem)
        if not kink:
            return
        reason = f"and finite differences do not confirm it: {kink}"
    else:
        reason = "and zero_wins='fail' was asked for"
    raise GradcheckError(
        f"{o.op}: a zero met an infinite or NaN partial derivative at {where}; the value there was decided by the "
        f"rule that zero wins, {reason}. Move the input away from the singular point, or pass zero_wins='allow' "
        "to accept the convention."
    )


def _disputed(o: _Options, problem: jac.Problem) -> str:
    """Where the slopes from the two sides differ from each other; empty if nowhere."""
    numeric, outs = jac.Numerical(problem, o.eps), problem.run()
    for i, x in enumerate(problem.wanted):
        for j, out in enumerate(outs):
            left, right = numeric.left[i][j], numeric.right[i][j]
            bad = o.tol.wrong(left, right, 10)
            if bad.any():
                row, col = (int(k) for k in np.argwhere(bad)[0])
                from .diagnose import spot

                return (
                    f"d output_{j}{spot(out, row)} / d {o.names[i]}{spot(x, col)} is {left[row, col]:.6g} from the "
                    f"left and {right[row, col]:.6g} from the right"
                )
    return ""


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
    zero_wins: str = "verify",
) -> bool:
    """Check second derivatives: `gradcheck` of the gradient, in the inputs and in the cotangents.

    Parameters as in `gradcheck`, and:

    grad_outputs : cotangents of the outputs; random ones that require grad by default.
    gen_non_contig_grad_outputs : make the random cotangents non-contiguous.
    check_fwd_over_rev, check_rev_over_rev : the mode of the outer derivative.
    """
    problem = jac.Problem("gradgradcheck", func, inputs)
    cots = _cotangents(problem, problem.run(), grad_outputs, gen_non_contig_grad_outputs)
    o = _Options("gradgradcheck", eps, atol, rtol, nondet_tol, zero_wins)
    second = jac.Problem("gradgradcheck", _gradient(problem), (*problem.wanted, *cots))
    names = [f"input_{_position(problem, t)}" for t in problem.wanted]
    names += [f"grad_output_{j}" for j in range(len(cots))]
    o.names = [names[_position(second, t)] for t in second.wanted]
    checks = _plan(o, second, check_rev_over_rev, check_fwd_over_rev, fast_mode)
    if check_undefined_grad and check_rev_over_rev:
        checks.append(lambda: _undefined(o, second))
    if check_grad_dtypes:
        checks.append(lambda: _dtypes(o, second))
    if check_batched_grad:
        checks.append(lambda: _batched(o, second))
    return _run(checks, raise_exception)


def _gradient(problem: jac.Problem) -> Callable[..., list[Tensor]]:
    """``(inputs..., cotangents...) -> gradients``, to be differentiated again."""
    n = len(problem.wanted)

    def gradient(*args: Tensor) -> list[Tensor]:
        xs, vs = list(args[:n]), list(args[n:])
        if all(x is y for x, y in zip(xs, problem.wanted, strict=True)):
            # the tensors themselves: what the function reads from outside is differentiated too
            pairs = zip(problem.run(), vs, strict=True)
            live = [(y, v) for y, v in pairs if y._node is not None]
            ys, ws = [y for y, _ in live], [v for _, v in live]
            got: Sequence[Any] = grad(ys, xs, ws, create_graph=True, allow_unused=True)
        else:
            from ..func.api import flat_vjp

            got = flat_vjp(problem.flat, xs)[1](vs)
        return [x.zeros_like_() if g is None else g for x, g in zip(xs, got, strict=True)]

    return gradient


def _cotangents(
    problem: jac.Problem, outs: Sequence[Tensor], given: Any, strided: bool
) -> list[Tensor]:
    if all(t._node is None for t in outs):
        raise ArgumentError(
            "gradgradcheck: no output requires grad; the function does not record its inputs."
        )
    if given is not None:
        found = pytree.flatten(given)[0]
        if len(found) != len(outs):
            raise ArgumentError(
                message(
                    "gradgradcheck",
                    "argument 'grad_outputs'",
                    f"{len(found)} tensors",
                    f"{len(outs)}, one a floating output",
                )
            )
        return found
    rng = np.random.default_rng(20240301)
    made = []
    for t in outs:
        v = jac.dense(t, rng)
        if strided and v.ndim:
            v = np.repeat(v, 2, axis=-1)[..., ::2]
        made.append(Tensor(v).requires_grad_())
    return made
