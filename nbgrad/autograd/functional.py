"""``autograd.functional``: Jacobians, Hessians and products with them, with PyTorch's signatures and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, AutogradError, DTypeError, ShapeError, UnsupportedError, message
from ..func.flat import check_inexact, flat_jvp, flat_vjp, flat_vmap, releaf, strip
from ..op.interpreter import inside
from ..state import ON, state
from ..tensor import Tensor
from .api import grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tuple(x: Any, op: str, what: str) -> tuple[tuple, bool]:
    """Tensors as a tuple, and whether they came as one."""
    many = isinstance(x, tuple | list)
    found = tuple(x) if many else (x,)
    for i, t in enumerate(found):
        if not isinstance(t, Tensor):
            name = f"entry {i} of the {what}" if many else f"the {what}"
            raise DTypeError(message(op, name, type(t).__name__, "a tensor"))
    return found, many


class _Run:
    """A function evaluated at differentiable copies of its inputs."""

    def __init__(self, func: Callable, inputs: Any, create_graph: bool, strict: bool, op: str):
        self.given, self.many_in = _tuple(inputs, op, "inputs")
        self.create_graph, self.strict, self.op = create_graph, strict, op
        previous = state.set_off(ON)
        try:
            sources = self.given if create_graph else [strip(x) for x in self.given]
            self.leaves = [releaf(x, op) for x in sources]
            with inside(f"functional.{op}"):
                out = func(*self.leaves)
            self.outs, self.many_out = _tuple(out, op, "outputs")
            for o in self.outs:
                o.refresh_()
        finally:
            state.set_off(previous)

    def grads(
        self, outs: Sequence[Tensor], seeds: Sequence[Any], wrt: Sequence[Tensor], again: bool
    ) -> list[Tensor]:
        """Gradients, zeros (or an error, when strict) where there is no dependence."""
        live = [(o, s) for o, s in zip(outs, seeds, strict=True) if o._node is not None]
        if self.strict and len(live) < len(outs):
            raise AutogradError(
                f"functional.{self.op}: strict=True, and an output is independent of the inputs."
            )
        got: tuple = (None,) * len(wrt)
        if live:
            got = grad(
                [o for o, _ in live],
                wrt,
                [s for _, s in live],
                retain_graph=True,
                create_graph=again,
                allow_unused=True,
            )
        if self.strict and any(g is None for g in got):
            where = next(i for i, g in enumerate(got) if g is None)
            raise AutogradError(
                f"functional.{self.op}: strict=True, and the output is independent of input {where}."
            )
        return [x.zeros_like_() if g is None else g for g, x in zip(got, wrt, strict=True)]

    def done(self, tensors: Sequence[Tensor], many: bool) -> Any:
        """Results for the user: without history unless create_graph, one or a tuple."""
        found = tuple(t if self.create_graph else strip(t) for t in tensors)
        return found if many else found[0]

    def scalar(self) -> Tensor:
        """The single output of a scalar function."""
        _check_scalar(self.outs, self.op)
        return self.outs[0]


def _check_scalar(outs: Sequence[Tensor], op: str) -> None:
    if len(outs) != 1 or outs[0].size_() != 1:
        raise ShapeError(
            message(
                f"functional.{op}",
                "the function's result",
                f"of shapes {[tuple(o.shape) for o in outs]}",
                "one scalar",
            )
        )


def _seeds(op: str, v: Any, like: Sequence[Tensor], what: str) -> list[Tensor]:
    """The vector of a product, checked; it may be left out beside a single element."""
    if v is None:
        if len(like) != 1 or like[0].size_() != 1:
            raise ArgumentError(
                message(
                    f"functional.{op}",
                    "argument 'v'",
                    "not given",
                    f"a vector like the {what}, which are more than one element",
                )
            )
        return [like[0].ones_like_()]
    found, _ = _tuple(v, op, "argument v")
    shapes = [tuple(t.shape) for t in like]
    if [tuple(t.shape) for t in found] != shapes:
        raise ShapeError(
            message(
                f"functional.{op}",
                "the shape of argument 'v'",
                [tuple(t.shape) for t in found],
                f"{shapes}, those of the {what}",
            )
        )
    return [t.to(x.dtype) for t, x in zip(found, like, strict=True)]


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """``(func(*inputs), v^T J)``; ``v`` is shaped as the outputs (not needed for a scalar)."""
    run = _Run(func, inputs, create_graph, strict, "vjp")
    got = run.grads(run.outs, _seeds("vjp", v, run.outs, "outputs"), run.leaves, create_graph)
    return run.done(run.outs, run.many_out), run.done(got, run.many_in)


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """``(func(*inputs), J v)``; ``v`` is shaped as the inputs.

    Computed by differentiating the (linear) vjp with respect to its vector, which needs reverse mode only.
    """
    run = _Run(func, inputs, create_graph, strict, "jvp")
    seeds = _seeds("jvp", v, run.leaves, "inputs")
    previous = state.set_off(ON)
    try:
        dummies = [releaf(o.zeros_like_(), "jvp") for o in run.outs]
        rows = run.grads(run.outs, dummies, run.leaves, True)
        run.strict = False  # rows may well be independent of the dummies: J is then zero
        got = run.grads(rows, seeds, dummies, create_graph)
    finally:
        state.set_off(previous)
    return run.done(run.outs, run.many_out), run.done(got, run.many_out)


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """``(func(*inputs), v^T H)`` of a scalar function; ``v`` is shaped as the inputs."""
    run = _Run(func, inputs, create_graph, strict, "vhp")
    out = run.scalar()
    seeds = _seeds("vhp", v, run.leaves, "inputs")
    previous = state.set_off(ON)
    try:
        g = run.grads([out], [out.ones_like_()], run.leaves, True)
        got = run.grads(g, seeds, run.leaves, create_graph)
    finally:
        state.set_off(previous)
    return run.done(run.outs, run.many_out), run.done(got, run.many_in)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """``(func(*inputs), H v)`` of a scalar function; ``v`` is shaped as the inputs.

    Forward over reverse (about the cost of two to three gradients); where an operation has no forward rule, or with
    ``strict``, the Hessian's symmetry is used: ``H v = (v^T H)^T``.
    """
    if strict or create_graph:
        return vhp(func, inputs, v, create_graph, strict)
    given, many = _tuple(inputs, "hvp", "inputs")

    def gradient(*xs: Tensor) -> list[Tensor]:
        outs, pull = flat_vjp(lambda *a: [func(*a)], xs, "hvp")
        _check_scalar(outs, "hvp")
        return [outs[0], *pull([outs[0].ones_like_()])]

    try:
        primals = [strip(x) for x in given]
        outs, got = flat_jvp(gradient, primals, _seeds("hvp", v, primals, "inputs"))
    except UnsupportedError:
        return vhp(func, inputs, v)
    return strip(outs[0]), tuple(got[1:]) if many else got[1]


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func`` at ``inputs``.

    A tensor of shape ``output + input`` for one input and one output; tuples (outputs outside, inputs inside) for several.

    Parameters
    ----------
    create_graph : make the result differentiable with respect to the inputs.
    strict : raise where an output does not depend on an input, instead of giving zeros.
    vectorize : all rows in one batched sweep (needs batching rules) instead of one by one.
    strategy : ``"reverse-mode"``, or ``"forward-mode"`` (by columns; with ``vectorize=True`` and without ``strict``).
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ArgumentError(
            message("jacobian", "argument 'strategy'", strategy, "'reverse-mode' or 'forward-mode'")
        )
    if strict and vectorize:
        raise ArgumentError("jacobian: strict=True cannot be combined with vectorize=True.")
    if strategy == "forward-mode":
        if strict or not vectorize:
            raise ArgumentError("jacobian: strategy 'forward-mode' needs vectorize=True.")
        return _columns(func, inputs, create_graph)
    run = _Run(func, inputs, create_graph, strict, "jacobian")
    table = []
    for o in run.outs:
        check_inexact(o, "jacobian")
        rows = _batched_rows(run, o) if vectorize else _rows(run, o)
        table.append(run.done(rows, run.many_in))
    return tuple(table) if run.many_out else table[0]


def _rows(run: _Run, o: Tensor) -> list[Tensor]:
    """One vjp per output element, stacked."""
    from .. import stack
    from ..func.jacobian import basis

    units = basis(o)
    rows = [run.grads([o], [units[k]], run.leaves, run.create_graph) for k in range(units.shape[0])]
    if not rows:
        return [Tensor(np.zeros((*o.shape, *x.shape), x.dtype)) for x in run.leaves]
    columns = zip(*rows, strict=True)
    return [
        stack(list(c)).reshape((*o.shape, *x.shape))
        for c, x in zip(columns, run.leaves, strict=True)
    ]


def _batched_rows(run: _Run, o: Tensor) -> list[Tensor]:
    """All vjps in one batched sweep."""
    from ..func.jacobian import basis

    units = basis(o)
    got = flat_vmap(
        lambda v: run.grads([o], [v], run.leaves, run.create_graph), [units], [0], units.shape[0]
    )
    return [g.reshape((*o.shape, *x.shape)) for g, x in zip(got, run.leaves, strict=True)]


def _columns(func: Callable, inputs: Any, create_graph: bool) -> Any:
    """The Jacobian by forward mode."""
    from ..func.jacobian import jacfwd

    given, many = _tuple(inputs, "jacobian", "inputs")
    sources = given if create_graph else tuple(strip(x) for x in given)
    box: list[bool] = []

    def listed(*xs: Tensor) -> tuple:
        outs, many_out = _tuple(func(*xs), "jacobian", "outputs")
        box.append(many_out)
        return outs

    table = jacfwd(listed, tuple(range(len(given))))(*sources)
    rows = tuple(r if many else r[0] for r in table)
    return rows if box[0] else rows[0]


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function at ``inputs``: the Jacobian of its gradient.

    A tensor of shape ``input + input``, or a tuple of tuples for several inputs. Parameters as `jacobian`.
    """
    _, many = _tuple(inputs, "hessian", "inputs")

    def scalar(*xs: Tensor) -> Tensor:
        out = func(*xs)
        if not isinstance(out, Tensor) or out.size_() != 1:
            raise ShapeError(
                message(
                    "functional.hessian",
                    "the function's result",
                    tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__,
                    "one scalar tensor",
                )
            )
        return out.reshape(())

    def gradient(*xs: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            outs, pull = flat_vjp(lambda *a: [scalar(*a)], xs, "hessian")
            got = tuple(pull([outs[0].ones_like_()]))
        else:
            got = jacobian(scalar, xs, create_graph=True, strict=strict)
        return got if many else got[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
