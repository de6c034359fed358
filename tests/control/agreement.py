"""A structured function and an unrolled twin agree in value and in every kind of derivative."""

import numpy as np

import nbgrad as ng
from nbgrad.utils.pytree import flatten

TOL = {"rtol": 1e-10, "atol": 1e-11}


def close(a, b, **tol):
    """Corresponding leaves of two trees are equal within rounding."""
    xs, ys = flatten(a)[0], flatten(b)[0]
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        x, y = ng.as_tensor(x).detach().numpy(), ng.as_tensor(y).detach().numpy()
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, **(tol or TOL))


def derivatives(f, args):
    """Named derivatives of a scalar function of some tensors."""
    rng = np.random.default_rng(0)
    which = tuple(range(len(args)))
    v = tuple(ng.tensor(rng.normal(size=tuple(x.shape))) for x in args)
    w = tuple(ng.tensor(rng.normal(size=tuple(x.shape))) for x in args)
    grad = ng.func.grad(f, which)

    def along(*xs):
        return ng.func.jvp(f, xs, v)[1]

    def pulled(*xs):
        return sum((g * t).sum() for g, t in zip(grad(*xs), v, strict=True))

    yield "value", f(*args)
    yield "gradient", grad(*args)
    yield "jvp", along(*args)
    yield "forward over reverse", ng.func.jvp(grad, args, v)[1]
    yield "reverse over reverse", ng.func.grad(pulled, which)(*args)
    yield "reverse over forward", ng.func.grad(along, which)(*args)
    yield "forward over forward", ng.func.jvp(along, args, w)[1]
    yield "jet", ng.func.jet(f, args, tuple([a, b, a] for a, b in zip(v, w, strict=True)))


def agree(f, twin, *args):
    """All derivatives of ``f`` are those of ``twin``, eager and from a tape."""
    for (name, a), (_, b) in zip(derivatives(f, args), derivatives(twin, args), strict=True):
        try:
            close(a, b)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    tape = ng.trace(f)(*args).verify()
    small = tape.simplify().verify()
    other = tuple(x * 0.9 for x in args)
    which = tuple(range(len(args)))
    for t in (tape, small):
        close(t.replay(*other), twin(*other))
        close(t.grad(which).simplify().verify().replay(*other), ng.func.grad(twin, which)(*other))
    close(small.jvp().simplify().replay(*other, *args)[1], ng.func.jvp(twin, other, args)[1])
    with ng.Tape(*args) as recorded:
        recorded.output(f(*args))
    close(recorded.verify().run(list(other))[0], twin(*other))


def batches_agree(f, *args):
    """vmap over every argument alone and over all of them equals a Python loop, for values and gradients."""
    which = tuple(range(len(args)))
    stacks = [ng.stack([x, x * 0.8, x * 0.5]) for x in args]
    plans = [[i] for i in which] + ([list(which)] if len(which) > 1 else [])
    for fn in (f, ng.func.grad(f, which), ng.func.grad(lambda *xs: ng.func.grad(f)(*xs).sum())):
        for plan in plans:
            dims = tuple(0 if i in plan else None for i in which)
            given = [stacks[i] if i in plan else args[i] for i in which]
            rows = [fn(*(stacks[i][k] if i in plan else args[i] for i in which)) for k in range(3)]
            got = flatten(ng.func.vmap(fn, in_dims=dims)(*given))[0]
            loop = zip(*(flatten(r)[0] for r in rows), strict=True)
            close(got, [ng.stack(list(column)) for column in loop])
