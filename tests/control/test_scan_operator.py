"""``ng.scan`` against unrolled Python loops."""

from typing import NamedTuple

import numpy as np
import pytest
from agreement import agree, batches_agree, close

import nbgrad as ng
from nbgrad import testing as nt

RNG = np.random.default_rng(7)
W = ng.tensor(RNG.normal(size=(3, 3)) * 0.4)
H = ng.tensor(RNG.normal(size=3))
XS = ng.tensor(RNG.normal(size=(5, 3)))


def cell(w):
    def step(h, x):
        h = ng.tanh(w @ h + x)
        return h, (h * h).sum()

    return step


def unrolled(f, carry, xs, reverse=False):
    """What scan means."""
    n = len(xs)
    ys = [None] * n
    for k in range(n - 1, -1, -1) if reverse else range(n):
        carry, ys[k] = f(carry, xs[k])
    return carry, ng.stack(ys)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [None, 72, "binomial"])
def test_a_recurrent_network(reverse, checkpoint):
    weights = ng.linspace(1.0, -1.0, 5)

    def loss(loop, **options):
        def f(w, h, xs):
            h, ys = loop(cell(w), h, xs, reverse=reverse, **options)
            return (h * (weights * ys).sum()).sum() + (ys * ys).sum()

        return f

    f, twin = loss(ng.scan, checkpoint=checkpoint), loss(unrolled)
    agree(f, twin, W, H, XS)
    batches_agree(f, W, H, XS)


def test_captured_tensors_and_every_use_of_requires_grad():
    w, h = W.clone().requires_grad_(), H.clone().requires_grad_()
    carry, ys = ng.scan(cell(w), h, XS)
    assert type(carry.grad_fn).__name__ == "OpNode" and carry.grad_fn is ys.grad_fn
    (ys.sum() + carry.sum()).backward()
    want = ng.func.grad(
        lambda w, h: sum(t.sum() for t in unrolled(cell(w), h, XS)), argnums=(0, 1)
    )(W, H)
    close((w.grad, h.grad), want)


def test_double_backward_with_create_graph():
    w = W.clone().requires_grad_()
    (g,) = ng.autograd.grad(ng.scan(cell(w), H, XS)[1].sum(), w, create_graph=True)
    (gg,) = ng.autograd.grad((g * g).sum(), w)

    def twin(w):
        g = ng.func.grad(lambda w: unrolled(cell(w), H, XS)[1].sum())(w)
        return (g * g).sum()

    close(gg, ng.func.grad(twin)(W))


class State(NamedTuple):
    u: ng.Tensor
    extra: dict


def test_pytrees_with_none_leaves():
    def step(state, x):
        u = state.u * x["a"]
        return State(u, {"n": state.extra["n"] + 1, "nothing": None}), [u, None, (x["a"],)]

    init = State(ng.tensor([1.0, 2.0]), {"n": 0, "nothing": None})
    last, ys = ng.scan(step, init, {"a": ng.tensor([2.0, 3.0]), "none": None})
    assert isinstance(last, State) and last.extra["nothing"] is None
    assert last.extra["n"].dtype == ng.int64 and last.extra["n"].item() == 2
    close(last.u, ng.tensor([6.0, 12.0]))
    assert ys[1] is None and ys[0].shape == (2, 2)
    close(ys[2][0], ng.tensor([2.0, 3.0]))


def test_only_a_length_and_no_ys():
    total, ys = ng.scan(lambda c, _: (c * 1.5, None), ng.tensor(2.0), length=3)
    assert ys is None
    close(total, ng.tensor(2.0 * 1.5**3))
    nothing, ys = ng.scan(lambda c, x: (None, x * x), None, XS)
    assert nothing is None
    close(ys, XS * XS)
    close(
        ng.func.grad(lambda xs: ng.scan(lambda c, x: (None, x * x), None, xs)[1].sum())(XS), 2 * XS
    )


def test_no_steps_at_all():
    def f(h, xs):
        h, ys = ng.scan(lambda h, x: (h * x, h + 1), h, xs)
        return h.sum() + ys.sum()

    empty = ng.zeros(0, 3)
    assert ng.scan(lambda h, x: (h * x, h), H, empty)[1].shape == (0, 3)
    gh, gx = ng.func.grad(f, (0, 1))(H, empty)
    close(gh, ng.ones(3))
    assert gx.shape == (0, 3)
    assert ng.scan(lambda h, x: (h, None), H, empty)[0] is not H


