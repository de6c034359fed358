"""Binomial checkpointing: the schedule is optimal, the budget is kept, the gradients are bitwise the same."""

import numpy as np
import pytest
from agreement import close

import nbgrad as ng
from nbgrad.control import sweep
from nbgrad.control.revolve import Report, beta, repetitions, revolve
from nbgrad.errors import ArgumentError

RNG = np.random.default_rng(3)
W = ng.tensor(RNG.normal(size=(4, 4)) * 0.5)
XS = ng.tensor(RNG.normal(size=(37, 4)))
CARRY = 4 * 8  # bytes


def least_advances(n, s):
    """The least number of steps to advance when ``n`` steps are reversed with ``s`` states."""
    r = repetitions(n, s)
    return r * n - beta(s + 1, r - 1)


def step(w):
    return lambda h, x: ((h := ng.tanh(w @ h + x)), (h * h).sum())


def loss(w, xs, checkpoint, reverse=False):
    h, ys = ng.scan(step(w), ng.ones(4), xs, checkpoint=checkpoint, reverse=reverse)
    return (ys * ys).sum() + h.sum()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 10, 23, 64, 100])
@pytest.mark.parametrize("s", [1, 2, 3, 5, 8, 200])
def test_the_schedule_reverses_every_step_with_the_least_work(n, s):
    order = []

    def advance(state, lo, hi):
        assert state == lo < hi
        return hi

    def reverse(k, state):
        assert state == k
        order.append(k)

    report = revolve(n, s, 0, advance, reverse)
    assert order == list(range(n - 1, -1, -1))
    assert report.peak <= min(s, max(n, 1))
    assert report.advanced == (least_advances(n, s) if n else 0) == optimum(n, s)


def optimum(n, s, memo={}):  # noqa: B006
    """The least number of advanced steps by dynamic programming over the place of the next kept state."""
    if n <= 1:
        return 0
    if s == 1:
        return n * (n - 1) // 2
    if (n, s) not in memo:
        memo[n, s] = min(m + optimum(m, s) + optimum(n - m, s - 1) for m in range(1, n))
    return memo[n, s]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("budget", [1, 2, 3, 7, 36, 37, 1000])
def test_gradients_are_bitwise_those_of_storing_everything(budget, reverse, monkeypatch):
    reports = []

    def watched(*args):
        got, report = original(*args)
        reports.append(report)
        return got, report

    original = sweep.reverse_loop
    monkeypatch.setattr(sweep, "reverse_loop", watched)
    want = ng.func.grad(lambda w, xs: loss(w, xs, "store", reverse), (0, 1))(W, XS)
    assert not reports
    got = ng.func.grad(lambda w, xs: loss(w, xs, budget * CARRY + 5, reverse), (0, 1))(W, XS)
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())
    if budget >= 37:
        assert not reports
    else:
        assert reports == [Report(budget, least_advances(37, budget))]


def test_binomial_keeps_about_log2_of_the_length():
    tape = ng.trace(lambda w: loss(w, XS, "binomial"))(W).grad().simplify()
    (reversal,) = [i for i in tape.instructions if i.op == "scan_reverse"]
    assert reversal.params["snapshots"] == 7


def test_memory_stays_bounded_at_second_order():
    """Derivatives of the sweep are sweeps again: no carries are stored on the tape."""
    length = 37
    f = lambda w: loss(w, XS, 3 * CARRY)
    v = ng.ones(4, 4)
    hvp = ng.trace(lambda w: ng.func.jvp(ng.func.grad(f), (w,), (v,))[1])(W).simplify()
    double = ng.trace(ng.func.grad(lambda w: (ng.func.grad(f)(w) * v).sum()))(W).simplify()
    want = ng.func.hvp(lambda w: loss(w, XS, None), (W,), (v,))[1]
    for tape in (hvp, double):
        close(tape.replay(W), want)
        assert "scan_reverse" in [i.op for i in tape.instructions]
        made = [tape.specs[v].shape for i in tape.instructions for v in i.outputs]
        assert not [shape for shape in made if len(shape) > 1 and shape[0] == length]


def test_batches_with_and_without_own_cotangents():
    f = lambda w, xs: loss(w, xs, 4 * CARRY)
    g = lambda w, xs: loss(w, xs, None)
    ws, xss = ng.stack([W, 0.5 * W]), ng.stack([XS, XS * 2])
    for dims in ((0, 0), (0, None), (None, 0)):
        args = [t if d == 0 else o for t, o, d in zip((ws, xss), (W, XS), dims, strict=True)]
        got, want = (ng.func.vmap(ng.func.grad(h, (0, 1)), in_dims=dims)(*args) for h in (f, g))
        close(got, want)
    cotangents = ng.stack([ng.ones(37), ng.linspace(0.0, 1.0, 37)])

    def pulled(checkpoint):
        ys = lambda w: ng.scan(step(w), ng.ones(4), XS, checkpoint=checkpoint)[1]
        pull = ng.func.vjp(ys, W)[1]
        return ng.func.vmap(lambda c: pull(c)[0])(cotangents)

    close(pulled(3 * CARRY), pulled(None))


def test_integer_carries_are_recomputed_too():
    def f(checkpoint):
        def run(x):
            step = lambda c, _: ((c[0] * x + c[1], c[1] + 1), None)
            return ng.scan(step, (x, 0), length=9, checkpoint=checkpoint)[0][0]

        return ng.func.grad(run)(ng.tensor(0.7))

    assert f(2 * 16).item() == f(None).item()


@pytest.mark.parametrize(
    "checkpoint, words",
    [
        (31, "argument 'checkpoint' is 31 bytes; expected at least 32, the size of one carry"),
        (0, "at least 32"),
        ("all", "expected None, 'store', 'binomial' or a number of bytes"),
        (True, "'checkpoint' is True"),
        (1e6, "a number of bytes"),
    ],
)
def test_bad_budgets(checkpoint, words):
    with pytest.raises(ArgumentError, match=words):
        loss(W, XS, checkpoint)
