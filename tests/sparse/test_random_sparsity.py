"""Random programs: no derivative outside the pattern, and the sparse matrices equal the dense ones."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nbgrad as ng

N = 6
WEIGHTS = np.array(np.random.default_rng(5).normal(size=(N, N)))
WEIGHTS[np.random.default_rng(6).random((N, N)) < 0.6] = 0.0
MASK = np.array([True, False, True, True, False, True])
PLACES = np.array([4, 0, 0, 5, 2, 2])

STEPS = {
    "sin": lambda v, w: ng.sin(v),
    "square": lambda v, w: v * v,
    "product": lambda v, w: v * w,
    "sum": lambda v, w: v + 0.3 * w,
    "upwind": lambda v, w: ng.where(v > 0, v - ng.roll(v, 1), ng.roll(v, -1) - v) * w,
    "roll": lambda v, w: ng.roll(v, 2),
    "gather": lambda v, w: v[PLACES],
    "slices": lambda v, w: ng.cat([v[1:] - v[:-1], w[:1]]),
    "strided": lambda v, w: ng.cat([v[::2], w[1::2].flip(0)]),
    "mask": lambda v, w: ng.where(ng.tensor(MASK), v, 0.1 * w),
    "matmul": lambda v, w: ng.tensor(WEIGHTS) @ v,
    "grid": lambda v, w: (v.reshape(2, 3) * w.reshape(3, 2).t()).sum(0).repeat(2),
    "mean": lambda v, w: v - w[:3].mean(),
    "cumsum": lambda v, w: ng.cumsum(v, 0) * 0.2,
    "write": lambda v, w: written(v, w),
    "scatter": lambda v, w: ng.zeros(N).index_add(0, ng.tensor(PLACES), v),
    "floor": lambda v, w: ng.floor(v) + w,
    "detach": lambda v, w: v.detach() * w,
    "maximum": lambda v, w: ng.maximum(v, w),
    "softmax": lambda v, w: ng.softmax(v.reshape(3, 2), 1).reshape(-1),
    "sort": lambda v, w: ng.sort(v.reshape(2, 3), 1)[0].reshape(-1),
}


def written(v, w):
    out = v.clone()
    out[1:3] = w[3:5]
    return out


def program(steps):
    def fn(x):
        values = [x, 0.5 * x.flip(0) + 0.1]
        for name, i, j in steps:
            values.append(STEPS[name](values[i % len(values)], values[j % len(values)]) * 0.7)
        return values[-1]

    return fn


programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 5), st.integers(0, 5)),
    min_size=1,
    max_size=6,
).map(program)
points = st.integers(0, 1000).map(lambda s: np.random.default_rng(s).normal(size=N))


@given(programs, points)
@settings(max_examples=60, deadline=None)
def test_jacobians(fn, x):
    true = ng.func.jacfwd(fn)(ng.tensor(x)).numpy()
    pattern = ng.jacobian_sparsity(fn, x).toarray()
    assert not ((true != 0) & ~pattern).any()
    for mode in ("auto", "forward", "reverse", "mixed"):
        assert np.allclose(
            ng.sparse_jacobian(fn, mode=mode)(x).toarray(), true, rtol=1e-12, atol=1e-13
        )


@given(programs, points)
@settings(max_examples=40, deadline=None)
def test_hessians(fn, x):
    def scalar(x):
        return (fn(x) ** 2).sum()

    true = ng.func.hessian(scalar)(ng.tensor(x)).numpy()
    pattern = ng.hessian_sparsity(scalar, x).toarray()
    assert np.array_equal(pattern, pattern.T)
    assert not ((true != 0) & ~pattern).any()
    found = ng.sparse_hessian(scalar)(x).toarray()
    assert np.array_equal(found, found.T)
    assert np.allclose(found, true, rtol=1e-10, atol=1e-10)