def test_integer_and_bool_carries():
    def step(c, x):
        n, flag, v = c
        return (n + 2, ng.logical_not(flag), ng.where(flag, v * x, v + x * n)), n

    def loop(v, xs):
        c = (ng.tensor(1), ng.tensor(True), v)
        for k in range(4):
            c, _ = step(c, xs[k])
        return c[2]

    xs = ng.tensor([0.5, -1.5, 2.0, 0.3])
    (n, flag, _), ns = ng.scan(step, (1, True, 0.7), xs)
    assert (n.item(), flag.item(), ns.tolist()) == (9, True, [1, 3, 5, 7])
    agree(
        lambda v, xs: ng.scan(step, (ng.tensor(1), ng.tensor(True), v), xs)[0][2],
        loop,
        ng.tensor(0.7),
        xs,
    )


def test_complex_carry():
    def f(z, w):
        out, ys = ng.scan(lambda z, w: (z * z * 0.5 + w, z), z, w)
        return (out * out.conj()).real + (ys * ys.conj()).real.sum()

    z = ng.tensor(0.3 + 0.4j)
    w = ng.tensor([0.1 - 0.2j, 0.3 + 0.1j, -0.2 + 0.2j])
    nt.check_grads(f, (z, w), order=2)


def test_float32_stays_float32():
    h, ys = ng.scan(cell(W.float()), H.float(), XS.float(), checkpoint="store")
    assert h.dtype == ys.dtype == ng.float32
    g = ng.func.grad(lambda w: ng.scan(cell(w), H.float(), XS.float())[1].sum())(W.float())
    assert g.dtype == ng.float32
    close(g.double(), ng.func.grad(lambda w: ng.scan(cell(w), H, XS)[1].sum())(W), rtol=2e-5)


def test_the_lorenz_system_by_runge_kutta():
    def rhs(u, p):
        x, y, z = u[0], u[1], u[2]
        return ng.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])

    def step(p, dt=0.02):
        def rk4(u, _):
            a = rhs(u, p)
            b = rhs(u + dt / 2 * a, p)
            c = rhs(u + dt / 2 * b, p)
            d = rhs(u + dt * c, p)
            u = u + dt / 6 * (a + 2 * b + 2 * c + d)
            return u, u

        return rk4

    def f(loop):
        return lambda u, p: (loop(step(p), u, ng.zeros(12))[1] ** 2).mean()

    u, p = ng.tensor([1.0, 1.0, 1.05]), ng.tensor([10.0, 28.0, 8 / 3])
    close(f(ng.scan)(u, p), f(unrolled)(u, p))
    close(ng.func.grad(f(ng.scan), (0, 1))(u, p), ng.func.grad(f(unrolled), (0, 1))(u, p))
    close(ng.func.hessian(f(ng.scan), 1)(u, p), ng.func.hessian(f(unrolled), 1)(u, p))


def test_nested_scans():
    def f(loop):
        def outer(w, h):
            def row(c, x):
                inner, ys = loop(lambda a, b: (ng.sin(a * w + b), a * b), c, x)
                return inner, ys.sum()

            c, ys = loop(row, h, XS)
            return c.sum() + (ys * ys).sum()

        return outer

    agree(f(ng.scan), f(unrolled), ng.tensor([0.3, 0.5]), ng.tensor([0.1, -0.4]))
    batches_agree(f(ng.scan), ng.tensor([0.3, 0.5]), ng.tensor([0.1, -0.4]))


def test_gradcheck_and_gradgradcheck():
    w, h, xs = (t.clone().requires_grad_() for t in (W, H, XS))

    def f(w, h, xs):
        return ng.scan(cell(w), h, xs)

    assert ng.autograd.gradcheck(f, (w, h, xs))
    assert ng.autograd.gradgradcheck(f, (w, h, xs))


def test_generic_properties():
    def f(w, h, xs):
        return ng.scan(cell(w), h, xs)

    args = tuple(t.numpy() for t in (W, H, XS))
    nt.dot_product_test(f, args)
    nt.inputs_unmodified(f, args)
    nt.tape_agrees(f, args)
    nt.vmap_agrees(f, args)


