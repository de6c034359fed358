"""Numba functions as differentiable operators on tensors."""

import math
import typing

import numpy as np
import pytest
from numba import njit

import nbgrad as ng
from nbgrad import func
from nbgrad.errors import ArgumentError, DeviceError, DTypeError
from nbgrad.njit.operands import Constants
from nbgrad.njit.routine import Function


@njit
def energy(x, a):
    s = 0.0
    for i in range(x.size):
        s += np.sin(a * x[i]) * x[i]
    return s


@njit
def relax(u, k, steps):
    """Writes to its argument; returns it, and a number."""
    lost = 0.0
    for _ in range(steps):
        for i in range(1, u.size - 1):
            flow = k * (u[i - 1] - 2 * u[i] + u[i + 1])
            u[i] += flow
            lost += flow * flow
    return u, lost


@njit
def spread(u, v, out):
    """Returns nothing: its result is what it writes."""
    for i in range(u.size):
        out[i] += u[i] * v[i] * v[i]


class Pair(typing.NamedTuple):
    first: object
    rest: object


@njit
def sorts(x, n):
    """A tuple in a named tuple, with results that have no derivative."""
    big = 0
    for v in x:
        big += v > 1.0
    return Pair(x * x, (big, x > 1.0, n))


energy_of, relaxed = ng.njit.operator(energy), ng.njit.operator(relax)


def tensor(*values, **options):
    return ng.tensor(np.array(values), **options)


X, A = tensor(0.4, 1.3, -0.7), ng.tensor(1.5)
U, K = tensor(0.0, 1.0, 0.5, -0.3, 0.2), ng.tensor(0.3)


def slope_of_energy(x, a):
    return np.sin(a * x) + a * x * np.cos(a * x)


def test_one_node_of_the_graph():
    x, a = X.clone().requires_grad_(), A.clone().requires_grad_()
    y = energy_of(x, a)
    assert y.shape == () and y.dtype == ng.float64
    assert float(y) == energy(X.numpy(), 1.5)
    assert [node.name() for node, _ in y.grad_fn.next_functions] == ["AccumulateGrad"] * 2
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), slope_of_energy(X.numpy(), 1.5), rtol=1e-13)
    np.testing.assert_allclose(a.grad, np.sum(X.numpy() ** 2 * np.cos(1.5 * X.numpy())), rtol=1e-13)


def test_constants_and_names():
    x = X.clone().requires_grad_()
    by_name = energy_of(a=1.5, x=x)
    assert float(by_name) == float(energy_of(X.numpy(), 1.5))
    (g,) = ng.autograd.grad(by_name, [x])
    np.testing.assert_allclose(g.numpy(), slope_of_energy(X.numpy(), 1.5), rtol=1e-13)
    assert energy_of.__name__ == "energy"


def test_chosen_arguments():
    only_x = ng.njit.operator(energy, argnums=0)
    x, a = X.clone().requires_grad_(), A.clone().requires_grad_()
    gx, ga = ng.autograd.grad(only_x(x, a), [x, a], allow_unused=True)
    np.testing.assert_allclose(gx.numpy(), slope_of_energy(X.numpy(), 1.5), rtol=1e-13)
    assert ga is None


def test_arguments_are_not_copied():
    routine = Function(energy, (True, False), True)
    constants = Constants((1.5,))
    x = X.numpy()
    assert routine.arguments([x], constants)[0] is x
    frozen = x.view()
    frozen.flags.writeable = False
    seen = routine.arguments([frozen], constants)[0]
    assert np.shares_memory(seen, x) and seen.flags.writeable  # one compilation for both


def test_written_arguments_are_copied():
    u = U.clone()
    got, lost = relaxed(u, K, 3)
    expected = U.numpy().copy()
    assert float(lost) == relax(expected, 0.3, 3)[1]
    np.testing.assert_array_equal(got.numpy(), expected)
    np.testing.assert_array_equal(u.numpy(), U.numpy())
    assert not np.shares_memory(got.numpy(), u.numpy())


def test_what_is_written_is_the_result():
    op = ng.njit.operator(spread)
    args = [
        X.clone().requires_grad_(),
        tensor(2.0, 0.5, 1.0).requires_grad_(),
        X.clone().requires_grad_(),
    ]
    y = op(*args)
    np.testing.assert_allclose(
        y.detach().numpy(), X.numpy() * (args[1].detach().numpy() ** 2 + 1), rtol=1e-15
    )
    assert ng.autograd.gradcheck(op, tuple(args), check_forward_ad=True)
    twice = op(args[0], args[1], args[0])  # the written array is another argument, too
    gu, _ = ng.autograd.grad(twice.sum(), args[:2])
    np.testing.assert_allclose(gu.numpy(), args[1].detach().numpy() ** 2 + 1, rtol=1e-15)


