"""Taylor mode: lazy, hash-consed series of coefficients.

For ``y = op(x)``, ``y' = J(x, y) x'``: the operator's jvp rule is run once on series, and its result is integrated
term by term, ``y[k] = (J x')[k-1] / k``. Coefficients are computed on demand, so a rule may refer to its own
output (tanh, exp) and sin and cos may refer to each other. Linear operators act coefficient by coefficient, bilinear
ones by the Cauchy product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from ..op.interpreter import new_level, own
from ..tensor import Level, Tensor, Value, shallow

Coefficient = Any  # Tensor, or None for a symbolic zero


class Series(Value):
    """A truncated power series; ``term(k)`` computes coefficient k when first asked for."""

    __slots__ = ("known", "rule")

    def __init__(self, level: Level, first: Tensor, rule: Callable[[int], Coefficient]):
        self.level = level
        self.known: list[Coefficient] = [first]
        self.rule = rule
        self.shape, self.dtype = first._data.shape, first._data.dtype
        level.interpreter.made.append(self)

    def parts(self) -> tuple[Tensor, ...]:
        """The lower tensors computed so far, with the first derivative's."""
        self.term(1)
        return tuple(c for c in self.known if c is not None)

    def term(self, k: int) -> Coefficient:
        """Coefficient k (a lower tensor, or None for zero)."""
        while len(self.known) <= k:
            self.known.append(self.rule(len(self.known)))
        return self.known[k]


def none(_: int) -> None:
    """The rule of a constant."""
    return None


