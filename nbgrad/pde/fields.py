"""A field's arguments: which of them are coordinates, how directions look in them, what multi-indices mean."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, ShapeError, message
from ..func.trees import select
from ..op import as_tensor
from ..ops.view import _reshape, expand
from ..tensor import Tensor
from ..utils import pytree
from .collapsed import constant
from .directions import Index


class Field:
    """A field ``u`` with its arguments, seen as a function of flat coordinate tensors.

    With an integer ``argnums`` that argument is one array of shape ``(..., d)``; with a tuple, each of the arguments is one
    coordinate, all of one shape. Everything else is passed through.
    """

    def __init__(self, op: str, u: Callable, argnums: Any, args: tuple, kwargs: dict):
        self.op, self.u, self.args, self.kwargs = op, u, args, kwargs
        self.packed = isinstance(argnums, int)
        self.which = select(args, argnums, op)
        if not self.which:
            raise ArgumentError(message(op, "argument 'argnums'", argnums, "at least one position"))
        self.primals = [_coordinate(op, args[i], i) for i in self.which]
        self._check_shapes()
        first = tuple(self.primals[0].shape)
        self.points = first[:-1] if self.packed else first
        self.d = first[-1] if self.packed else len(self.which)
        self.dtype = self.primals[0].dtype
        self.out_tree: Any = None
        self.evaluate: Callable[..., list[Tensor]] | None = None

    def _check_shapes(self) -> None:
        shapes = [tuple(x.shape) for x in self.primals]
        if self.packed and not shapes[0]:
            raise ShapeError(
                message(
                    self.op,
                    "the coordinates' shape",
                    (),
                    "(..., d), the coordinates on the last axis",
                    "Pass separate coordinates with argnums=(0, 1, ...), or argnums=(0,) for a single one.",
                )
            )
        if len(set(shapes)) > 1:
            raise ShapeError(
                message(
                    self.op,
                    "the separate coordinates' shapes",
                    shapes,
                    "equal shapes",
                    "Expand them with ng.broadcast_tensors first.",
                )
            )
        dtypes = {x.dtype.name for x in self.primals}
        if len(dtypes) > 1:
            raise DTypeError(
                message(self.op, "the coordinates' dtypes", sorted(dtypes), "one common dtype")
            )

    def __call__(self, *coordinates: Tensor) -> list[Tensor]:
        """The flat outputs of the field at other coordinates."""
        if self.evaluate is not None:
            return self.evaluate(*coordinates)
        args = list(self.args)
        for i, x in zip(self.which, coordinates, strict=True):
            args[i] = x
        flat, self.out_tree = pytree.flatten(self.u(*args, **self.kwargs))
        outs = [as_tensor(o, self.op, "the field's result") for o in flat]
        for o in outs:
            self.trailing(tuple(o.shape))
            if o.dtype.kind not in "fc":
                raise DTypeError(
                    message(
                        self.op,
                        "the dtype of the field's result",
                        o.dtype.name,
                        "a floating or complex dtype",
                    )
                )
        return outs

    def of(self, fn: Callable[[Field], list[Tensor]]) -> Field:
        """The field whose flat results ``fn`` computes from this one at other coordinates."""
        field = copy.copy(self)

        def moved(*coordinates: Tensor) -> list[Tensor]:
            inner = copy.copy(self)
            inner.primals = list(coordinates)
            outs = fn(inner)
            self.out_tree = inner.out_tree
            return outs

        field.evaluate = moved
        return field

    def trailing(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The component axes of a result: what follows the points' axes."""
        # columns (n, 1) may give (n, m) or (n,)
        candidates = [self.points] if self.packed else [self.points, _bare(self.points)]
        for points in candidates:
            if shape[: len(points)] == points:
                return shape[len(points) :]
        raise ShapeError(
            message(
                self.op,
                "the shape of the field's result",
                shape,
                f"{self.points} (one value a point), with or without component axes behind",
                "A field gives the values of every point separately.",
            )
        )

    def restored(self, flat: Sequence[Any]) -> Any:
        """Results in the structure of the field's result."""
        return pytree.unflatten(self.out_tree, flat)

    # -- directions --------------------------------------------------------------------------------
    def stack(self, vectors: Any) -> list[Tensor]:
        """First coefficients along directions: per coordinate argument a stack ``(R, *shape)``.

        ``vectors`` is an array ``(R, d)``, the same for all points, or a tensor ``(R, *points, d)``.
        """
        if isinstance(vectors, Tensor):
            if self.packed:
                return [vectors]
            return [
                _reshape(vectors.narrow(vectors.ndim - 1, i, 1), tuple(vectors.shape[:-1]))
                for i in range(self.d)
            ]
        rows = np.asarray(vectors, self.dtype).reshape(-1, self.d)
        n, ones = len(rows), (1,) * len(self.points)
        if self.packed:
            flat = constant(rows.reshape(n, *ones, self.d), self.primals[0])
            return [expand(flat, shape=(n, *self.points, self.d))]
        return [
            expand(constant(rows[:, i].reshape(n, *ones), self.primals[0]), shape=(n, *self.points))
            for i in range(self.d)
        ]

    def vectors(self, given: Any, what: str, leading: int = 0) -> Tensor:
        """User-given directions as a tensor ``(*leading axes, *points, d)``."""
        v = as_tensor(given, self.op, what)
        if v.dtype.kind == "c":
            raise DTypeError(
                message(self.op, f"the dtype of '{what}'", v.dtype.name, "a real dtype")
            )
        v = v.to(self.dtype)
        shape = tuple(v.shape)
        full = (*self.points, self.d)
        if leading == 0 and shape in ((self.d,), full):
            return v if shape == full else expand(v, shape=full)
        if leading == 1 and len(shape) in (2, len(full) + 1) and shape[1:] in ((self.d,), full):
            lead = (shape[0], *(1,) * (len(full) + 1 - len(shape)), *shape[1:])
            return expand(_reshape(v, lead), shape=(shape[0], *full))
        wanted = f"{(self.d,)} or {full}"
        raise ShapeError(
            message(self.op, f"the shape of '{what}'", shape, f"{wanted}, one entry a coordinate")
        )

    def beside_points(self, c: Tensor, out: Tensor) -> Tensor:
        """A coefficient that broadcasts to the points, with axes for the components of ``out``."""
        whole = tuple(out.shape)
        if tuple(c.shape) in ((), whole):
            return c
        n = len(whole) - len(self.trailing(whole))
        shape = self._broadcasts(c, whole[:n])
        return _reshape(c, (*shape, *(1,) * (len(whole) - n)))

    def at_points(self, c: Tensor) -> Tensor:
        """A coefficient as a tensor of shape ``(1, *one size a points' axis, 1)``."""
        n = len(self.points)
        bare = len(_bare(self.points)) if not self.packed else n
        # columns (n, 1) take coefficients (n,) as well
        base = self.points if c.ndim != bare else self.points[:bare]
        shape = self._broadcasts(c, base)
        lead = (1,) * (len(base) - len(shape))
        return _reshape(c, (1, *lead, *shape, *(1,) * (n - len(base)), 1))

    def _broadcasts(self, c: Tensor, points: tuple[int, ...]) -> tuple[int, ...]:
        shape = tuple(c.shape)
        while len(shape) > len(points) and shape[-1] == 1:
            shape = shape[:-1]
        pairs = zip(reversed(shape), reversed(points), strict=False)
        if len(shape) > len(points) or any(a not in (1, b) for a, b in pairs):
            raise ShapeError(
                message(
                    self.op,
                    "a coefficient's shape",
                    tuple(c.shape),
                    f"a number, or one that broadcasts to the points {points}",
                )
            )
        return shape

    # -- multi-indices -----------------------------------------------------------------------------
    def index(self, given: Any, names: Sequence[str] | None) -> Index:
        """A multi-index as sorted coordinate numbers.

        Raises
        ------
        ArgumentError : something else than coordinate numbers, or than names with ``coords``; out of range.
        """
        if names is not None and len(names) != self.d:
            raise ArgumentError(
                message(self.op, "argument 'coords'", names, f"{self.d} names, one a coordinate")
            )
        parts = (given,) if isinstance(given, int) else given
        if not isinstance(parts, str | tuple | list):
            raise ArgumentError(_index_message(self.op, given, self.d))
        return tuple(sorted(self._number(p, given, names) for p in parts))

    def _number(self, p: Any, given: Any, names: Sequence[str] | None) -> int:
        if isinstance(p, str):
            if names is None:
                raise ArgumentError(
                    message(
                        self.op,
                        "a multi-index",
                        repr(given),
                        "coordinate numbers",
                        'To use names, say what they mean: coords="tx".',
                    )
                )
            if p not in list(names):
                raise ArgumentError(
                    message(self.op, f"the name {p!r} in a multi-index", repr(given), f"{names!r}")
                )
            return list(names).index(p)
        if isinstance(p, bool) or not isinstance(p, int | np.integer) or not 0 <= p < self.d:
            raise ArgumentError(_index_message(self.op, given, self.d))
        return int(p)


def _bare(points: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the ones at its end."""
    while points and points[-1] == 1:
        points = points[:-1]
    return points


def _index_message(op: str, given: Any, d: int) -> str:
    return message(
        op,
        "a multi-index",
        repr(given),
        f"a tuple of coordinate numbers from 0 to {d - 1}",
        "(0, 1, 1) means d^3/dx0 dx1 dx1.",
    )


def _coordinate(op: str, x: Any, i: int) -> Tensor:
    t = as_tensor(x, op, f"argument {i}")
    if t.dtype.kind != "f":
        raise DTypeError(
            message(
                op,
                f"the dtype of argument {i}, a coordinate,",
                t.dtype.name,
                "a real floating dtype",
                "Convert it with .to(ng.float64).",
            )
        )
    t.refresh_()
    return t
