"""``ng.func``: transforms of functions over pytrees; they compose freely and to any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.api import finish
from ..autograd.batched import BatchInterpreter, unwrap, wrap
from ..autograd.dual import DUAL, Dual
from ..autograd.engine import run_backward
from ..autograd.graph import AccumulateGrad, Node
from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..op import as_tensor
from ..op.interpreter import new_level, own
from ..ops.view import alias
from ..state import ON, state
from ..tensor import Tensor, Value, level_of
from ..utils import pytree

# -- flat building blocks (sequences of tensors) ------------------------------------------------------


def releaf(t: Tensor) -> Tensor:
    """A fresh differentiable version of an input at the innermost live level.

    If the input already has history at that level, the new tensor is an alias node in that graph, so that
    outer derivatives flow through; else it is a leaf of its own.
    """
    t.refresh_()
    if state.levels:
        level = state.levels[-1]
        if level_of(t._data) is not level:
            data = level.interpreter.lift(level, t)
            t = Tensor(data) if isinstance(data, Value) else data
    if t.dtype.kind not in "fc":
        raise DTypeError(
            message(
                "func",
                "a differentiated argument's dtype",
                t.dtype.name,
                "a floating or complex dtype",
            )
        )
    if t._node is not None:
        return alias(t)
    leaf = Tensor(t._data)
    leaf._node = AccumulateGrad(leaf)
    return leaf


def reaches_others(roots: Sequence[Node], stop: set[Node]) -> bool:
    """Whether a graph reaches a leaf outside ``stop``: then an outer derivative may need it."""
    own_leaves = {n for n in stop if isinstance(n, AccumulateGrad)}
    lowest = min((n.seq for n in stop), default=0)
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad):
            if node not in own_leaves:
                return True
            continue
        if node in stop or node.seq < lowest:
            return True
        for child in node.edges:
            if child is not None and child not in seen:
                seen.add(child)
                stack.append(child)
    return False


def flat_vjp(fn: Callable, primals: Sequence[Tensor]) -> tuple[list[Tensor], Callable]:
    """Outputs and a pullback ``cotangents -> input cotangents`` (reusable)."""
    outer = state.off
    previous = state.set_off(ON)
    try:
        leaves = [releaf(x) for x in primals]
        outs = [as_tensor(o, "vjp") for o in fn(*leaves)]
    finally:
        state.set_off(previous)
    for o in outs:
        o.refresh_()

    def pull(cotangents: Sequence[Any]) -> list[Tensor]:
        roots = [
            (o._node, o._nr, as_tensor(c).to(o.dtype))
            for o, c in zip(outs, cotangents, strict=True)
            if o._node is not None and c is not None
        ]
        if not roots:
            return [x.zeros_like_() for x in leaves]
        edges = [(x._node, x._nr) for x in leaves]
        deeper = outer > 0 and (
            reaches_others([r[0] for r in roots], {n for n, _ in edges})
            or any(c._node is not None for _, _, c in roots)
        )
        got = run_backward(roots, retain=True, create_graph=deeper, inputs=edges, accumulate=False)
        return list(finish(leaves, got, True, True, deeper))

    return [_strip(o, leaves) for o in outs], pull


def _strip(o: Tensor, leaves: Sequence[Tensor]) -> Tensor:
    """An output for the caller: without graph if it depends only on the transform's own leaves."""
    if o._node is None:
        return o
    own_nodes = {x._node for x in leaves if x._node is not None}
    if state.off <= 0 or not reaches_others([o._node], own_nodes):
        return o.detach()
    return o


def flat_jvp(fn: Callable, primals: Sequence[Tensor], tangents: Sequence[Any]) -> tuple[list, list]:
    """Outputs and output tangents."""
    with new_level("a jvp", DUAL) as level:
        args = []
        for x, t in zip(primals, tangents, strict=True):
            x.refresh_()
            args.append(Tensor(Dual(level, x, None if t is None else as_tensor(t).to(x.dtype))))
        outs, dots = [], []
        level.returned = list(fn(*args))
        for o in list(level.returned):
            o = as_tensor(o, "jvp")
            o.refresh_()
            if own(level, o):
                outs.append(o._data.primal)
                dots.append(o._data.tangent)
            else:
                outs.append(o)
                dots.append(None)
            if dots[-1] is None:
                dots[-1] = outs[-1].zeros_like_()
    return outs, dots


