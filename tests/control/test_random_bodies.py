"""Random loop bodies: a scan and the unrolled loop agree, whatever the body does."""

from agreement import close
from hypothesis import given, settings
from hypothesis import strategies as st

import nbgrad as ng

UNARY = {
    "sin": ng.sin,
    "tanh": ng.tanh,
    "flip": lambda v: v.flip(0),
    "roll": lambda v: ng.roll(v, 1),
    "shift": lambda v: ng.cat([v[1:], v[:1] * 0.5]),
    "sum": lambda v: 0.3 * v.sum() + 0.0 * v,
    "detach": lambda v: 0.7 * v.detach(),
    "transpose": lambda v: v.reshape(2, 2).t().reshape(4),
    "gather": lambda v: v[[3, 0, 0, 2]],
    "relu": ng.relu,
    "branch": lambda v: ng.cond(v.sum() > 0.1, lambda v: 0.5 * v, ng.cos, v),
    "inner": lambda v: ng.scan(lambda c, a: (ng.sin(c + a), c * a), 0.1 * v.sum(), v)[1],
    "until": lambda v: ng.while_loop(
        lambda u: (u * u).sum() > 0.5, lambda u: 0.6 * u, v, max_steps=20
    ),
    "write": lambda v: written(v),
}
BINARY = {"add": ng.add, "mul": ng.mul, "maximum": ng.maximum, "where": lambda a, b: ng.where(a > b, a, b)}  # fmt: skip


def written(v):
    v = v.clone()
    v[1:] = v[:-1] * 2.0
    return v


place = st.integers(0, 30)
instruction = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), place),
    st.tuples(st.sampled_from(sorted(BINARY)), place, place),
)
bodies = st.lists(instruction, min_size=1, max_size=6)


def body(program, w):
    """``f(carry, x)`` with two carries that runs the program on the carries, x and the captured w."""

    def f(carry, x):
        vals = [carry[0], carry[1], x, w]
        for name, *at in program:
            args = [vals[-1 - i % len(vals)] for i in at]
            vals.append((UNARY[name] if name in UNARY else BINARY[name])(*args))
        last = ng.tanh(vals[-1])
        return (last, ng.sin(vals[-2]) * 0.9), (last * carry[1]).sum()

    return f


def scanned(program, **options):
    def loss(w, u, xs):
        (a, b), ys = ng.scan(body(program, w), (u, 0.5 * u), xs, **options)
        return (a * b).sum() + (ys * ys).sum()

    return loss


def unrolled(program, reverse=False):
    def loss(w, u, xs):
        carry, ys = (u, 0.5 * u), []
        for k in reversed(range(3)) if reverse else range(3):
            carry, y = body(program, w)(carry, xs[k])
            ys.append(y)
        return (carry[0] * carry[1]).sum() + sum(y * y for y in ys)

    return loss


@settings(max_examples=30, deadline=None)
@given(bodies, st.booleans(), st.sampled_from([None, 64, 128]), st.integers(0, 2**32 - 1))
def test_scan_and_unrolled_loop_agree(program, reverse, checkpoint, seed):
    draw = ng.Generator().manual_seed(seed)
    args = tuple(ng.rand(*s, generator=draw) * 2 - 1 for s in ((4,), (4,), (3, 4)))
    v = tuple(ng.rand(*a.shape, generator=draw) for a in args)
    f = scanned(program, reverse=reverse, checkpoint=checkpoint)
    twin = unrolled(program, reverse)
    grads = [ng.func.grad(h, (0, 1, 2)) for h in (f, twin)]
    close(f(*args), twin(*args))
    close(grads[0](*args), grads[1](*args))
    close(*(ng.func.jvp(g, args, v)[1] for g in grads))
    close(ng.trace(f)(*args).simplify().grad((0, 1, 2)).simplify().replay(*v), grads[1](*v))
    stacks = [ng.stack([a, b]) for a, b in zip(args, v, strict=True)]
    rows = zip(grads[1](*args), grads[1](*v), strict=True)
    close(ng.func.vmap(grads[0])(*stacks), tuple(ng.stack(list(pair)) for pair in rows))