def test_results_of_every_kind():
    x = tensor(0.5, 2.0, 3.0).requires_grad_()
    got = ng.njit.operator(sorts)(x, 7)
    assert isinstance(got, Pair)
    big, mask, n = got.rest
    assert (int(big), int(n), mask.dtype) == (2, 7, ng.bool_)
    assert not big.requires_grad and not mask.requires_grad
    (g,) = ng.autograd.grad(got.first.sum(), [x])
    np.testing.assert_array_equal(g.numpy(), 2 * x.detach().numpy())


def test_derivatives_by_the_checks_of_every_operator():
    leaves = tuple(t.clone().requires_grad_() for t in (X, A))
    batched = {"check_batched_grad": True, "check_batched_forward_grad": True}
    assert ng.autograd.gradcheck(energy_of, leaves, check_forward_ad=True, **batched)
    assert ng.autograd.gradgradcheck(energy_of, leaves, check_fwd_over_rev=True)
    ng.testing.check_grads(energy_of, (X, A), order=2)
    ng.testing.dot_product_test(energy_of, (X, A))
    ng.testing.inputs_unmodified(energy_of, (X, A))
    ng.testing.vmap_agrees(energy_of, (X, A))
    ng.testing.tape_agrees(energy_of, (X, A))


def test_derivatives_of_a_function_that_writes():
    def f(u, k):
        return relaxed(u, k, 2)

    assert ng.autograd.gradcheck(f, tuple(t.clone().requires_grad_() for t in (U, K)))
    ng.testing.dot_product_test(f, (U, K))
    ng.testing.inputs_unmodified(f, (U, K))


def test_third_derivative():
    a = A.clone().requires_grad_()
    d = energy_of(X, a)
    for _ in range(3):
        (d,) = ng.autograd.grad(d, [a], create_graph=True)
    x = X.numpy()
    np.testing.assert_allclose(d.item(), -np.sum(x**4 * np.cos(1.5 * x)), rtol=1e-12)
    _, (first, second) = func.jet(
        lambda a: energy_of(X, a), (A,), ((ng.tensor(1.0), ng.tensor(0.0)),)
    )
    np.testing.assert_allclose(first.item(), np.sum(x**2 * np.cos(1.5 * x)), rtol=1e-12)
    np.testing.assert_allclose(second.item(), -np.sum(x**3 * np.sin(1.5 * x)), rtol=1e-12)


def test_batches():
    xs, weights = ng.tensor(np.linspace(-1, 1, 12).reshape(3, 4)), ng.tensor([0.5, 1.5, 2.0])
    rows = func.vmap(func.grad(energy_of), (0, None))(xs, A)
    np.testing.assert_allclose(rows.numpy(), slope_of_energy(xs.numpy(), 1.5), rtol=1e-13)
    columns = func.vmap(energy_of, (1, None))(xs, A)
    np.testing.assert_allclose(
        columns.numpy(), [energy(c.copy(), 1.5) for c in xs.numpy().T], rtol=1e-14
    )
    table = func.vmap(func.vmap(energy_of, (0, None)), (None, 0))
    expected = [[energy(x, a) for x in xs.numpy()] for a in weights.numpy()]
    np.testing.assert_allclose(table(xs, weights).numpy(), expected, rtol=1e-14)
    got = func.grad(lambda xs, w: table(xs, w).sum(), (0, 1))(xs, weights)
    x, w = xs.numpy(), weights.numpy()
    np.testing.assert_allclose(got[0].numpy(), sum(slope_of_energy(x, a) for a in w), rtol=1e-13)
    np.testing.assert_allclose(
        got[1].numpy(), [np.sum(x**2 * np.cos(a * x)) for a in w], rtol=1e-13
    )
    assert func.vmap(lambda x: relaxed(x, K, 1)[0])(ng.zeros((0, 4))).shape == (0, 4)