def flat_vmap(
    fn: Callable,
    args: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
    out_dims: Any = 0,
    randomness: str = "error",
) -> list[Tensor]:
    """Outputs with the batch in front (or at ``out_dims``)."""
    with new_level("vmap", BatchInterpreter(size, randomness)) as level:
        wrapped = []
        for x, d in zip(args, dims, strict=True):
            if isinstance(x, Tensor):
                x.refresh_()
            wrapped.append(x if d is None else wrap(level, x, d))
        outs = list(fn(*wrapped))
        level.returned = list(outs)
        places = out_dims if isinstance(out_dims, list | tuple) else [out_dims] * len(outs)
        res = []
        for o, d in zip(outs, places, strict=True):
            o = as_tensor(o, "vmap")
            o.refresh_()
            res.append(unwrap(level, o, size, d))
    return res


# -- public transforms ------------------------------------------------------------------------------


def _select(args: tuple, argnums: int | Sequence[int], op: str) -> tuple[int, ...]:
    which = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in which:
        if not -len(args) <= i < len(args):
            raise ArgumentError(
                message(op, "argument 'argnums'", argnums, f"positions below {len(args)}")
            )
    return tuple(i % len(args) for i in which)


class _Flat:
    """A function of pytrees seen as one of flat tensors: the arguments ``which`` vary."""

    def __init__(
        self, fn: Callable, args: tuple, kwargs: dict, which: Sequence[int], has_aux: bool
    ):
        self.fn, self.args, self.kwargs, self.which, self.has_aux = fn, args, kwargs, which, has_aux
        leaves, self.in_tree = pytree.flatten(tuple(args[i] for i in which))
        self.leaves = [as_tensor(x, "func") for x in leaves]
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *leaves: Tensor) -> list[Any]:
        args = list(self.args)
        for i, value in zip(self.which, pytree.unflatten(self.in_tree, leaves), strict=True):
            args[i] = value
        out = self.fn(*args, **self.kwargs)
        if self.has_aux:
            out, self.aux = out
        flat, self.out_tree = pytree.flatten(out)
        return flat

    def pack_in(self, flat: Sequence[Any], single: bool) -> Any:
        """Values like the varying arguments (unpacked if there is one)."""
        tree = pytree.unflatten(self.in_tree, flat)
        return tree[0] if single else tree

    def pack_out(self, flat: Sequence[Any]) -> Any:
        """Values like the result."""
        return pytree.unflatten(self.out_tree, flat)


