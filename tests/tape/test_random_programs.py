"""Random programs: eager, traced, simplified, differentiated and batched versions agree."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nbgrad as ng

UNARY = ["sin", "tanh", "neg", "square", "abs", "exp", "relu"]
BINARY = ["add", "sub", "mul", "maximum", "where"]


class Program:
    """A list of steps on a growing list of tensors; every step appends or writes one."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x):
        vals = [x, x * 0.5 + 0.1]
        for step in self.steps:
            getattr(self, step[0])(vals, *step[1:])
        total = vals[-1].sum()
        for v in vals[1:-1]:
            total = total + v.mean() * 0.3
        return total

    def unary(self, vals, name, i):
        v = vals[i % len(vals)]
        vals.append(getattr(ng, name)(v.clamp(-3.0, 3.0) if name in ("exp", "square") else v))

    def binary(self, vals, name, i, j):
        a, b = vals[i % len(vals)], vals[j % len(vals)]
        if a.shape != b.shape:
            b = b.sum() * 0.1
        if name == "where":
            vals.append(ng.where(a > 0.05, a, b))
        else:
            vals.append(getattr(ng, name)(a, b) * 0.5)

    def shape(self, vals, kind, i):
        v = vals[i % len(vals)]
        if kind == "transpose" and v.ndim == 2:
            v = v.t()
        elif kind == "flatten":
            v = v.reshape(-1)
        elif kind == "slice" and v.ndim and v.shape[0] > 1:
            v = v[1:]
        elif kind == "flip" and v.ndim:
            v = v.flip(0)
        elif kind == "sum" and v.ndim:
            v = v.sum(-1, keepdim=True)
        elif kind == "gather" and v.ndim:
            v = v[[0, -1, 0]]
        elif kind == "outer" and v.ndim == 1:
            v = v[:, None] * v
        elif kind == "cumsum" and v.ndim:
            v = v.cumsum(0)
        elif kind == "matmul" and v.ndim == 2:
            v = v @ v.t() * 0.1
        vals.append(v)

    def cut(self, vals, kind, i):
        v = vals[i % len(vals)]
        if kind == "detach":
            vals.append(v.detach() * 1.5)
            return
        with ng.no_grad():
            vals.append(v * v.sum() * 0.1)
            if kind == "look" and v.ndim:
                v[:1].sum()

    def write(self, vals, kind, i):
        v = vals[i % len(vals)].clone()
        if v.ndim and v.shape[0] > 1:
            if kind == "set":
                v[0] = v[1] * 2.0
            elif kind == "number":
                v[-1] = 0.5
            elif kind == "view":
                v[1:].mul_(0.5)
            elif kind == "index":
                v[[1, 0]] = v[:2] * 1.5
            elif kind == "twice":
                w = v.reshape(-1)
                w[0] = w[-1] * 3.0
                v.add_(0.1)
        vals.append(v)


index = st.integers(0, 20)
step = st.one_of(
    st.tuples(st.just("cut"), st.sampled_from(["detach", "no_grad", "look"]), index),
    st.tuples(st.just("unary"), st.sampled_from(UNARY), index),
    st.tuples(st.just("binary"), st.sampled_from(BINARY), index, index),
    st.tuples(
        st.just("shape"),
        st.sampled_from(
            ["transpose", "flatten", "slice", "flip", "sum", "gather", "outer", "cumsum", "matmul"]
        ),
        index,
    ),
    st.tuples(
        st.just("write"), st.sampled_from(["set", "number", "view", "index", "twice"]), index
    ),
)
programs = st.lists(step, min_size=1, max_size=9).map(Program)
# as in PyTorch, no_grad stops reverse mode only: forward mode goes through, so the modes differ there
without_no_grad = st.lists(
    step.filter(lambda s: s[1] not in ("no_grad", "look")), min_size=1, max_size=9
).map(Program)
arrays = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).uniform(-1.5, 1.5, (2, 3))
)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), np.asarray(b.detach()), rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(programs, arrays, arrays)
def test_all_versions_of_a_program_agree(f, x, v):
    x, v = ng.tensor(x), ng.tensor(v)
    value, gradient = ng.func.value_and_grad(f)(x)
    tape = ng.trace(f)(ng.zeros(2, 3)).verify()
    small = tape.simplify().verify()
    assert len(small) <= len(tape)
    for t in (tape, small):
        close(t.replay(x), value)
        close(t.grad().replay(x), gradient)
    out, dot = small.jvp().simplify().replay(x, v)
    close(out, value)
    close(dot, (gradient * v).sum())
    with ng.Tape(x) as recorded:
        recorded.output(f(x))
    close(recorded.replay(x * 0.9), f(x * 0.9))
    batch = ng.stack([x, v])
    close(ng.func.vmap(ng.func.grad(f))(batch), ng.stack([gradient, ng.func.grad(f)(v)]))


@settings(max_examples=25, deadline=None)
@given(without_no_grad, arrays, arrays)
def test_second_derivatives_agree(f, x, v):
    x, v = ng.tensor(x), ng.tensor(v)
    gradient = ng.func.grad(f)
    forward_over_reverse = ng.func.jvp(gradient, (x,), (v,))[1]
    reverse_over_reverse = ng.func.grad(lambda a: (gradient(a) * v).sum())(x)
    close(forward_over_reverse, reverse_over_reverse)
    reverse_over_forward = ng.func.grad(lambda a: ng.func.jvp(f, (a,), (v,))[1])(x)
    close(forward_over_reverse, reverse_over_forward)
    second = (forward_over_reverse * v).sum()
    close(ng.func.jet(f, (x,), ([v, ng.zeros(2, 3)],))[1][1], second)
    tape = ng.trace(f)(x).simplify()
    close(tape.grad().jvp().simplify().replay(x, v)[1], forward_over_reverse)