def test_jacobians():
    def f(u):
        return relaxed(u, K, 2)[0]

    expected = np.stack([func.jvp(f, (U,), (e,))[1].numpy() for e in ng.eye(5)], 1)
    np.testing.assert_allclose(func.jacrev(f)(U).numpy(), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(func.jacfwd(f)(U).numpy(), expected, rtol=1e-13, atol=1e-15)


def test_recorded_and_compiled():
    def f(x, a):
        return ng.exp(energy_of(x * x, a)) + relaxed(x, a, 2)[1]

    tape = ng.trace(f)(X, A)
    assert [i.op for i in tape.instructions].count("njit_call") == 2
    other = tensor(0.3, 0.2, 0.9)
    np.testing.assert_allclose(tape.replay(other, A).item(), f(other, A).item(), rtol=1e-15)
    np.testing.assert_allclose(ng.compile(f)(other, A).item(), f(other, A).item(), rtol=1e-14)
    slope = ng.compile(func.grad(f))(other, A)
    np.testing.assert_allclose(slope.numpy(), func.grad(f)(other, A).numpy(), rtol=1e-13)
    with ng.Tape(X) as eager:
        energy_of(X, A)
    np.testing.assert_allclose(eager.replay(other).item(), energy(other.numpy(), 1.5), rtol=1e-15)


def test_other_dtypes():
    op = ng.njit.operator(lambda z, s: (z * z * s, s * s))
    z = ng.tensor(np.array([1.0 + 2.0j, 0.5 - 1.0j])).requires_grad_()
    s = ng.tensor(0.7).requires_grad_()
    assert ng.autograd.gradcheck(op, (z, s), check_forward_ad=True)
    assert ng.autograd.gradgradcheck(op, (z, s))
    s32 = ng.tensor(0.7, dtype=ng.float32).requires_grad_()
    product, square = op(tensor(1.0, 2.0, dtype=ng.float32), s32)
    assert (product.dtype, square.dtype) == (ng.float32, ng.float32)
    (g,) = ng.autograd.grad(square, [s32])
    assert g.dtype == ng.float32 and math.isclose(g.item(), 1.4, rel_tol=1e-6)


def test_memory_layouts():
    wide = ng.tensor(np.arange(12.0).reshape(3, 4) / 5).requires_grad_()
    column = wide[:, 1]
    (g,) = ng.autograd.grad(energy_of(column, A), [wide])
    expected = np.zeros((3, 4))
    expected[:, 1] = slope_of_energy(wide.detach().numpy()[:, 1], 1.5)
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-13)
    x = ng.tensor(0.4).requires_grad_()
    (g,) = ng.autograd.grad(energy_of(x.expand(3), A), [x])  # elements of one number
    np.testing.assert_allclose(g.item(), 3 * slope_of_energy(0.4, 1.5), rtol=1e-13)


class DeviceArray:
    """As much of a device array as an error message needs."""

    is_device_array, device = True, "cuda:0"
    shape, ndim, dtype = (3,), 1, ng.float64


@njit
def halves(n, x):
    return x / n, n


def test_constants_of_different_types_are_different():
    op = ng.njit.operator(halves)

    def f(x):
        return op(2, x), op(2.0, x), op(2, x)

    tape = ng.trace(f)(X).simplify()
    assert len(tape.instructions) == 2
    assert [n.dtype for _, n in tape.replay(X)] == [ng.int64, ng.float64, ng.int64]


def test_refusals():
    with pytest.raises(
        ArgumentError,
        match=r"energy: the arguments is 1 by position, \[\] by name; expected those of energy\(x, a\)",
    ):
        energy_of(X)
    with pytest.raises(
        DTypeError,
        match=r"(?s)types of the arguments is \(array\(float64, 2d, C\), float64\).*compiles for",
    ):
        energy_of(ng.zeros((2, 2)), A)
    with pytest.raises(DTypeError, match="argument 'x' is of dtype float16"):
        energy_of(X.to(ng.float16), A)
    with pytest.raises(DTypeError, match="argument 'x' is of dtype int64; expected floating-point"):
        ng.njit.operator(energy, argnums=0)(ng.tensor([1, 2]), A)
    with pytest.raises(DTypeError, match="argument 'x' is list; expected a tensor"):
        energy_of([1.0], A)
    with pytest.raises(DTypeError, match="result of '<lambda>' is unicode_type"):
        ng.njit.operator(lambda x: "text")(X)
    with pytest.raises(DTypeError, match=r"njit\.operator: the function is int"):
        ng.njit.operator(3)
    with pytest.raises(ArgumentError, match="argnums"):
        ng.njit.operator(energy, argnums=2)


def test_a_tensor_on_a_device():
    with pytest.raises(DeviceError, match="energy: argument 'x' is on cuda:0; expected on the CPU"):
        energy_of(ng.Tensor(DeviceArray()), A)
