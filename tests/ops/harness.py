"""The generic checks of one operator: run on every sample its declaration gives (`nbgrad.op.samples`).

Each check is a function ``check(op) -> None`` in `CHECKS` that raises AssertionError. Reference derivatives come from
Ridders' extrapolated central differences, whose error estimate is part of the tolerance.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nbgrad import dtypes as dt
from nbgrad.autograd import grad
from nbgrad.errors import DTypeError, NbgradError
from nbgrad.func.api import flat_jvp, flat_vjp, flat_vmap
from nbgrad.op import Elementwise, Operator, Spec
from nbgrad.op.samples import Sample
from nbgrad.tape import Tape
from nbgrad.tape.record import trace_flat
from nbgrad.tape.taylor import flat_jet
from nbgrad.tensor import Tensor

F64, F32 = dt.float64, dt.float32
WIDE = {dt.float64: dt.float64, dt.float32: dt.float64, dt.complex64: dt.complex128}
NARROW = {dt.float64: dt.float32, dt.complex128: dt.complex64}
# kernels that only exist for some memory layouts: their public functions copy first
LAYOUT_BOUND = {"reshape": "a view of the same memory; the public reshape copies where it must"}


class Case(NamedTuple):
    """One sample as tensors, with what may be differentiated."""

    op: Operator
    sample: Sample
    which: tuple[int, ...]
    rng: np.random.Generator

    def __str__(self) -> str:
        args = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in arrays(self.sample))
        return (
            f"{self.op.name}({args}{''.join(f', {k}={v}' for k, v in self.sample.params.items())})"
        )

    def run(self, tensors: Sequence[Any]) -> list[Tensor]:
        """Outputs of the operator on tensors."""
        out = self.op(*tensors, **self.sample.params)
        return list(out) if isinstance(out, tuple) else [out]

    def fn(self) -> Callable[..., list[Tensor]]:
        """The differentiable outputs as a function of the differentiable arguments."""
        args = [tensor(a) for a in arrays(self.sample)]

        def call(*xs: Tensor) -> list[Tensor]:
            full = list(args)
            for i, x in zip(self.which, xs, strict=True):
                full[i] = x
            return [o for o in self.run(full) if o.dtype.kind in "fc"]

        return call

    def points(self) -> list[np.ndarray]:
        """Values of the differentiable arguments."""
        given = arrays(self.sample)
        return [given[i] for i in self.which]

    def directions(self) -> list[np.ndarray]:
        """Random directions like the differentiable arguments, of size about 1."""
        return [noise(self.rng, x.shape, x.dtype) for x in self.points()]

    def cotangents(self) -> list[np.ndarray]:
        """Random cotangents of the differentiable outputs."""
        outs = self.fn()(*map(tensor, self.points()))
        return [noise(self.rng, tuple(o.shape), o.dtype) for o in outs]


def tensor(a: np.ndarray) -> Tensor:
    """A tensor over an array's own memory and strides."""
    return Tensor(a)


def arrays(sample: Sample) -> list[np.ndarray]:
    """The sample's arguments as arrays."""
    return [np.asarray(a) for a in sample.args]


def data(t: Tensor) -> np.ndarray:
    """A result as an array."""
    return np.asarray(t.detach().numpy())


