"""``ng.cond`` and ``ng.switch``: eager, traced and batched choices."""

import pytest
from agreement import agree, batches_agree, close

import nbgrad as ng
from nbgrad.errors import TraceError

X = ng.tensor([0.6, 1.4])


def f(x, w):
    return ng.cond(x.sum() > 1.0, lambda x: (ng.sin(x) * w).sum(), lambda x: (x * x * w).sum(), x)


def twin(scale):
    """The branch that ``f`` takes at ``X * scale``."""
    return lambda x, w: (ng.sin(x) * w).sum() if scale > 0.5 else (x * x * w).sum()


@pytest.mark.parametrize("scale", [1.3, 0.3])
def test_derivatives_of_the_chosen_branch(scale):
    agree(f, twin(scale), X * scale, ng.tensor([0.5, -2.0]))
    batches_agree(f, X * scale, ng.tensor([0.5, -2.0]))


def test_a_traced_choice_is_made_at_replay():
    w = ng.tensor([0.5, -2.0])
    tape = ng.trace(f)(X, w)
    assert [i.op for i in tape.simplify().instructions].count("cond") == 1
    for scale in (1.0, 0.1):
        close(tape.replay(X * scale, w), twin(scale)(X * scale, w))
        close(tape.grad().replay(X * scale, w), ng.func.grad(twin(scale))(X * scale, w))
        close(
            tape.grad().jvp().replay(X * scale, w, X, w)[1],
            ng.func.jvp(ng.func.grad(twin(scale)), (X * scale, w), (X, w))[1],
        )
        want = ng.func.jet(twin(scale), (X * scale, w), ([X, w, X], [w, X, w]))[1]
        fact = [1, 2, 6]
        given = [c / k for c, k in zip((X, w, X), fact, strict=True)]
        other = [c / k for c, k in zip((w, X, w), fact, strict=True)]
        pairs = [t for pair in zip(given, other, strict=True) for t in pair]
        got = tape.taylor(3).replay(X * scale, w, *pairs)[1:]
        close([c * k for c, k in zip(got, fact, strict=True)], want)


def test_only_the_chosen_branch_runs_eagerly():
    def never(x):
        raise AssertionError

    close(ng.cond(ng.tensor(True), lambda x: x * 2, never, X), X * 2)
    close(ng.cond(False, never, lambda: 3), ng.tensor(3))
    close(ng.switch(1, [never, ng.sin, never], X), ng.sin(X))
    close(
        ng.func.grad(lambda x: ng.cond(x > 0, lambda x: x * x, never, x))(ng.tensor(3.0)),
        ng.tensor(6.0),
    )


def test_a_kernel_runs_the_chosen_branch_only():
    """In a replay too: the other branch would not end."""
    endless = lambda x: ng.while_loop(lambda x: ng.tensor(True), lambda x: x, x)
    tape = ng.trace(lambda p, x: ng.cond(p, lambda x: x + 1, endless, x))(ng.tensor(True), X)
    close(tape.replay(ng.tensor(True), X), X + 1)


def test_a_batched_choice_selects_and_zero_wins():
    """log of a negative number and sqrt at 0 in the branch that is not taken."""

    def g(x):
        return ng.cond(x > 0, lambda x: ng.log(x) + ng.sqrt(x), lambda x: x**3, x)

    xs = ng.tensor([-2.0, 0.0, 0.5, 3.0])
    loop = lambda h: ng.stack([h(x) for x in xs])
    for h in (
        g,
        ng.func.grad(g),
        ng.func.grad(ng.func.grad(g)),
        lambda x: ng.func.jvp(ng.func.grad(g), (x,), (x + 1,))[1],
        lambda x: ng.func.jet(g, (x,), ([x, x, x],))[1][2],
    ):
        want = loop(h)
        assert ng.isfinite(want).all()
        close(ng.func.vmap(h)(xs), want)
    close(ng.func.grad(lambda xs: ng.func.vmap(g)(xs).sum())(xs), loop(ng.func.grad(g)))


def test_switch_under_trace_and_vmap():
    fns = [lambda x, y: x * y, lambda x, y: ng.sin(x) + y, lambda x, y: ng.exp(x * y)]
    g = lambda k, x, y: ng.switch(k, fns, x, y)
    x, y = ng.tensor(0.7), ng.tensor(-0.4)
    tape = ng.trace(g)(ng.tensor(0), x, y)
    gradient = ng.trace(ng.func.grad(g, (1, 2)))(ng.tensor(0), x, y).simplify().verify()
    for k in (-3, 0, 1, 2, 9):
        fn = fns[min(max(k, 0), 2)]
        close(tape.replay(ng.tensor(k), x, y), fn(x, y))
        close(g(ng.tensor(k), x, y), fn(x, y))
        close(gradient.replay(ng.tensor(k), x, y), ng.func.grad(fn, (0, 1))(x, y))
    ks = ng.tensor([-3, 0, 1, 2, 9])
    rows = lambda h: ng.stack([h(k, x, y) for k in ks])
    dims = {"in_dims": (0, None, None)}
    close(ng.func.vmap(g, **dims)(ks, x, y), rows(g))
    second = lambda k, x, y: ng.func.hessian(lambda x: g(k, x, y))(x)
    close(ng.func.vmap(second, **dims)(ks, x, y), rows(second))


def test_captured_tensors_of_both_branches():
    a, b = ng.tensor(2.0), ng.tensor(3.0)

    def loss(p):
        return lambda a, b: ng.cond(p, lambda x: x * a, lambda x: x + b * a, ng.tensor(5.0))

    tape = ng.trace(lambda p, a, b: loss(p)(a, b))(ng.tensor(True), a, b)
    vjp = ng.trace(lambda p, a, b: ng.func.grad(loss(p), (0, 1))(a, b))(ng.tensor(True), a, b)
    close(tape.replay(ng.tensor(False), a, b), ng.tensor(11.0))
    close(vjp.replay(ng.tensor(True), a, b), (ng.tensor(5.0), ng.tensor(0.0)))
    close(vjp.replay(ng.tensor(False), a, b), (ng.tensor(3.0), ng.tensor(2.0)))


def test_results_are_pytrees_and_may_be_integers():
    def fns(x):
        yes = lambda: {"v": x * 2, "n": 1, "none": None}
        no = lambda: {"v": x, "n": 2, "none": None}
        return yes, no

    tape = ng.trace(lambda p, x: ng.cond(p, *fns(x)))(ng.tensor(True), X)
    out = tape.replay(ng.tensor(False), X)
    assert out["n"].item() == 2 and out["none"] is None
    close(out["v"], X)


def test_an_eager_recording_keeps_both_branches():
    x = ng.tensor(0.5)
    with ng.Tape(x) as tape:
        tape.output(ng.cond(x > 0, ng.sin, lambda x: x * x, x))
    close(tape.replay(ng.tensor(-3.0)), ng.tensor(9.0))
    close(tape.grad().replay(ng.tensor(-3.0)), ng.tensor(-6.0))


def test_python_branches_on_traced_values_name_the_line():
    def branch(x):
        if x > 0:  # the line the message names
            return x
        return -x

    for f in (
        lambda: ng.trace(branch)(ng.tensor(1.0)),
        lambda: ng.scan(lambda c, x: (branch(c), None), ng.tensor(1.0), length=2),
        lambda: ng.func.vmap(branch)(X),
    ):
        with pytest.raises(TraceError) as caught:
            f()
        text = str(caught.value)
        assert "test_branches.py:" in text and "if x > 0:" in text
        for name in ("ng.where", "ng.cond", "ng.scan", "ng.while_loop"):
            assert name in text
