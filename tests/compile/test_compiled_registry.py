"""Every operator of the registry: compiled values and derivatives equal the eager ones.

The calls of an operator go into one compiled function, so that it costs one compilation. ``NBGRAD_FUZZ=1`` takes every
sample in both dtypes and both sizes.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from comparison import agree, arrays

import nbgrad as ng
from nbgrad.errors import NbgradError
from nbgrad.func.flat import flat_jvp, flat_vjp
from nbgrad.op import REGISTRY, Elementwise, Operator
from nbgrad.op.samples import Sample

for _module in pkgutil.iter_modules(ng.ops.__path__):
    importlib.import_module(f"nbgrad.ops.{_module.name}")

NAMES = sorted(name for name, op in REGISTRY.items() if op.tests is not None)
ROWS = 80  # rows of an enlarged sample: enough to be tiled
WIDTH = 32


class Call(NamedTuple):
    """One call of an operator, and which of its arguments can be differentiated."""

    op: Operator
    args: list[np.ndarray]
    params: dict
    which: tuple[int, ...]

    def __str__(self) -> str:
        args = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in self.args)
        return f"{self.op.name}({args}, {self.params})"

    def run(self, *xs: ng.Tensor) -> list[ng.Tensor]:
        """All results."""
        out = self.op(*xs, **self.params)
        return list(out) if isinstance(out, tuple) else [out]

    def part(self, *xs: ng.Tensor) -> list[ng.Tensor]:
        """The differentiable results as a function of all arguments."""
        return [o for o in self.run(*xs) if o.dtype.kind in "fc"]


def call(op: Operator, sample: Sample, dtype: np.dtype) -> Call | None:
    """The sample with its float64 arguments in a dtype, or None if the operator does not take it."""
    args = [np.asarray(a) for a in sample.args]
    narrow = {np.dtype("float64"): dtype, np.dtype("complex128"): np.result_type(dtype, "c8")}
    args = [a.astype(narrow.get(a.dtype, a.dtype)) for a in args]
    defined = op.defined if isinstance(op, Elementwise) else [True] * len(args)
    which = tuple(
        i
        for i, a in enumerate(args)
        if op.differentiable and a.dtype.kind in "fc" and i not in op.nondiff and defined[i]
    )
    c = Call(op, args, dict(sample.params), which)
    return c if runs(c) else None


def runs(c: Call) -> bool:
    """Whether the call, its vjp and its jvp work eagerly."""
    xs = [ng.tensor(a) for a in c.args]
    try:
        with np.errstate(all="ignore"):
            outs = c.part(*xs)
            if c.which and outs:
                pulled(c)(*xs, *outs)
                pushed(c)(*xs, *[xs[i] for i in c.which])
    except (NbgradError, ValueError, IndexError, AssertionError):
        return False  # a primitive checks less than the public function in front of it
    return True


def pulled(c: Call) -> Callable:
    """``(arguments, cotangents) -> cotangents of the arguments``."""
    n = len(c.args)

    def fn(*given: ng.Tensor) -> list:
        xs = list(given[:n])

        def some(*ys: ng.Tensor) -> list[ng.Tensor]:
            full = list(xs)
            for i, y in zip(c.which, ys, strict=True):
                full[i] = y
            return c.part(*full)

        return flat_vjp(some, [xs[i] for i in c.which])[1](list(given[n:]))

    return fn


def pushed(c: Call) -> Callable:
    """``(arguments, tangents) -> tangents of the results``."""
    n = len(c.args)

    def fn(*given: ng.Tensor) -> list:
        tangents: list = [None] * n
        for i, t in zip(c.which, given[n:], strict=True):
            tangents[i] = t
        return flat_jvp(c.part, list(given[:n]), tangents)[1]

    return fn


def dense(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Random numbers like an array."""
    v = rng.uniform(-1, 1, x.shape)
    if x.dtype.kind == "c":
        v = v + 1j * rng.uniform(-1, 1, x.shape)
    return np.asarray(v).astype(x.dtype)


def functions(c: Call, rng: np.random.Generator) -> list[tuple[str, Callable, list[np.ndarray]]]:
    """The call and its derivatives with arguments for them."""
    rows: list[tuple[str, Callable, list[np.ndarray]]] = [(f"{c}", c.run, c.args)]
    outs = arrays(c.part(*[ng.tensor(a) for a in c.args]))
    if c.which and outs:
        vs = [dense(rng, o) for o in outs]
        ds = [dense(rng, c.args[i]) for i in c.which]
        rows.append((f"vjp of {c}", pulled(c), [*c.args, *vs]))
        rows.append((f"jvp of {c}", pushed(c), [*c.args, *ds]))
    return rows


def compare(calls: Sequence[Call]) -> None:
    """One compiled function for all calls and their derivatives, against eager execution."""
    rng = np.random.default_rng(3)
    rows = [row for c in calls for row in functions(c, rng)]

    def everything(groups: list) -> list:
        return [fn(*xs) for (_, fn, _), xs in zip(rows, groups, strict=True)]

    given = [[ng.tensor(a) for a in args] for _, _, args in rows]
    got = ng.compile(everything)(given)
    for (label, fn, _), xs, outs in zip(rows, given, got, strict=True):
        agree(label, [o for o in outs if o is not None], [o for o in fn(*xs) if o is not None])


def samples(name: str, dtype: str) -> list[Call]:
    """The operator's declared samples."""
    op = REGISTRY[name]
    rng = np.random.default_rng([zlib.crc32(name.encode()), 0])
    found = [call(op, s, np.dtype(dtype)) for s in op.tests(rng, np.dtype("float64"))]
    return [c for c in found if c is not None]


def enlarged(c: Call) -> Call | None:
    """The call with its leading axis repeated to many rows, where that is a call, too."""
    rank = max((a.ndim for a in c.args), default=0)
    lead = max((a.shape[0] for a in c.args if a.ndim == rank and rank), default=1)
    times = -(-ROWS // max(lead, 1))
    args = [
        np.concatenate([a] * times) if rank and a.ndim == rank and a.shape[0] == lead else a
        for a in c.args
    ]
    if rank == 0 or lead == 0:
        return None
    if isinstance(c.op, Elementwise) and rank == 2:  # wide enough to be worth a tile
        args = [np.concatenate([a] * WIDTH, -1) if a.ndim and a.shape[-1] > 1 else a for a in args]
    big = c._replace(args=args)
    return big if runs(big) else None


def chosen(name: str) -> list[Call]:
    """A few calls that between them see both dtypes and both kinds of size; all of them with NBGRAD_FUZZ."""
    dtypes = ["float64", "float32"]
    if os.environ.get("NBGRAD_FUZZ"):
        small = [c for dtype in dtypes for c in samples(name, dtype)]
        return [*small, *[big for c in small if (big := enlarged(c)) is not None]]
    k = zlib.crc32(name.encode())
    small, other = samples(name, dtypes[k % 2]), samples(name, dtypes[1 - k % 2])
    calls = [small[k % len(small)]] if small else []
    for c in other:
        if (big := enlarged(c)) is not None:
            return [*calls, big]
    return [*calls, *other[:1]]


@pytest.mark.parametrize("name", NAMES)
def test_values_and_derivatives(name):
    calls = chosen(name)
    assert calls, f"{name}: no sample runs"
    compare(calls)