def noise(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Random numbers in +-[0.3, 1], never 0, so that nothing is hidden by a zero."""
    one = lambda: rng.uniform(0.3, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
    x = one() + 1j * one() if dtype.kind == "c" else one()
    return np.asarray(x).astype(dtype)


def generator(op: Operator, salt: int = 0) -> np.random.Generator:
    """A generator that depends on the operator's name only."""
    return np.random.default_rng([zlib.crc32(op.name.encode()), salt])


def differentiable(op: Operator, args: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Positions of the arguments an operator can be differentiated in."""
    if not op.differentiable:
        return ()
    defined = op.defined if isinstance(op, Elementwise) else [True] * len(args)
    return tuple(
        i
        for i, a in enumerate(args)
        if a.dtype.kind in "fc" and i not in op.nondiff and defined[min(i, len(defined) - 1)]
    )


def cases(op: Operator, dtype: np.dtype = F64, salt: int = 0) -> list[Case]:
    """The operator's samples in one dtype (none where it does not accept the dtype)."""
    rng = generator(op, salt)
    samples = op.tests(rng, dtype)
    return [Case(op, s, differentiable(op, arrays(s)), rng) for s in samples]


def accepts_complex(op: Operator) -> bool:
    """Whether the operator has complex samples that run."""
    try:
        found = cases(op, dt.complex128)
        if not any(a.dtype.kind == "c" for c in found for a in arrays(c.sample)):
            return False
        for c in found:
            c.run([tensor(a) for a in arrays(c.sample)])
    except DTypeError:
        return False
    return True


# -- comparing -----------------------------------------------------------------------------------------


def scale(*values: Any) -> float:
    """The largest finite magnitude, at least 1."""
    top = 1.0
    for v in values:
        a = np.abs(np.asarray(v))
        a = a[np.isfinite(a)]
        if a.size:
            top = max(top, float(a.max()))
    return top


def same(what: str, got: Any, want: Any, tol: float) -> None:
    """Equal shapes, and values within ``tol`` of the larger magnitude; NaN and inf in the same places."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if not got.size:
        return
    if got.dtype.kind not in "fc" and want.dtype.kind not in "fc":
        assert np.array_equal(got, want), f"{what}: {got!r}, expected {want!r}"
        return
    limit = tol * scale(want)
    with np.errstate(all="ignore"):
        bad = ~((np.abs(got - want) <= limit) | (got == want) | (np.isnan(got) & np.isnan(want)))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise AssertionError(
            f"{what}: at {at} got {got[at]!r}, expected {want[at]!r} (allowed difference {limit:.1e}; "
            f"{int(bad.sum())} of {bad.size} entries differ)"
        )


def all_same(what: str, got: Sequence[Any], want: Sequence[Any], tol: float) -> None:
    """`same` on corresponding entries of two lists; None counts as zero."""
    assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        name = f"{what} [{i}]" if len(got) > 1 else what
        if g is None or w is None:
            other = w if g is None else g
            if other is not None:
                same(name, np.asarray(other), np.zeros_like(other), tol)
            continue
        same(name, g, w, tol)


def inner(a: Sequence[np.ndarray], b: Sequence[Any]) -> float:
    """The real inner product ``Re sum conj(a) b`` that defines cotangents."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if y is not None:
            total += float(np.real(np.sum(np.conj(x) * np.asarray(y))))
    return total


def ridders(g: Callable[[float], float], h: float = 0.04, levels: int = 7) -> tuple[float, float]:
    """``g'(0)`` by central differences extrapolated to step 0, and an error estimate.

    C. J. F. Ridders, Adv. Eng. Software 4 (1982) 75; steps halve, non-finite ones are dropped.
    """
    best, err = np.nan, np.inf
    table: list[list[float]] = []
    for k in range(levels):
        step = h / 2**k
        d = (g(step) - g(-step)) / (2 * step)
        if not np.isfinite(d):
            table.clear()
            continue
        row = [d]
        for m in range(1, len(table) + 1):
            row.append(row[-1] + (row[-1] - table[-1][m - 1]) / (4**m - 1))
            e = max(abs(row[m] - row[m - 1]), abs(row[m] - table[-1][m - 1]))
            if e < err:
                best, err = row[m], e
        table.append(row)
    return best, err


def matches(what: str, got: float, g: Callable[[float], float], size: float) -> None:
    """A derivative agrees with differences of ``g``, which themselves must have converged."""
    with np.errstate(all="ignore"):
        want, err = ridders(g)
    limit = 1e-8 * max(size, abs(want)) + 20 * err
    assert err <= 1e-5 * max(size, abs(want), 1.0), (
        f"{what}: finite differences do not converge (estimate {want}, error {err:.1e}): is a sample on a kink or "
        "at the edge of the domain?"
    )
    assert abs(got - want) <= limit, f"{what}: {got!r}, by finite differences {want!r} +- {err:.1e}"


def moved(xs: Sequence[np.ndarray], ds: Sequence[np.ndarray], t: float) -> list[Tensor]:
    """The point ``x + t d`` as tensors."""
    return [tensor(np.asarray(x + t * d)) for x, d in zip(xs, ds, strict=True)]


# -- the checks ----------------------------------------------------------------------------------------


def check_values(op: Operator) -> None:
    """Results equal the NumPy reference, and the inputs are not modified."""
    for c in cases(op):
        args = arrays(c.sample)
        before = [a.tobytes() for a in args]
        got = [data(o) for o in c.run([tensor(a) for a in args])]
        assert [a.tobytes() for a in args] == before, f"{c}: an input was modified"
        if op.reference is None:
            continue
        compare_reference(c, got, 1e-12)


def compare_reference(c: Case, got: list[np.ndarray], tol: float) -> None:
    """Against ``op.reference`` on the sample's arrays."""
    with np.errstate(all="ignore"):
        want = c.op.reference(*arrays(c.sample), **c.sample.params)
    want = list(want) if isinstance(want, tuple | list) else [want]
    all_same(f"{c}: value", got, want, tol)
    for g, w in zip(got, want, strict=True):
        kinds = (g.dtype.kind, np.asarray(w).dtype.kind)
        assert kinds[0] == kinds[1] or "fc" not in "".join(kinds), f"{c}: dtype {g.dtype}"


def check_float32(op: Operator) -> None:
    """float32 stays float32 and agrees with float64 in value and first derivative."""
    for c in cases(op):
        narrow = [a.astype(NARROW[a.dtype]) if a.dtype in NARROW else a for a in arrays(c.sample)]
        if all(a.dtype is not F32 for a in narrow):
            continue
        wide = [a.astype(WIDE[a.dtype]) if a.dtype in WIDE else a for a in narrow]
        low, high = (
            Case(op, Sample(tuple(v), c.sample.params), c.which, c.rng) for v in (narrow, wide)
        )
        if any(isinstance(v, np.dtype) for v in c.sample.params.values()):
            continue  # the parameters fix the result's dtype
        got = [data(o) for o in low.run([tensor(a) for a in narrow])]
        want = [data(o) for o in high.run([tensor(a) for a in wide])]
        for g, w in zip(got, want, strict=True):
            assert g.dtype == NARROW.get(w.dtype, w.dtype), f"{c}: float32 gave {g.dtype}"
        all_same(f"{c}: float32 value", got, want, 2e-5)
        if c.which:
            v = low.cotangents()
            up = [x.astype(WIDE[x.dtype]) for x in v]
            gl, gh = eager_vjp(low, v), eager_vjp(high, up)
            assert all(g is None or g.dtype in NARROW.values() for g in gl), f"{c}: gradient dtype"
            all_same(f"{c}: float32 gradient", gl, gh, 2e-4)


def check_complex(op: Operator) -> None:
    """Complex values, vjp and jvp (PyTorch's convention, both Wirtinger directions), where accepted."""
    if not accepts_complex(op):
        return
    for c in cases(op, dt.complex128):
        got = [data(o) for o in c.run([tensor(a) for a in arrays(c.sample)])]
        if op.reference is not None:
            compare_reference(c, got, 1e-11)
        if c.which:
            first_order(c)


def check_vjp(op: Operator) -> None:
    """Reverse mode against finite differences; fused, recorded and functional sweeps agree."""
    for c in cases(op):
        if not c.which:
            continue
        vs, xs = c.cotangents(), c.points()
        before = [a.tobytes() for a in xs]
        got = eager_vjp(c, vs)
        all_same(f"{c}: recorded vjp", eager_vjp(c, vs, create_graph=True), got, 1e-12)
        _, pull = flat_vjp(c.fn(), [tensor(x) for x in xs])
        all_same(f"{c}: func.vjp", [data(g) for g in pull(map_tensor(vs))], got, 1e-12)
        assert [a.tobytes() for a in xs] == before, f"{c}: backward modified an input"
        along(c, "vjp", vs, c.directions(), got)


def check_jvp(op: Operator) -> None:
    """Forward mode against finite differences, and the dot-product test."""
    for c in cases(op):
        if c.which:
            first_order(c)


def first_order(c: Case) -> None:
    """Values of jvp, jvp against differences, ``<v, J d> == <J^T v, d>``."""
    vs, ds, xs = c.cotangents(), c.directions(), c.points()
    outs, dots = flat_jvp(c.fn(), map_tensor(xs), map_tensor(ds))
    all_same(
        f"{c}: primal of the jvp",
        [data(o) for o in outs],
        list(map(data, c.fn()(*map_tensor(xs)))),
        0,
    )
    push = inner(vs, [data(d) for d in dots])
    pull = eager_vjp(c, vs)
    size = sum(np.abs(np.asarray(v)).sum() for v in vs)
    back = inner(ds, pull)
    assert abs(push - back) <= 1e-10 * scale(push, size), (
        f"{c}: <v, Jd> = {push}, <J'v, d> = {back}"
    )
    matches(f"{c}: jvp", push, lambda t: inner(vs, map(data, c.fn()(*moved(xs, ds, t)))), size)


def along(c: Case, what: str, vs: Sequence, ds: Sequence, got: Sequence) -> None:
    """``<J^T v, d>`` against differences of ``<v, f>`` along d."""
    size = sum(np.abs(np.asarray(v)).sum() for v in vs)
    value = lambda t: inner(vs, map(data, c.fn()(*moved(c.points(), ds, t))))
    matches(f"{c}: {what}", inner(ds, got), value, size)


def eager_vjp(c: Case, vs: Sequence[np.ndarray], create_graph: bool = False) -> list[Any]:
    """Gradients by ``autograd.grad``."""
    leaves = [tensor(x).detach().requires_grad_() for x in c.points()]
    outs = c.fn()(*leaves)
    live = [(o, tensor(v)) for o, v in zip(outs, vs, strict=True) if o.requires_grad]
    if not live:
        return [None] * len(leaves)
    got = grad(
        [o for o, _ in live],
        leaves,
        grad_outputs=[v for _, v in live],
        create_graph=create_graph,
        allow_unused=True,
    )
    return [None if g is None else data(g) for g in got]


def map_tensor(values: Sequence[np.ndarray]) -> list[Tensor]:
    """Arrays as tensors."""
    return [tensor(v) for v in values]


def check_second(op: Operator) -> None:
    """Second derivatives in a pair of random directions, by all four mode combinations."""
    for c in cases(op):
        if not c.which:
            continue
        vs, d1, d2, xs = c.cotangents(), c.directions(), c.directions(), c.points()
        fn = c.fn()

        def gradient(*zs: Tensor, fn: Any = fn, vs: Any = vs) -> list[Tensor]:
            return flat_vjp(fn, zs)[1](map_tensor(vs))

        def tangent(*zs: Tensor, fn: Any = fn, d1: Any = d1) -> list[Tensor]:
            return flat_jvp(fn, zs, map_tensor(d1))[1]

        points = map_tensor(xs)
        _, pull = flat_vjp(gradient, points)
        combos = {
            "reverse over reverse": inner(d2, map(data, pull(map_tensor(d1)))),
            "forward over reverse": inner(
                d1, map(data, flat_jvp(gradient, points, map_tensor(d2))[1])
            ),
            "reverse over forward": inner(
                d2, map(data, flat_vjp(tangent, points)[1](map_tensor(vs)))
            ),
            "forward over forward": inner(
                vs, map(data, flat_jvp(tangent, points, map_tensor(d2))[1])
            ),
        }
        size = scale(*map(data, gradient(*points))) * sum(x.size for x in xs)
        value = lambda t, c=c: inner(d1, eager_vjp_at(c, vs, moved(xs, d2, t)))
        for name, got in combos.items():
            matches(f"{c}: {name}", got, value, size)


def eager_vjp_at(c: Case, vs: Sequence[np.ndarray], point: Sequence[Tensor]) -> list[Any]:
    """The gradient at another point."""
    args = list(arrays(c.sample))
    for i, x in zip(c.which, point, strict=True):
        args[i] = data(x)
    return eager_vjp(Case(c.op, Sample(tuple(args), c.sample.params), c.which, c.rng), vs)


def check_taylor(op: Operator) -> None:
    """Taylor coefficients to order 3 along a curved path against nested forward mode."""
    for c in cases(op):
        if not c.which:
            continue
        xs = c.points()
        curve = [[d * 0.5**k for d in c.directions()] for k in range(3)]
        fn = c.fn()
        series = [[tensor(np.asarray(curve[k][i])) for k in range(3)] for i in range(len(xs))]
        _, rows = flat_jet(fn, map_tensor(xs), series)

        def path(t: Tensor, fn: Any = fn, xs: Any = xs, curve: Any = curve) -> list[Tensor]:
            zs = []
            for i, x in enumerate(xs):
                a, b, d = (tensor(np.asarray(curve[k][i])) for k in range(3))
                zs.append(tensor(x) + t * (a + t * (b + t * d)))
            return fn(*zs)

        one = tensor(np.asarray(1.0))
        nth = path
        for k, factorial in ((1, 1), (2, 2), (3, 6)):
            nth = derivative(nth, one)
            want = [data(o) / factorial for o in nth(tensor(np.asarray(0.0)))]
            got = [data(r[k - 1]) for r in rows]
            all_same(f"{c}: Taylor coefficient {k}", got, want, 1e-10)


def derivative(fn: Callable, one: Tensor) -> Callable:
    """The forward-mode derivative of a function of one scalar."""
    return lambda t: flat_jvp(fn, [t], [one])[1]


def check_vmap(op: Operator) -> None:
    """vmap of value and gradient against a Python loop, for several choices of batched arguments."""
    size = 3
    for c in cases(op):
        args = batch_of(c, size)
        floats = [i for i, a in enumerate(args[0]) if a.dtype.kind in "fc"]
        every = list(range(len(args[0])))
        plans: list[tuple[list[int], int]] = [(every, 0), (floats, 0), (floats, -1)]
        plans += [([i], 0) for i in every] if len(every) > 1 else []
        for chosen, dim in plans:
            if chosen:
                one_vmap(c, args, chosen, dim, size)


def batch_of(c: Case, size: int) -> list[list[np.ndarray]]:
    """``size`` argument lists of one sample: other draws of the maker where they fit, else copies."""
    first = arrays(c.sample)
    at = next(k for k, o in enumerate(cases(c.op)) if str(o) == str(c))
    rows = [first]
    for salt in range(1, size):
        others = cases(c.op, salt=salt)
        fits = len(others) > at and str(others[at]) == str(c)
        rows.append(arrays(others[at].sample) if fits else [a.copy() for a in first])
    return rows


def one_vmap(c: Case, rows: list, chosen: Sequence[int], dim: int, size: int) -> None:
    """One choice of batched arguments."""
    n = len(rows[0])
    stacked = [
        np.stack([r[i] for r in rows], axis=dim) if i in chosen else rows[0][i] for i in range(n)
    ]
    dims = [dim % stacked[i].ndim if i in chosen else None for i in range(n)]
    member = [[rows[k][i] if i in chosen else rows[0][i] for i in range(n)] for k in range(size)]
    label = f"{c}: vmap over arguments {list(chosen)} at dim {dim}"

    got = flat_vmap(lambda *ts: c.run(ts), map_tensor(stacked), dims, size)
    loop = [c.run(map_tensor(m)) for m in member]
    want = [np.stack([data(o[j]) for o in loop]) for j in range(len(got))]
    all_same(label, [data(g) for g in got], want, 1e-12)
    if not c.which:
        return
    vs = map_tensor(c.cotangents())

    def gradient(*ts: Tensor) -> list[Tensor]:
        def fn(*xs: Tensor) -> list[Tensor]:
            full = list(ts)
            for i, x in zip(c.which, xs, strict=True):
                full[i] = x
            return [o for o in c.run(full) if o.dtype.kind in "fc"]

        return flat_vjp(fn, [ts[i] for i in c.which])[1](vs)

    got = flat_vmap(gradient, map_tensor(stacked), dims, size)
    loop = [gradient(*map_tensor(m)) for m in member]
    want = [np.stack([data(o[j]) for o in loop]) for j in range(len(got))]
    all_same(f"{label}, gradient", [data(g) for g in got], want, 1e-12)


def check_tape(op: Operator) -> None:
    """A traced and a recorded tape replay on new values like eager, and so does the tape's vjp."""
    for c in cases(op):
        first, other = batch_of(c, 2)
        specs = [Spec(a.shape, a.dtype) for a in first]
        tape = trace_flat(lambda *ts, c=c: c.run(ts), specs)
        tape.verify()
        want = [data(o) for o in c.run(map_tensor(other))]
        all_same(f"{c}: replay", [data(o) for o in tape.run(map_tensor(other))], want, 1e-13)
        simple = tape.simplify().run(map_tensor(other))
        all_same(f"{c}: simplified tape", [data(o) for o in simple], want, 1e-13)
        inputs = map_tensor(first)
        with Tape(*inputs) as recorded:
            recorded.output(*c.run(inputs))
        again = recorded.run(map_tensor(other))
        all_same(f"{c}: recorded tape", [data(o) for o in again], want, 1e-13)
        if c.which:
            tape_vjp(c, other)


def tape_vjp(c: Case, other: list[np.ndarray]) -> None:
    """``tape.vjp()`` and its own vjp against eager."""
    moved_case = Case(c.op, Sample(tuple(other), c.sample.params), c.which, c.rng)
    fn, xs, vs = moved_case.fn(), moved_case.points(), moved_case.cotangents()
    tape = trace_flat(fn, [Spec(x.shape, x.dtype) for x in xs])
    pulled = tape.vjp().verify()
    n = len(vs)
    got = pulled.run([*map_tensor(xs), *map_tensor(vs)])
    all_same(f"{c}: tape.vjp", [data(g) for g in got[n:]], eager_vjp(moved_case, vs), 1e-12)
    dots = tape.jvp().run([*map_tensor(xs), *map_tensor(moved_case.directions())])
    assert len(dots) == 2 * n, f"{c}: tape.jvp has {len(dots)} outputs"


def check_infer(op: Operator) -> None:
    """Inferred shapes and dtypes are the real ones."""
    for dtype in (F64, F32):
        for c in cases(op, dtype):
            args = arrays(c.sample)
            got = op.infer_out([Spec(a.shape, a.dtype) for a in args], c.sample.params)
            got = got if type(got) is tuple else (got,)
            outs = c.run(map_tensor(args))
            want = [(tuple(o.shape), o.dtype) for o in outs]
            assert [(tuple(s.shape), s.dtype) for s in got] == want, f"{c}: inferred {got}"


def layouts(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same values in other memory layouts."""
    if not a.ndim:
        yield "0-d view", np.stack([a, a])[1]
        return
    yield "Fortran order", np.asfortranarray(a) if a.ndim > 1 else a
    flip = (slice(None, None, -1),) * a.ndim
    yield "negative strides", a[flip].copy()[flip]
    gaps = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    gaps[..., 1::2] = a
    yield "steps and an offset", gaps[..., 1::2]


def check_layouts(op: Operator) -> None:
    """Non-contiguous arguments and cotangents give what contiguous ones give."""
    for c in cases(op):
        args = arrays(c.sample)
        want = [data(o) for o in c.run(map_tensor(args))]
        vs = c.cotangents() if c.which else []
        gradient = eager_vjp(c, vs) if c.which else []
        for name, *strided in zip_layouts(args):
            twin = Case(op, Sample(tuple(strided), c.sample.params), c.which, c.rng)
            got = [data(o) for o in twin.run(map_tensor(strided))]
            all_same(f"{c}: {name}", got, want, 1e-12)
            if c.which:
                for k, (kind, *ws) in enumerate(zip_layouts(vs)):
                    if k == 1:
                        got = eager_vjp(twin, ws)
                        all_same(f"{c}: gradient, {name}, {kind}", got, gradient, 1e-12)
        expanded(c)


def zip_layouts(args: Sequence[np.ndarray]) -> Iterator[tuple]:
    """Corresponding layouts of several arrays (0-d ones keep their only other layout)."""
    for k in range(3):
        chosen = [list(layouts(a)) for a in args]
        names = [c[min(k, len(c) - 1)][0] for c in chosen if len(c) > k] or ["0-d view"]
        yield (names[0], *[c[min(k, len(c) - 1)][1] for c in chosen])


def expanded(c: Case) -> None:
    """Arguments broadcast with stride 0 equal their contiguous copies."""
    if c.op.name in LAYOUT_BOUND:
        return
    flat = [
        np.broadcast_to(a[..., :1], a.shape) if a.ndim and a.dtype.kind in "fc" else a
        for a in arrays(c.sample)
    ]
    try:
        want = [data(o) for o in c.run(map_tensor([a.copy() for a in flat]))]
    except NbgradError:
        return  # equal columns are no valid argument (a singular matrix)
    got = [data(o) for o in c.run(map_tensor(flat))]
    all_same(f"{c}: zero strides", got, want, 1e-12)


def check_shapes(op: Operator) -> None:
    """Elementwise: broadcast, 0-d and empty arguments give NumPy's broadcast of the contiguous result."""
    assert isinstance(op, Elementwise)
    base = cases(op)[0]
    first = [np.asarray(a).reshape(-1)[:1] for a in base.sample.args]
    n = len(first)
    for shapes in itertools.product([(), (0, 3), (1,), (2, 1)], repeat=min(n, 2)):
        full = [*shapes, *[()] * (n - len(shapes))]
        args = [np.broadcast_to(a.reshape(()), s).copy() for a, s in zip(first, full, strict=True)]
        try:
            shape = np.broadcast_shapes(*full)
        except ValueError:
            continue
        c = Case(op, Sample(tuple(args)), base.which, base.rng)
        (out,) = c.run(map_tensor(args))
        single = c.run(map_tensor([a.reshape(()) for a in first]))[0]
        same(f"{c}: value", data(out), np.broadcast_to(data(single), shape), 1e-13)
        if c.which:
            got = eager_vjp(c, [np.ones(o.shape, o.dtype) for o in c.fn()(*map_tensor(c.points()))])
            for g, x in zip(got, c.points(), strict=True):
                assert g is not None and g.shape == x.shape, f"{c}: gradient shape"


def check_nonfinite(op: Operator) -> None:
    """NaN, inf, 0 and huge arguments raise nothing (warnings are errors here), in both modes."""
    for c in cases(op):
        for value in (np.nan, np.inf, -np.inf, 0.0, 1e300):
            args = [a.copy() for a in arrays(c.sample)]
            for a in args:
                if a.dtype.kind in "fc" and a.size:
                    a.reshape(-1)[:: 2 if a.size > 1 else 1] = value
            bad = Case(op, Sample(tuple(args), c.sample.params), c.which, c.rng)
            try:
                outs = bad.run(map_tensor(args))
                assert outs
                if c.which:
                    vs = bad.cotangents()
                    eager_vjp(bad, vs)
                    eager_vjp(bad, vs, create_graph=True)
                    flat_jvp(bad.fn(), map_tensor(bad.points()), map_tensor(bad.directions()))
            except (Exception, Warning) as e:
                raise AssertionError(f"{bad} with {value}: {type(e).__name__}: {e}") from e


CHECKS: dict[str, Callable[[Operator], None]] = {
    "values": check_values,
    "layouts": check_layouts,
    "shapes": check_shapes,
    "infer": check_infer,
    "nonfinite": check_nonfinite,
    "float32": check_float32,
    "complex": check_complex,
    "tape": check_tape,
    "vmap": check_vmap,
    "vjp": check_vjp,
    "jvp": check_jvp,
    "second": check_second,
    "taylor": check_taylor,
}
DERIVATIVES = ("vjp", "jvp", "second", "taylor")


def applies(op: Operator, check: str) -> bool:
    """Whether a check has anything to look at for an operator."""
    if check == "shapes":
        return isinstance(op, Elementwise)
    if check == "layouts":
        return op.name not in LAYOUT_BOUND
    if check == "complex":
        return not isinstance(op, Elementwise) or op.complex_ok
    return check not in DERIVATIVES or any(c.which for c in cases(op))
