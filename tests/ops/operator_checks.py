"""The checks every operator goes through: ``CHECKS[name](case)`` raises AssertionError."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from harness import F32, F64, NARROW, WIDE, Case, all_same, arrays, cases, eager_vjp, same

from nbgrad import dtypes as dt
from nbgrad.errors import DTypeError, LinAlgError, NbgradError
from nbgrad.func.api import flat_jvp, flat_vjp, flat_vmap
from nbgrad.op import Elementwise, Operator, Spec
from nbgrad.tape import Tape
from nbgrad.tape.record import trace_flat
from nbgrad.tape.taylor import flat_jet
from nbgrad.tensor import Tensor
from nbgrad.testing.differences import data, inner, magnitude, matches, moved, scale
from nbgrad.testing.differences import tensors as map_tensor

# kernels that only exist for some memory layouts: their public functions copy first
LAYOUT_BOUND = {"reshape": "a view of the same memory; the public reshape copies where it must"}

# -- values --------------------------------------------------------------------------------------------


def check_values(c: Case) -> None:
    """Results equal the NumPy reference, and the inputs are not modified."""
    args = arrays(c.sample)
    before = [a.tobytes() for a in args]
    got = [data(o) for o in c.run(map_tensor(args))]
    assert [a.tobytes() for a in args] == before, f"{c}: an input was modified"
    compare_reference(c, got, 1e-12)


def compare_reference(c: Case, got: list[np.ndarray], tol: float) -> None:
    """Against ``op.reference`` on the sample's arrays, where one is declared."""
    if c.op.reference is None:
        return
    with np.errstate(all="ignore"):
        want = c.op.reference(*arrays(c.sample), **c.sample.params)
    want = list(want) if isinstance(want, tuple | list) else [want]
    all_same(f"{c}: value", got, want, tol)
    for g, w in zip(got, want, strict=True):
        kinds = g.dtype.kind, np.asarray(w).dtype.kind
        assert kinds[0] == kinds[1] or not set(kinds) & set("fc"), f"{c}: dtype {g.dtype}"


def check_float32(c: Case) -> None:
    """float32 stays float32 and agrees with float64 in value and first derivative."""
    narrow = [a.astype(NARROW[a.dtype]) if a.dtype in NARROW else a for a in arrays(c.sample)]
    fixed = any(isinstance(v, np.dtype) for v in c.sample.params.values())
    if fixed or all(a.dtype is not F32 for a in narrow):
        return  # parameters that fix the result's dtype are covered by the values check
    wide = [a.astype(WIDE[a.dtype]) if a.dtype in WIDE else a for a in narrow]
    low, high = c.at(narrow), c.at(wide)
    got = [data(o) for o in low.run(map_tensor(narrow))]
    want = [data(o) for o in high.run(map_tensor(wide))]
    for g, w in zip(got, want, strict=True):
        assert g.dtype == NARROW.get(w.dtype, w.dtype), f"{c}: float32 gave {g.dtype}"
    all_same(f"{c}: float32 value", got, want, 2e-5)
    if c.which:
        v = low.cotangents()
        gl, gh = eager_vjp(low, v), eager_vjp(high, [x.astype(WIDE[x.dtype]) for x in v])
        assert all(g is None or g.dtype in NARROW.values() for g in gl), f"{c}: gradient dtype"
        all_same(f"{c}: float32 gradient", gl, gh, 2e-4)


def check_complex(c: Case) -> None:
    """Complex values, vjp and jvp (PyTorch's convention, both Wirtinger directions)."""
    compare_reference(c, [data(o) for o in c.run(map_tensor(arrays(c.sample)))], 1e-11)
    if c.which:
        check_vjp(c)
        check_jvp(c)


def accepts(c: Case) -> bool:
    """Whether the operator takes the sample's dtypes (elementwise ones declare it: they must)."""
    try:
        c.run(map_tensor(arrays(c.sample)))
    except DTypeError:
        assert not isinstance(c.op, Elementwise), f"{c}: complex_ok, but the kernel refuses"
        return False
    return True


def check_infer(c: Case) -> None:
    """Inferred shapes and dtypes are the real ones."""
    args = arrays(c.sample)
    for row in (args, [a.astype(NARROW.get(a.dtype, a.dtype)) for a in args]):
        got = c.op.infer_out([Spec(a.shape, a.dtype) for a in row], c.sample.params)
        got = got if type(got) is tuple else (got,)
        want = [(tuple(o.shape), o.dtype) for o in c.run(map_tensor(row))]
        assert [(tuple(s.shape), s.dtype) for s in got] == want, f"{c}: inferred {got}, is {want}"


# -- layouts and shapes --------------------------------------------------------------------------------


