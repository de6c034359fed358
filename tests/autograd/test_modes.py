"""no_grad, enable_grad, set_grad_enabled, inference_mode, anomaly mode: nesting, threads, decorators, generators."""

import threading

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import detect_anomaly, grad, set_detect_anomaly
from nbgrad.errors import AutogradError


def leaf(*values):
    return ng.tensor(list(values), requires_grad=True)


def test_context_managers_nest_and_restore():
    x = leaf(1.0)
    with ng.no_grad():
        assert not ng.is_grad_enabled() and not (x * 2).requires_grad
        with ng.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
        with ng.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert ng.is_grad_enabled() and (x * 2).requires_grad
    with pytest.raises(ZeroDivisionError), ng.no_grad():
        _ = 1 / 0
    assert ng.is_grad_enabled()


def test_leaves_made_under_no_grad_still_require_grad():
    with ng.no_grad():
        x = leaf(1.0)
        assert x.requires_grad
    assert (x * 2).requires_grad


def test_set_grad_enabled_acts_at_once():
    try:
        ng.set_grad_enabled(False)
        assert not (leaf(1.0) * 2).requires_grad
    finally:
        ng.set_grad_enabled(True)
    assert (leaf(1.0) * 2).requires_grad


@pytest.mark.parametrize("mode", [ng.no_grad, ng.no_grad(), ng.inference_mode, ng.inference_mode()])
def test_decorators(mode):
    @mode
    def f(x):
        """Doubles."""
        return x * 2

    assert f.__name__ == "f" and f.__doc__ == "Doubles."
    assert not f(leaf(1.0)).requires_grad
    assert ng.is_grad_enabled() and not ng.is_inference_mode_enabled()


def test_decorated_generators_and_recursion():
    x = leaf(1.0)

    @ng.no_grad()
    def numbers():
        got = yield (x * 2).requires_grad
        yield got, (x * 2).requires_grad

    gen = numbers()
    assert next(gen) is False
    assert (x * 2).requires_grad  # the mode holds in the generator only
    assert gen.send("hello") == ("hello", False)

    @ng.set_grad_enabled(False)
    def down(n):
        return [(x * 2).requires_grad] + (down(n - 1) if n else [])

    assert down(3) == [False] * 4 and ng.is_grad_enabled()


def test_modes_are_thread_local():
    seen = []

    def other():
        seen.append((ng.is_grad_enabled(), (leaf(1.0) * 2).requires_grad))

    with ng.no_grad():
        t = threading.Thread(target=other)
        t.start()
        t.join()
    assert seen == [(True, True)]


def test_inference_tensors_are_refused_by_autograd():
    w = leaf(2.0)
    with ng.inference_mode():
        assert ng.is_inference_mode_enabled()
        t = w * 3
        z = ng.ones(1)
        v = t.view(1, 1)
        t.add_(1)  # fine inside
    assert not t.requires_grad
    for bad in (t, z, v, v.view(1), t.detach()):
        with pytest.raises(AutogradError, match=r"inference.*clone\(\)"):
            w * bad
        with pytest.raises(AutogradError, match="inference"):
            bad.requires_grad_()
        with pytest.raises(AutogradError, match="inference"):
            bad.add_(1)
    assert (w + t).requires_grad  # an addition saves nothing
    assert (t * 2).item() == 14.0  # no gradient, no objection
    (g,) = grad(w * t.clone(), w)
    assert g.item() == 7.0
    with ng.inference_mode(False):
        assert (w * 2).requires_grad


def test_backward_works_in_no_grad_and_with_modes_inside_functions():
    x = leaf(3.0)
    y = (x * x).sum()
    with ng.no_grad():
        y.backward()
    assert x.grad.item() == 6.0
    f = lambda x: (x * x).sum() - ng.no_grad()(lambda: (x * x).sum())()
    assert ng.func.grad(f)(ng.tensor([3.0])).tolist() == [6.0]
    with ng.no_grad():  # a transform inside no_grad works, its result is a constant
        g = ng.func.grad(lambda x: (x**3).sum())(x)
        assert g.tolist() == [27.0] and not g.requires_grad
    assert ng.func.grad(lambda x: (x**3).sum())(x).requires_grad


