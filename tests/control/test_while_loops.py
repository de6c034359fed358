"""``ng.while_loop`` and ``ng.fori_loop``: values, forward derivatives always, reverse ones with a bound."""

import numpy as np
import pytest
from agreement import agree, batches_agree, close

import nbgrad as ng
from nbgrad.errors import ArgumentError, UnsupportedError

A = ng.tensor(2.0)


def newton(a, max_steps=None):
    """The square root of ``a``, by Newton's method from 1."""
    return ng.while_loop(
        lambda x: abs(x * x - a) > 1e-13 * a,
        lambda x: (x + a / x) / 2,
        ng.ones_like(a),
        max_steps=max_steps,
    )


def test_newton_in_forward_mode():
    close(newton(A), ng.sqrt(A))
    close(ng.func.jvp(newton, (A,), (A,)), ng.func.jvp(ng.sqrt, (A,), (A,)), rtol=1e-9)
    twice = lambda f: ng.func.jvp(lambda a: ng.func.jvp(f, (a,), (A,))[1], (A,), (A,))[1]
    close(twice(newton), twice(ng.sqrt), rtol=1e-6)
    series = ([ng.tensor(1.0), ng.tensor(0.5), ng.tensor(0.0)],)
    close(ng.func.jet(newton, (A,), series), ng.func.jet(ng.sqrt, (A,), series), rtol=1e-4)


def test_reverse_mode_without_a_bound_says_what_to_do():
    with pytest.raises(UnsupportedError, match=r"while_loop: reverse mode .* pass max_steps="):
        ng.func.grad(newton)(A)
    with pytest.raises(UnsupportedError, match=r"ng\.fori_loop with fixed bounds, or forward mode"):
        newton(A.clone().requires_grad_()).backward()


def test_a_bounded_loop_in_every_mode():
    def step(x, a):
        return ng.sin(x) * a + 0.3 * x

    def f(x, a):
        out = ng.while_loop(
            lambda s: s[1] < 4, lambda s: (step(s[0], a), s[1] + 1), (x, 0), max_steps=7
        )
        return (out[0] * out[0]).sum()

    def twin(x, a):
        for _ in range(4):
            x = step(x, a)
        return (x * x).sum()

    x, a = ng.tensor([0.4, -0.9]), ng.tensor([1.1, 0.7])
    agree(f, twin, x, a)
    batches_agree(f, x, a)


def test_members_of_a_batch_stop_at_their_own_time():
    a = ng.tensor([4.0, 2.0, 1e6, 1.1])
    bounded = lambda a: newton(a, 40)
    close(ng.func.vmap(newton)(a), ng.sqrt(a))
    close(ng.func.vmap(lambda a: ng.func.jvp(newton, (a,), (a,))[1])(a), ng.sqrt(a) / 2, rtol=1e-6)
    close(ng.func.vmap(ng.func.grad(bounded))(a), 0.5 / ng.sqrt(a), rtol=1e-6)
    close(ng.func.grad(lambda a: ng.func.vmap(bounded)(a).sum())(a), 0.5 / ng.sqrt(a), rtol=1e-6)
    loop = ng.stack([ng.func.grad(ng.func.grad(bounded))(t) for t in a])
    close(ng.func.vmap(ng.func.grad(ng.func.grad(bounded)))(a), loop, rtol=1e-9)


def test_steps_after_the_end_never_poison_a_gradient():
    """A member that is done would take the square root of a negative number, were it not masked."""

    def f(x):
        return ng.while_loop(lambda x: x > 1.0, lambda x: ng.sqrt(x - 1.0), x, max_steps=6)

    xs = ng.tensor([0.5, 1.5, 4.0, 30.0])
    loop = ng.stack([ng.func.grad(f)(x) for x in xs])
    assert ng.isfinite(loop).all()
    close(ng.func.vmap(ng.func.grad(f))(xs), loop)
    close(ng.func.vmap(lambda x: ng.func.jvp(f, (x,), (x,))[1])(xs), loop * xs)
    second = ng.stack([ng.func.grad(ng.func.grad(f))(x) for x in xs])
    close(ng.func.vmap(ng.func.grad(ng.func.grad(f)))(xs), second)


def test_a_condition_that_no_member_varies_stays_one_loop():
    f = lambda x: ng.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * x, s[1] + 1), (x, 0))[0]
    tape = ng.trace(ng.func.vmap(f))(ng.ones(4)).simplify()
    (loop,) = [i for i in tape.instructions if i.op == "while_loop"]
    assert tape.specs[loop.params["cond"].inputs[-1]].shape == ()
    close(tape.replay(ng.tensor([1.0, 2.0, 3.0, 0.5])), ng.tensor([1.0, 16.0, 81.0, 0.0625]))