class TaylorInterpreter:
    """Runs operators on series; one memo per level makes equal calls share one series."""

    def __init__(self) -> None:
        self.memo: dict[Any, Any] = {}
        self.made: list[Series] = []

    def close(self) -> None:
        """Forget all rules: they refer to each other in cycles, which would hold every coefficient."""
        for s in self.made:
            s.rule = none
        self.made.clear()
        self.memo.clear()

    def lift(self, level: Level, t: Tensor) -> Series:
        """A constant series."""
        return Series(level, t, none)

    def process(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        """One operator on series."""
        # series are lazy: hold operands by value, whatever happens to the tensor objects later
        args = [shallow(t) for t in args]
        key = _key(op, args, params)
        if key is not None and key in self.memo:
            return self.memo[key][0]
        out = self._compute(level, op, args, params)
        if key is not None:
            self.memo[key] = (out, args)
        return out

    def _compute(self, level: Level, op: Any, args: Sequence[Tensor], params: dict) -> Any:
        series = [t._data if own(level, t) else None for t in args]
        firsts = [t if s is None else s.term(0) for t, s in zip(args, series, strict=True)]
        first = op(*firsts, **params)
        live = [
            i
            for i, s in enumerate(series)
            if s is not None and i not in op.nondiff and s.dtype.kind in "fc"
        ]
        if not op.differentiable or not live:
            return first
        if op.taylor_rule is not None:
            return op.taylor_rule(level, series, firsts, first, **params)
        linear = op.linear_args(len(args))
        if linear and all(i in linear for i in live):
            return self._each(
                level, first, lambda k: _linear(op, series, firsts, params, linear, k)
            )
        if op.multilinear and len(live) <= 2 and all(i in op.multilinear for i in live):
            return self._each(level, first, lambda k: _cauchy(op, series, firsts, params, live, k))
        return self._integrate(level, op, args, series, first, params, live)

    def _each(self, level: Level, first: Any, rule: Callable[[int], Coefficient]) -> Any:
        if isinstance(first, tuple):
            return tuple(
                Series(level, f, lambda k, i=i: _pick(rule(k), i)) for i, f in enumerate(first)
            )
        return Series(level, first, rule)

    def _integrate(self, level, op, args, series, first, params, live) -> Any:
        """``y[k] = (J(x, y) x')[k-1] / k`` with the jvp rule run lazily on series."""
        box: list[Any] = []
        firsts = first if isinstance(first, tuple) else (first,)

        def derivative(i: int) -> Any:
            if not box:
                tangents = [
                    _derivative(level, s) if j in live else None for j, s in enumerate(series)
                ]
                target = (
                    tuple(Tensor(o) for o in outs) if isinstance(first, tuple) else Tensor(outs[0])
                )
                got = op.run_jvp(tangents, target, list(args), params)
                box.extend(got if isinstance(got, tuple) else (got,))
            return box[i]

        def rule(k: int, i: int) -> Coefficient:
            dy = derivative(i)
            if dy is None:
                return None
            c = dy._data.term(k - 1) if own(level, dy) else (dy if k == 1 else None)
            return None if c is None else c / k

        outs = [
            Series(level, f, (lambda k, i=i: rule(k, i)) if f.dtype.kind in "fc" else none)
            for i, f in enumerate(firsts)
        ]
        return tuple(outs) if isinstance(first, tuple) else outs[0]


def _pick(got: Any, i: int) -> Coefficient:
    return None if got is None else got[i]


def _key(op: Any, args: Sequence[Tensor], params: dict) -> Any:
    try:
        identities = tuple(id(t._data) for t in args)
        key = (op.name, identities, tuple(sorted(params.items())))
        hash(key)
    except TypeError:
        return None
    return key


def _derivative(level: Level, s: Series) -> Tensor:
    """The series of dx/dt: ``(k+1) x[k+1]``."""

    def term(k: int) -> Coefficient:
        c = s.term(k + 1)
        return None if c is None else (c if k == 0 else c * (k + 1))

    first = term(0)
    return Tensor(Series(level, s.term(0).zeros_like_() if first is None else first, term))


def _linear(
    op: Any, series: Sequence[Any], firsts: Sequence[Any], params: dict, linear, k: int
) -> Any:
    terms = [s.term(k) if s is not None and i in linear else None for i, s in enumerate(series)]
    if all(t is None for t in terms):
        return None
    full = [
        t if t is not None else (f.zeros_like_() if i in linear else f)
        for i, (t, f) in enumerate(zip(terms, firsts, strict=True))
    ]
    return op(*full, **params)


def _cauchy(op: Any, series, firsts, params: dict, live: Sequence[int], k: int) -> Any:
    apply = getattr(op, "in_derivatives", op)
    if len(live) == 1:
        c = series[live[0]].term(k)
        return (
            None
            if c is None
            else apply(*[c if j == live[0] else f for j, f in enumerate(firsts)], **params)
        )
    a, b = live
    total: Any = None
    for j in range(k + 1):
        u, v = series[a].term(j), series[b].term(k - j)
        if u is None or v is None:
            continue
        args = list(firsts)
        args[a], args[b] = u, v
        term = apply(*args, **params)
        total = term if total is None else total + term
    return total


def flat_jet(
    fn: Callable, primals: Sequence[Tensor], series: Sequence[Sequence[Any]]
) -> tuple[list, list]:
    """Taylor coefficients of ``fn`` along curves.

    ``series[i][k-1]`` is coefficient k (not derivative) of input i; returns the outputs and, per output,
    the list of its coefficients 1..K.
    """
    order = max((len(s) for s in series), default=0)
    interpreter = TaylorInterpreter()
    with closing(interpreter), new_level("a Taylor transform", interpreter) as level:
        args = []
        for x, s in zip(primals, series, strict=True):
            given = list(s)
            args.append(
                Tensor(Series(level, x, lambda k, g=given: g[k - 1] if k <= len(g) else None))
            )
        outs = list(fn(*args))
        firsts, rows = [], []
        for o in outs:
            o.refresh_()
            if own(level, o):
                firsts.append(o._data.term(0))
                cs = [o._data.term(k) for k in range(1, order + 1)]
            else:
                firsts.append(o)
                cs = [None] * order
            rows.append([firsts[-1].zeros_like_() if c is None else c for c in cs])
    return firsts, rows