# -- anomaly mode --------------------------------------------------------------------------------


def test_anomaly_mode_names_the_forward_operation_and_the_users_line():
    with detect_anomaly():
        x = leaf(0.0, 4.0)
        y = ng.sqrt(x)  # the culprit
        with pytest.raises(AutogradError) as info:
            y.sum().backward()
    text = str(info.value)
    assert "SqrtBackward" in text and "the culprit" in text and __file__ in text
    assert "rawloop" not in text and "dispatch" not in text


def test_anomaly_mode_finds_the_birth_of_a_nan():
    with detect_anomaly():
        x = leaf(1.0)
        with pytest.raises(AutogradError, match=r"'sqrt'.*NaN") as info:
            ng.sqrt(x - 2)  # born here
        assert "born here" in str(info.value)
        with pytest.raises(AutogradError, match="'log'"):
            ng.log(-x)
        ng.sqrt(ng.tensor([float("nan")]))  # not born here


def test_anomaly_mode_without_recorded_stack_and_switches():
    x = leaf(0.0)
    y = ng.sqrt(x)
    with detect_anomaly(), pytest.raises(AutogradError, match="outside detect_anomaly"):
        y.sum().backward()
    with detect_anomaly(check_nan=False):
        y = ng.sqrt(x)
        y.sum().backward()
        assert y.grad_fn.metadata["stack"]
    assert not ng.autograd.is_anomaly_enabled()
    with set_detect_anomaly(True):
        assert ng.autograd.is_anomaly_enabled()
        with set_detect_anomaly(False):
            assert not ng.autograd.is_anomaly_enabled()
    assert not ng.autograd.is_anomaly_enabled()
    set_detect_anomaly(True)
    try:
        with pytest.raises(AutogradError):
            ng.log(leaf(-1.0))
    finally:
        set_detect_anomaly(False)


def test_anomaly_mode_gives_the_same_gradients():
    x = leaf(0.3, 0.7)
    f = lambda x: (ng.exp(x) * x[0]).sum()
    want = grad(f(x), x)[0].numpy()
    with detect_anomaly():
        np.testing.assert_allclose(grad(f(x), x)[0].numpy(), want)


def test_anomaly_mode_reports_where_zero_wins():
    with detect_anomaly() as mode:
        x = leaf(0.0, 1.0)
        y = ng.where(x > 0, ng.sqrt(x), 0.0 * x)
        assert grad(y.sum(), x)[0].tolist() == [0.0, 0.5]
    assert len(mode.zero_wins) == 1
    assert "1 of 2" in mode.zero_wins[0] and "SqrtBackward" in mode.zero_wins[0]
    assert __file__ in mode.zero_wins[0]


@pytest.mark.parametrize("mode", [ng.no_grad, ng.inference_mode])
def test_a_generator_hears_what_is_thrown_and_its_closing(mode):
    seen = []

    @mode()
    def numbers():
        try:
            seen.append((yield 1))
            try:
                yield 2
            except KeyError:
                seen.append(("caught", ng.is_grad_enabled()))
            yield 3
        finally:
            seen.append(("closed", ng.is_grad_enabled()))

    it = numbers()
    assert (next(it), it.send("sent"), it.throw(KeyError("a"))) == (1, 2, 3)
    it.close()
    assert seen == ["sent", ("caught", False), ("closed", False)] and ng.is_grad_enabled()
    it = numbers()
    next(it)
    with pytest.raises(ZeroDivisionError):
        it.throw(ZeroDivisionError())
    assert seen[-1] == ("closed", False) and ng.is_grad_enabled()