def test_too_few_steps_is_an_error_in_every_mode():
    match = r"while_loop: argument 'max_steps' is 2, after which the condition still holds"
    for f in (
        lambda: newton(A, 2),
        lambda: ng.func.grad(lambda a: newton(a, 2))(A),
        lambda: ng.func.jvp(lambda a: newton(a, 2), (A,), (A,)),
        lambda: ng.func.vmap(lambda a: newton(a, 2))(ng.tensor([1.0, 2.0])),
        lambda: ng.trace(lambda a: newton(a, 2))(A).grad().replay(A),
    ):
        with pytest.raises(ArgumentError, match=match):
            f()
    close(newton(ng.tensor(1.0), 0), ng.tensor(1.0))


def test_integer_and_bool_carries_and_pytrees():
    """Collatz: the steps to 1, with the largest number on the way."""

    def step(s):
        n = ng.where(s["n"] % 2 == 0, s["n"] // 2, 3 * s["n"] + 1)
        return {"n": n, "steps": s["steps"] + 1, "peak": ng.maximum(s["peak"], n), "x": None}

    init = {"n": ng.tensor(27), "steps": 0, "peak": ng.tensor(27), "x": None}
    out = ng.while_loop(lambda s: s["n"] != 1, step, init)
    assert (out["steps"].item(), out["peak"].item(), out["x"]) == (111, 9232, None)
    flag, n = ng.while_loop(lambda s: s[0], lambda s: (s[1] < 5, s[1] + 1), (True, 0))
    assert (flag.item(), n.item()) == (False, 6)


def test_fori_loop_with_fixed_bounds():
    def f(x):
        return ng.fori_loop(2, 5, lambda i, c: c * x + ng.sin(c) * i, x).sum()

    def twin(x):
        c = x
        for i in range(2, 5):
            c = c * x + ng.sin(c) * i
        return c.sum()

    agree(f, twin, ng.tensor([0.3, -0.8]))
    batches_agree(f, ng.tensor([0.3, -0.8]))
    x = ng.tensor(3.0)
    close(ng.fori_loop(4, 2, lambda i, c: c * 2, x), x)
    assert ng.fori_loop(0, 3, lambda i, c: c + i, 0).item() == 3


def test_fori_loop_with_tensors_as_bounds():
    f = lambda x, n: ng.fori_loop(0, n, lambda i, c: c * x, ng.ones_like(x))
    x = ng.tensor(1.5)
    close(f(x, ng.tensor(4)), x**4)
    tape = ng.trace(f)(x, ng.tensor(1))
    close(tape.replay(x, ng.tensor(3)), x**3)
    close(ng.func.jvp(lambda x: f(x, ng.tensor(4)), (x,), (x,))[1], 4 * x**4)
    close(ng.func.vmap(f, in_dims=(None, 0))(x, ng.tensor([0, 1, 3])), x ** ng.tensor([0, 1, 3]))


def test_a_scan_in_a_cond_in_a_while():
    def f(x, w):
        def once(s):
            x, n = s
            x = ng.cond(
                n % 2 == 0,
                lambda x: ng.scan(lambda c, a: (ng.tanh(c * a + w), None), x, w * ng.ones(3, 2))[0],
                lambda x: x * w,
                x,
            )
            return x, n + 1

        return ng.while_loop(lambda s: s[1] < 3, once, (x, 0), max_steps=3)[0].sum()

    def twin(x, w):
        for n in range(3):
            if n % 2 == 0:
                for _ in range(3):
                    x = ng.tanh(x * w + w)
            else:
                x = x * w
        return x.sum()

    x, w = ng.tensor([0.2, 0.9]), ng.tensor([0.7, -0.4])
    agree(f, twin, x, w)
    batches_agree(f, x, w)


def test_large_arrays_go_through_the_threaded_kernels():
    x = ng.linspace(0.0, 1.0, 20_000)
    f = lambda x: ng.fori_loop(0, 3, lambda i, c: ng.sin(c) + x * i, x).sum()
    c = x.numpy()
    for i in range(3):
        c = np.sin(c) + x.numpy() * i
    np.testing.assert_allclose(f(x).item(), c.sum(), rtol=1e-12)
    assert ng.isfinite(ng.func.grad(f)(x)).all()