def layouts(a: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The same values in three other memory layouts."""
    if not a.ndim:
        return [("0-d view", np.stack([a, a])[1:].reshape(()))] * 3
    flip = (slice(None, None, -1),) * a.ndim
    gaps = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    gaps[..., 1::2] = a
    return [
        ("Fortran order", np.asfortranarray(a)),
        ("negative strides", a[flip].copy()[flip]),
        ("steps and an offset", gaps[..., 1::2]),
    ]


def zip_layouts(args: Sequence[np.ndarray]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Corresponding layouts of several arrays."""
    chosen = [layouts(a) for a in args]
    for k in range(3):
        yield chosen[0][k][0], [c[k][1] for c in chosen]


def check_layouts(c: Case) -> None:
    """Non-contiguous arguments and cotangents give what contiguous ones give."""
    if not c.sample.args:
        return
    args = arrays(c.sample)
    want = [data(o) for o in c.run(map_tensor(args))]
    vs = c.cotangents() if c.which else []
    gradient = eager_vjp(c, vs) if c.which else []
    for name, strided in zip_layouts(args):
        twin = c.at(strided)
        got = [data(o) for o in twin.run(map_tensor(strided))]
        all_same(f"{c}: {name}", got, want, 1e-12)
        if c.which:
            for kind, ws in zip_layouts(vs):
                got = eager_vjp(twin, ws)
                all_same(f"{c}: gradient, {name}, cotangent {kind}", got, gradient, 1e-12)
    expanded(c)


def expanded(c: Case) -> None:
    """Arguments broadcast with stride 0 equal their contiguous copies."""
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


def check_shapes(c: Case) -> None:
    """Elementwise: broadcast, 0-d and empty arguments give NumPy's broadcast of the scalar result."""
    if any(not np.size(a) for a in c.sample.args):
        return
    first = [np.asarray(a).reshape(-1)[0] for a in arrays(c.sample)]
    single = data(c.run(map_tensor([np.asarray(a) for a in first]))[0])
    n = len(first)
    for shapes in itertools.product([(), (0, 3), (1,), (1, 1)], repeat=min(n, 2)):
        full = [*shapes, *[()] * (n - len(shapes))]
        args = [np.full(s, a, a.dtype) for a, s in zip(first, full, strict=True)]
        shape = np.broadcast_shapes(*full)
        twin = c.at(args)
        (out,) = twin.run(map_tensor(args))
        same(f"{twin}: value", data(out), np.broadcast_to(single, shape), 1e-13)
        if c.which:
            got = eager_vjp(twin, [np.ones(shape, out.dtype)])
            for g, x in zip(got, twin.points(), strict=True):
                assert g is not None and g.shape == x.shape, f"{twin}: gradient shape"


def check_nonfinite(c: Case) -> None:
    """NaN, inf, 0 and huge arguments raise nothing (warnings are errors), in both modes."""
    for value in (np.nan, np.inf, -np.inf, 0.0, 1e300):
        args = [a.copy() for a in arrays(c.sample)]
        for a in args:
            if a.dtype.kind in "fc" and a.size:
                a.reshape(-1)[:: 2 if a.size > 1 else 1] = value
        bad = c.at(args)
        try:
            assert bad.run(map_tensor(args))
            if c.which:
                vs = bad.cotangents()
                eager_vjp(bad, vs)
                eager_vjp(bad, vs, create_graph=True)
                flat_jvp(bad.fn(), map_tensor(bad.points()), map_tensor(bad.directions()))
        except LinAlgError:
            continue  # a singular or asymmetric matrix is a user's mistake with its own error
        except (Exception, Warning) as e:
            raise AssertionError(f"{bad} with {value}: {type(e).__name__}: {e}") from e


# -- derivatives ---------------------------------------------------------------------------------------


def check_vjp(c: Case) -> None:
    """Reverse mode against finite differences; fused, recorded and functional sweeps agree."""
    vs, xs, ds = c.cotangents(), c.points(), c.directions()
    before = [a.tobytes() for a in xs]
    got = eager_vjp(c, vs)
    all_same(f"{c}: recorded vjp", eager_vjp(c, vs, create_graph=True), got, 1e-12)
    _, pull = flat_vjp(c.fn(), map_tensor(xs))
    all_same(f"{c}: func.vjp", [data(g) for g in pull(map_tensor(vs))], got, 1e-12)
    assert [a.tobytes() for a in xs] == before, f"{c}: backward modified an input"
    for g, x in zip(got, xs, strict=True):
        assert g is None or (g.shape, g.dtype) == (x.shape, x.dtype), f"{c}: {g.dtype}{g.shape}"
    matches(f"{c}: vjp", inner(ds, got), directional(c, vs, ds), magnitude(vs))


def directional(c: Case, vs: Sequence, ds: Sequence) -> Callable[[float], float]:
    """``t -> <v, f(x + t d)>``."""
    fn, xs = c.fn(), c.points()
    return lambda t: inner(vs, [data(o) for o in fn(*moved(xs, ds, t))])


def check_jvp(c: Case) -> None:
    """Forward mode: primal, differences, and the dot-product test ``<v, J d> == <J^T v, d>``."""
    vs, ds, xs = c.cotangents(), c.directions(), c.points()
    outs, dots = flat_jvp(c.fn(), map_tensor(xs), map_tensor(ds))
    primal = [data(o) for o in c.fn()(*map_tensor(xs))]
    all_same(f"{c}: primal of the jvp", [data(o) for o in outs], primal, 0)
    for o, d in zip(outs, dots, strict=True):
        assert (tuple(o.shape), o.dtype) == (tuple(d.shape), d.dtype), f"{c}: tangent {d.dtype}"
    push, back = inner(vs, [data(d) for d in dots]), inner(ds, eager_vjp(c, vs))
    limit = 1e-10 * scale(push, magnitude(vs))
    assert abs(push - back) <= limit, f"{c}: <v, J d> = {push} but <J^T v, d> = {back}"
    matches(f"{c}: jvp", push, directional(c, vs, ds), magnitude(vs))


def check_second(c: Case) -> None:
    """Second derivatives in a pair of random directions, by all four mode combinations."""
    vs, d1, d2, xs = c.cotangents(), c.directions(), c.directions(), c.points()
    fn, points = c.fn(), map_tensor(c.points())
    v, t1, t2 = map_tensor(vs), map_tensor(d1), map_tensor(d2)

    def gradient(*zs: Tensor) -> list[Tensor]:
        return flat_vjp(fn, zs)[1](v)

    def tangent(*zs: Tensor) -> list[Tensor]:
        return flat_jvp(fn, zs, t1)[1]

    def slope(t: float) -> float:
        return inner(d1, eager_vjp(c.at_points(moved(xs, d2, t)), vs))

    size = magnitude([data(g) for g in gradient(*points)])
    for name, side, results in (
        ("reverse over reverse", d2, flat_vjp(gradient, points)[1](t1)),
        ("forward over reverse", d1, flat_jvp(gradient, points, t2)[1]),
        ("reverse over forward", d2, flat_vjp(tangent, points)[1](v)),
        ("forward over forward", vs, flat_jvp(tangent, points, t2)[1]),
    ):
        matches(f"{c}: {name}", inner(side, [data(r) for r in results]), slope, size)
    eager_double(c, vs, d1, d2, slope, size)
    in_cotangent(c, vs, d1)


def eager_double(
    c: Case, vs: Sequence, d1: Sequence, d2: Sequence, slope: Any, size: float
) -> None:
    """The same through ``autograd.grad(..., create_graph=True)`` and a second sweep."""
    from nbgrad.autograd import grad

    leaves = [x.requires_grad_() for x in map_tensor(c.points())]
    outs = [(o, v) for o, v in zip(c.fn()(*leaves), map_tensor(vs), strict=True) if o.requires_grad]
    first = grad(
        [o for o, _ in outs], leaves, [v for _, v in outs], create_graph=True, allow_unused=True
    )
    live = [
        (g, t)
        for g, t in zip(first, map_tensor(d1), strict=True)
        if g is not None and g.requires_grad
    ]
    second: Sequence[Any] = [None] * len(leaves)
    if live:
        second = grad([g for g, _ in live], leaves, [t for _, t in live], allow_unused=True)
    got = inner(d2, [None if g is None else data(g) for g in second])
    matches(f"{c}: double backward", got, slope, size)


def in_cotangent(c: Case, vs: Sequence, ds: Sequence) -> None:
    """The vjp is linear in its cotangent, so its derivatives there are the jvp and the vjp again."""
    fn, points, v, t = c.fn(), map_tensor(c.points()), map_tensor(vs), map_tensor(ds)

    def pulled(*ws: Tensor) -> list[Tensor]:
        return flat_vjp(fn, points)[1](ws)

    back = [data(g) for g in flat_vjp(pulled, v)[1](t)]
    dots = [data(d) for d in flat_jvp(fn, points, t)[1]]
    all_same(f"{c}: vjp of the vjp in its cotangent", back, dots, 1e-9)
    along = [data(g) for g in flat_jvp(pulled, v, v)[1]]
    all_same(f"{c}: jvp of the vjp in its cotangent", along, [data(g) for g in pulled(*v)], 1e-9)


def check_taylor(c: Case) -> None:
    """Taylor coefficients to order 3 along a curved path against nested forward mode."""
    fn, xs = c.fn(), c.points()
    series = [map_tensor([np.asarray(d * 0.5**k) for d in c.directions()]) for k in range(3)]
    _, rows = flat_jet(fn, map_tensor(xs), [list(s) for s in zip(*series, strict=True)])

    def path(t: Tensor) -> list[Tensor]:
        zs = [
            x + t * (a + t * (b + t * d))
            for x, a, b, d in zip(map_tensor(xs), *series, strict=True)
        ]
        return fn(*zs)

    nth = path
    for k, factorial in ((1, 1), (2, 2), (3, 6)):
        nth = derivative(nth)
        want = [data(o) / factorial for o in nth(Tensor(np.asarray(0.0)))]
        got = [data(r[k - 1]) for r in rows]
        all_same(f"{c}: Taylor coefficient {k}", got, want, 1e-10)


def derivative(fn: Callable) -> Callable:
    """The forward-mode derivative of a function of one scalar."""
    return lambda t: flat_jvp(fn, [t], [Tensor(np.asarray(1.0))])[1]


# -- vmap and tape -------------------------------------------------------------------------------------


def check_vmap(c: Case) -> None:
    """vmap of value and gradient against a Python loop, for several choices of batched arguments."""
    rows = c.draws(3)
    every = list(range(len(rows[0])))
    floats = [i for i in every if rows[0][i].dtype.kind in "fc"]
    plans: list[tuple[list[int], int]] = [(every, 0), (floats, 0), (floats, -1)]
    plans += [([i], 0) for i in every] if len(every) > 1 else []
    for chosen, dim in plans:
        if chosen:
            one_vmap(c, rows, chosen, dim)


def one_vmap(c: Case, rows: list, chosen: Sequence[int], dim: int) -> None:
    """One choice of batched arguments."""
    n = range(len(rows[0]))
    stacked = [np.stack([r[i] for r in rows], dim) if i in chosen else rows[0][i] for i in n]
    dims = [dim % stacked[i].ndim if i in chosen else None for i in n]
    members = [[r[i] if i in chosen else rows[0][i] for i in n] for r in rows]
    label = f"{c}: vmap over arguments {list(chosen)} at dim {dim}"

    def compare(what: str, fn: Callable) -> None:
        got = [data(g) for g in flat_vmap(fn, map_tensor(stacked), dims, len(rows))]
        loop = [fn(*map_tensor(m)) for m in members]
        want = [np.stack([data(o[j]) for o in loop]) for j in range(len(got))]
        all_same(f"{label}, {what}", got, want, 1e-12)

    compare("value", lambda *ts: c.run(ts))
    if c.which:
        vs = map_tensor(c.cotangents())
        compare("gradient", lambda *ts: flat_vjp(c.fn(ts), [ts[i] for i in c.which])[1](vs))


def check_tape(c: Case) -> None:
    """A traced and a recorded tape replay on new values like eager, and so does the tape's vjp."""
    first, other = c.draws(2)
    tape = trace_flat(lambda *ts: c.run(ts), [Spec(a.shape, a.dtype) for a in first])
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
        tape_derivatives(c.at(other))


def tape_derivatives(c: Case) -> None:
    """``tape.vjp()`` and ``tape.jvp()`` against eager."""
    xs, vs, ds = c.points(), c.cotangents(), c.directions()
    tape = trace_flat(c.fn(), [Spec(x.shape, x.dtype) for x in xs])
    got = tape.vjp().verify().run(map_tensor([*xs, *vs]))[len(vs) :]
    all_same(f"{c}: tape.vjp", [data(g) for g in got], eager_vjp(c, vs), 1e-12)
    dots = tape.jvp().verify().run(map_tensor([*xs, *ds]))[len(vs) :]
    want = flat_jvp(c.fn(), map_tensor(xs), map_tensor(ds))[1]
    all_same(f"{c}: tape.jvp", [data(d) for d in dots], [data(w) for w in want], 1e-12)


CHECKS: dict[str, Callable[[Case], None]] = {
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
    return check not in DERIVATIVES or op.differentiable


def run_check(op: Operator, check: str) -> None:
    """Run one check on every sample of an operator that it concerns."""
    for c in cases(op, dt.complex128 if check == "complex" else F64):
        if check == "complex" and not accepts(c):
            continue
        if c.which and not any(o.dtype.kind in "fc" for o in c.run(map_tensor(arrays(c.sample)))):
            c = c._replace(which=())
        if c.which or check not in DERIVATIVES:
            CHECKS[check](c)