def value_and_grad(
    fn: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable:
    """``fn`` with ``(value, gradient)`` results; ``fn`` must return a real scalar (and aux if asked for)."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = _Flat(fn, args, kwargs, _select(args, argnums, "grad"), has_aux)
        outs, pull = flat_vjp(flat, flat.leaves)
        if len(outs) != 1 or outs[0].size_() != 1:
            raise ShapeError(
                message(
                    "func.grad",
                    "the function's result",
                    [tuple(o.shape) for o in outs],
                    "one scalar",
                    "Use jacrev or vjp for other outputs.",
                )
            )
        got = pull([outs[0].ones_like_()])
        value = (outs[0], flat.aux) if has_aux else outs[0]
        return value, flat.pack_in(got, isinstance(argnums, int))

    return wrapped


def grad(fn: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """The gradient function of a scalar function (``(gradient, aux)`` with ``has_aux``)."""
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return wrapped


def grad_and_value(
    fn: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable:
    """PyTorch's order of `value_and_grad`: ``(gradient, value)``."""
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return g, value

    return wrapped


def vjp(fn: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """``(outputs, pullback)``; the pullback maps a cotangent of the outputs to one per primal (a tuple)."""
    flat = _Flat(fn, primals, {}, range(len(primals)), has_aux)
    outs, pull = flat_vjp(flat, flat.leaves)

    def pullback(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        cots, tree = pytree.flatten(given)
        if tree != flat.out_tree:
            raise ArgumentError(
                message(
                    "vjp",
                    "the cotangent's structure",
                    tree,
                    f"{flat.out_tree}, that of the outputs",
                )
            )
        for c, o in zip(cots, outs, strict=True):
            if tuple(as_tensor(c).shape) != tuple(o.shape):
                raise ShapeError(
                    message("vjp", "a cotangent's shape", tuple(c.shape), tuple(o.shape).__repr__())
                )
        return flat.pack_in(pull(cots), False)

    result = flat.pack_out(outs)
    return (result, pullback, flat.aux) if has_aux else (result, pullback)


def jvp(fn: Callable, primals: tuple, tangents: tuple, *, has_aux: bool = False) -> tuple:
    """``(outputs, output tangents)`` of ``fn`` at ``primals`` along ``tangents``."""
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise ArgumentError("jvp: 'primals' and 'tangents' must be tuples, one entry an argument.")
    primals, tangents = tuple(primals), tuple(tangents)
    flat = _Flat(fn, primals, {}, range(len(primals)), has_aux)
    dots, tree = pytree.flatten(tangents)
    if tree != flat.in_tree:
        raise ArgumentError(
            message("jvp", "the tangents' structure", tree, f"{flat.in_tree}, that of primals")
        )
    for x, t in zip(flat.leaves, dots, strict=True):
        if tuple(as_tensor(t).shape) != tuple(x.shape):
            raise ShapeError(
                message(
                    "jvp",
                    "a tangent's shape",
                    tuple(as_tensor(t).shape),
                    f"{tuple(x.shape)}, its primal's",
                )
            )
    outs, out_dots = flat_jvp(flat, flat.leaves, dots)
    result = (flat.pack_out(outs), flat.pack_out(out_dots))
    return (*result, flat.aux) if has_aux else result


def linearize(fn: Callable, *primals: Any) -> tuple:
    """``(outputs, f_jvp)``: the derivative as a function of tangents, recorded once as a tape."""
    from ..op import Spec
    from ..tape.record import trace_flat

    flat = _Flat(fn, primals, {}, range(len(primals)), False)
    box: list[Any] = []

    def linear(*tangents: Tensor) -> list[Any]:
        outs, dots = flat_jvp(flat, flat.leaves, tangents)
        box.append(outs)
        return dots

    tape = trace_flat(
        linear, [Spec(tuple(x.shape), x.dtype) for x in flat.leaves], "linearize"
    ).simplify()

    def f_jvp(*tangents: Any) -> Any:
        dots, _ = pytree.flatten(tangents)
        return flat.pack_out(tape.run([as_tensor(t) for t in dots]))

    outs = flat(*flat.leaves)
    return flat.pack_out(outs), f_jvp


def vmap(
    fn: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    *,
    chunk_size: int | None = None,
    randomness="error",
) -> Callable:
    """Map ``fn`` over a batch dimension of its arguments, vectorised.

    Parameters
    ----------
    in_dims : the batch dimension of each argument (an integer, None, or a structure of them).
    out_dims : where the batch goes in the outputs.
    chunk_size : batch members processed at a time (None: all).
    randomness : ``"error"``, ``"same"`` or ``"different"`` for random operators inside.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.flatten(args)
        dims = _spread(in_dims, args)
        tensors = [
            as_tensor(x, "vmap") if d is not None else x for x, d in zip(leaves, dims, strict=True)
        ]
        size = _batch_size(tensors, dims)
        box: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            out, out_tree = pytree.flatten(fn(*pytree.unflatten(tree, xs), **kwargs))
            box.append(out_tree)
            return out

        step = size if chunk_size is None else max(1, chunk_size)
        parts = [
            flat_vmap(
                flat,
                *_chunk(tensors, dims, lo, min(lo + step, size)),
                out_dims=_flat_dims(out_dims),
                randomness=randomness,
            )
            for lo in range(0, max(size, 1), max(step, 1))
        ]
        if len(parts) == 1:
            return pytree.unflatten(box[0], parts[0])
        return pytree.unflatten(box[0], [_cat(list(p), out_dims) for p in zip(*parts, strict=True)])

    return wrapped


def _flat_dims(out_dims: Any) -> Any:
    return out_dims if isinstance(out_dims, int) else pytree.flatten(out_dims)[0]


def _cat(parts: list[Tensor], dim: Any) -> Tensor:
    from .. import cat

    return cat(parts, dim if isinstance(dim, int) else 0)


def _chunk(
    tensors: Sequence[Any], dims: Sequence[Any], lo: int, hi: int
) -> tuple[list, Sequence, int]:
    whole = lo == 0 and hi == _batch_size(tensors, dims)
    cut = [
        x if d is None or whole else x.narrow(d, lo, hi - lo)
        for x, d in zip(tensors, dims, strict=True)
    ]
    return cut, dims, hi - lo


def _spread(in_dims: Any, args: tuple) -> list[int | None]:
    """One batch dimension per leaf from a prefix structure."""
    if in_dims is None or isinstance(in_dims, int):
        return [in_dims] * len(pytree.flatten(args)[0])
    dims: list[int | None] = []
    if len(in_dims) != len(args):
        raise ArgumentError(message("vmap", "argument 'in_dims'", in_dims, f"{len(args)} entries"))
    for d, a in zip(in_dims, args, strict=True):
        if d is None or isinstance(d, int):
            dims += [d] * len(pytree.flatten(a)[0])
        else:
            children = [a[k] for k in d] if isinstance(d, dict) else list(a)
            entries = list(d.values()) if isinstance(d, dict) else list(d)
            dims += _spread(tuple(entries), tuple(children))
    return dims


def _batch_size(tensors: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = set()
    for x, d in zip(tensors, dims, strict=True):
        if d is not None:
            if not -x.ndim <= d < x.ndim:
                raise ShapeError(
                    message(
                        "vmap", "argument 'in_dims'", d, f"a dimension of shape {tuple(x.shape)}"
                    )
                )
            sizes.add(x.shape[d])
    if len(sizes) != 1:
        raise ShapeError(
            message("vmap", "the batch sizes of the arguments", sorted(sizes), "one common size")
        )
    return sizes.pop()


def jacrev(
    fn: Callable, argnums: int | Sequence[int] = 0, *, chunk_size: int | None = None
) -> Callable:
    """The Jacobian by reverse mode: one vectorised pullback over all output elements."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = _Flat(fn, args, kwargs, _select(args, argnums, "jacrev"), False)
        outs, pull = flat_vjp(flat, flat.leaves)
        rows = []
        for j, o in enumerate(outs):
            basis = _basis(o)

            def one(v: Tensor, j: int = j) -> list[Tensor]:
                return pull([v if i == j else None for i in range(len(outs))])

            got = vmap(lambda v: tuple(one(v)), chunk_size=chunk_size)(basis)
            rows.append(
                [g.reshape((*o.shape, *x.shape)) for g, x in zip(got, flat.leaves, strict=True)]
            )
        single = isinstance(argnums, int)
        return flat.pack_out([flat.pack_in(r, single) for r in rows])

    return wrapped


def jacfwd(
    fn: Callable, argnums: int | Sequence[int] = 0, *, chunk_size: int | None = None
) -> Callable:
    """The Jacobian by forward mode: one vectorised jvp over all input elements."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat = _Flat(fn, args, kwargs, _select(args, argnums, "jacfwd"), False)
        columns: list[list[Tensor]] = []
        for i, x in enumerate(flat.leaves):

            def push(v: Tensor, i: int = i) -> tuple:
                dots = [v if k == i else None for k in range(len(flat.leaves))]
                return tuple(flat_jvp(flat, flat.leaves, dots)[1])

            got = vmap(push, out_dims=-1, chunk_size=chunk_size)(_basis(x))
            columns.append([g.reshape((*g.shape[:-1], *x.shape)) for g in got])
        single = isinstance(argnums, int)
        n_out = len(columns[0]) if columns else 0
        return flat.pack_out([flat.pack_in([c[j] for c in columns], single) for j in range(n_out)])

    return wrapped


def _basis(x: Tensor) -> Tensor:
    """All unit vectors of a tensor's shape, stacked in front."""
    n = x.size_()
    return Tensor(np.eye(n, dtype=x.dtype).reshape((n, *x.shape)))


def hessian(fn: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """Second derivatives, forward over reverse."""
    return jacfwd(jacrev(fn, argnums), argnums)


def hvp(fn: Callable, primals: tuple, tangents: tuple) -> tuple:
    """``(gradient, Hessian-vector product)`` of a scalar function, forward over reverse."""
    which = tuple(range(len(primals)))
    g, h = jvp(grad(fn, which), tuple(primals), tuple(tangents))
    return (g, h) if len(primals) > 1 else (g[0], h[0])


def jet(fn: Callable, primals: tuple, series: tuple) -> tuple:
    """Taylor mode: derivatives of ``t -> fn(x(t))`` at 0.

    ``series[i]`` lists the derivatives ``x', x'', ...`` of argument i (not divided by factorials); returns the output and
    the list of its derivatives, as ``jax.experimental.jet``.
    """
    from math import factorial

    from ..tape.taylor import flat_jet

    flat = _Flat(fn, tuple(primals), {}, range(len(primals)), False)
    scaled = [
        [as_tensor(c) / factorial(k) if k > 1 else as_tensor(c) for k, c in enumerate(s, 1)]
        for s in series
    ]
    outs, rows = flat_jet(flat, flat.leaves, scaled)
    derivs = [[c * factorial(k) if k > 1 else c for k, c in enumerate(r, 1)] for r in rows]
    if len(outs) == 1:
        return flat.pack_out(outs), derivs[0]
    return flat.pack_out(outs), derivs