def test_jacobians_linearize_and_dual_levels():
    def f(h):
        return ng.scan(cell(W), h, XS)[0]

    def twin(h):
        return unrolled(cell(W), h, XS)[0]

    close(ng.func.jacfwd(f)(H), ng.func.jacrev(twin)(H))
    close(ng.func.jacrev(f)(H), ng.func.jacfwd(twin)(H))
    close(ng.func.linearize(f, H)[1](H), ng.func.jvp(twin, (H,), (H,))[1])
    with ng.autograd.forward_ad.dual_level():
        out = f(ng.autograd.forward_ad.make_dual(H, H))
        dot = ng.autograd.forward_ad.unpack_dual(out).tangent
    close(dot, ng.func.jvp(twin, (H,), (H,))[1])


def test_a_zero_wins_in_the_body():
    def f(x):
        step = lambda c, a: (c + ng.where(a > 0, ng.sqrt(a), 0.0), None)
        return ng.scan(step, ng.tensor(0.0), x)[0]

    x = ng.tensor([4.0, -1.0, 0.0])
    close(ng.func.grad(f)(x), ng.tensor([0.25, 0.0, 0.0]))
    close(ng.func.jvp(f, (x,), (ng.ones(3),))[1], ng.tensor(0.25))
    close(ng.func.hessian(f)(x), ng.diag(ng.tensor([-1 / 32, 0.0, 0.0])))


def test_results_own_their_memory():
    init = ng.tensor([1.0, 2.0])
    same, _ = ng.scan(lambda c, x: (c, None), init, XS)
    same.mul_(10.0)
    close(init, ng.tensor([1.0, 2.0]))
    first, twice = ng.scan(lambda c, x: ((c[0], c[0]), None), (init, init), XS)[0]
    first.mul_(3.0)
    close(twice, init)


def test_writing_in_place_after_a_scan():
    w, xs = W.clone().requires_grad_(), XS.clone()
    h, ys = ng.scan(cell(w), H, xs)
    h.mul_(2.0)
    ys += 1.0
    (h.sum() + ys.sum()).backward()  # the results are not what the backward reads
    want = ng.func.grad(
        lambda w: 2 * unrolled(cell(w), H, XS)[0].sum() + unrolled(cell(w), H, XS)[1].sum()
    )
    close(w.grad, want(W))
    loss = ng.scan(cell(w), H, xs)[1].sum()
    xs.zero_()
    with pytest.raises(ng.errors.AutogradError, match="changed in place by zero_"):
        loss.backward()


def test_the_body_may_write_its_own_tensors_in_place():
    def step(c, x):
        c = c.clone()
        c[0] = c[1] * x
        c += 1.0
        return c, None

    def twin(c, xs):
        for k in range(3):
            c = ng.stack([c[1] * xs[k], c[1]]) + 1.0
        return c.sum()

    agree(
        lambda c, xs: ng.scan(step, c, xs)[0].sum(),
        twin,
        ng.tensor([0.5, 0.7]),
        ng.tensor([1.0, 2.0, 0.5]),
    )


def test_no_grad_stops_the_gradient_of_the_whole_and_of_a_part():
    with ng.no_grad():
        assert not ng.scan(cell(W.clone().requires_grad_()), H, XS)[0].requires_grad

    def step(c, x):
        with ng.no_grad():
            frozen = c * c
        return frozen * x + c, None

    def twin(c, xs):
        for k in range(5):
            c = (c * c).detach() * xs[k] + c
        return c.sum()

    close(
        ng.func.grad(lambda c: ng.scan(step, c, XS)[0].sum())(H),
        ng.func.grad(lambda c: twin(c, XS))(H),
    )


def test_modes_around_a_scan_do_not_reach_into_its_body():
    w = W.clone().requires_grad_()
    with ng.autograd.detect_anomaly():
        ng.scan(cell(w), H, XS)[1].sum().backward()
    want = w.grad.clone()
    w.grad = None
    ng.utils.checkpoint.checkpoint(lambda h: ng.scan(cell(w), h, XS)[1].sum(), H).backward()
    close(w.grad, want)
    with ng.memory.scope() as s:
        kept = s.keep(ng.scan(cell(W), H, XS)[0])
    close(kept, unrolled(cell(W), H, XS)[0])


def test_a_body_lives_no_longer_than_its_graph():
    import gc
    import weakref

    def run():
        h, _ = ng.scan(cell(W), H.clone().requires_grad_(), XS)
        tape = h.grad_fn.params["body"]
        h.sum().backward()
        return weakref.ref(tape)

    ref = run()
    gc.collect()
    assert ref() is None
