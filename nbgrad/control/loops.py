"""``ng.scan``, ``ng.fori_loop`` and ``ng.while_loop``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, message
from ..op import Spec, as_tensor
from ..op.dispatch import CONSTANT, tag
from ..tensor import Tensor
from ..utils import pytree
from .body import Closed, close, in_specs, out_specs, refuse_random, spec_of
from .checks import (
    flat_tensors,
    loop_length,
    same_structure,
    same_types,
    snapshots_for,
    truth,
    whole,
)
from .repeat import WHILE
from .scan import SCAN


def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | str | None = None,
) -> tuple[Any, Any]:
    """Loop ``carry, y = f(carry, x)`` over the leading dimension of ``xs``; returns ``(carry, ys)``.

    One operator, eager and on a tape, with derivatives of every order and mode. ``f`` is traced once per call: it
    must not read values in Python, and what it captures is differentiated too.

    Parameters
    ----------
    init, xs : pytrees of tensors; leaves of xs have the shape ``(length, ...)``.
    length : number of steps; needed where ``xs`` is None.
    reverse : loop from the last x to the first; ``ys[k]`` still belongs to ``xs[k]``.
    checkpoint : what reverse mode keeps. None or ``"store"``: every carry. A number of bytes: as many carries as fit,
        the others computed again with the least work (binomial checkpointing, Griewank & Walther 2000).
        ``"binomial"``: about log2(length) carries. Inside vmap the bytes are those of one member.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError : xs of different lengths; a carry whose structure, shape or dtype ``f`` changes.
    TraceError : ``f`` reads a traced value or draws random numbers.
    """
    carry, tree = flat_tensors(init, "scan", "init")
    rows, x_tree = flat_tensors(xs, "scan", "xs")
    n = loop_length(rows, x_tree, length)
    body, y_tree = _scan_body(f, carry, tree, rows, x_tree)
    refuse_random(body.tape, "scan")
    out = SCAN(
        *body.captured,
        *carry,
        *rows,
        body=body.tape,
        n_consts=len(body.captured),
        n_carry=len(carry),
        n_xs=len(rows),
        length=n,
        reverse=bool(reverse),
        stored=0,
        snapshots=snapshots_for(checkpoint, carry, n),
    )
    return pytree.unflatten(tree, out[: len(carry)]), pytree.unflatten(y_tree, out[len(carry) :])


def _scan_body(
    f: Callable, carry: list[Tensor], tree: Any, rows: list[Tensor], x_tree: Any
) -> tuple[Closed, Any]:
    """The traced body, checked, and the structure of its y."""
    specs = [*map(spec_of, carry), *(Spec(tuple(x.shape[1:]), x.dtype) for x in rows)]
    both = pytree.TreeDef(tuple, (), (tree, x_tree))
    body = close(f, both, specs, "scan")
    out = body.out_tree
    if out.kind is not tuple or len(out.children) != 2:
        raise ArgumentError(message("scan", "the result of f", out, "a pair (carry, y)"))
    of = "as the carry comes in"
    same_structure("scan", "the carry f returns", out.children[0], tree, of)
    got = out_specs(body.tape)[: len(carry)]
    same_types("scan", "the carry f returns", tree, got, specs[: len(carry)], of)
    return body, out.children[1]


def fori_loop(lower: Any, upper: Any, body_fun: Callable, init: Any) -> Any:
    """``for i in range(lower, upper): carry = body_fun(i, carry)``; ``i`` is an int64 tensor.

    With Python integers as bounds it is a `scan`, differentiable in every mode; with tensors a `while_loop`.

    Raises
    ------
    As `scan`; ArgumentError : bounds that are neither integers nor integer tensors.
    """
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        lo, hi = _bound(lower, "lower"), _bound(upper, "upper")
        return while_loop(
            lambda state: state[0] < hi,
            lambda state: (state[0] + 1, body_fun(state[0], state[1])),
            (lo, init),
        )[1]
    for arg, value in (("lower", lower), ("upper", upper)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise ArgumentError(
                message("fori_loop", f"argument '{arg}'", repr(value), "an integer")
            )
    steps = tag(Tensor(np.arange(int(lower), int(upper))), CONSTANT)
    return scan(lambda carry, i: (body_fun(i, carry), None), init, steps)[0]


def _bound(value: Any, arg: str) -> Tensor:
    t = as_tensor(value, "fori_loop", arg)
    if t.dtype.kind not in "iu" or t.ndim:
        given = f"{t.dtype.name}{list(t.shape)}"
        raise DTypeError(message("fori_loop", f"argument '{arg}'", given, "one integer"))
    return t.to(np.dtype("int64"))


def while_loop(
    cond_fun: Callable, body_fun: Callable, init: Any, *, max_steps: int | None = None
) -> Any:
    """``while cond_fun(carry): carry = body_fun(carry)``; returns the last carry.

    Forward and Taylor mode work always. Reverse mode stores the carries, so it needs ``max_steps``, a bound of their
    number. Under vmap the loop runs until every member is done; members that are done keep their carry.

    Raises
    ------
    ArgumentError : the condition still holds after ``max_steps`` steps.
    ArgumentError, ShapeError, DTypeError : a condition that is no bool; a carry that ``body_fun`` changes in type.
    UnsupportedError : (in backward) no ``max_steps``.
    """
    carry, tree = flat_tensors(init, "while_loop", "init")
    limit = None if max_steps is None else whole("while_loop", "max_steps", max_steps)
    specs = [spec_of(t) for t in carry]
    one = pytree.TreeDef(tuple, (), (tree,))
    test = close(
        lambda state: truth("while_loop", cond_fun(state), "the condition"),
        one,
        specs,
        "while_loop",
    )
    body = close(body_fun, one, specs, "while_loop")
    of = "as the carry comes in"
    same_structure("while_loop", "the carry body_fun returns", body.out_tree, tree, of)
    got = out_specs(body.tape)
    same_types("while_loop", "the carry body_fun returns", tree, got, specs, of)
    for part in (test, body):
        refuse_random(part.tape, "while_loop")
        assert in_specs(part.tape)[len(part.captured) :] == specs
    out = WHILE(
        *test.captured,
        *body.captured,
        *carry,
        cond=test.tape,
        body=body.tape,
        n_cond=len(test.captured),
        n_body=len(body.captured),
        n_carry=len(carry),
        max_steps=limit,
    )
    return pytree.unflatten(tree, out)
