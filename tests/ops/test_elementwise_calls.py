"""How elementwise operators are called: promotion, weak scalars, names, Python operators, in place, wrong calls."""

import math

import numpy as np
import pytest

import nbgrad as ng

F = ng.nn.functional
INF, NAN = math.inf, math.nan


# -- promotion, weak scalars, names ---------------------------------------------------------------------------


def test_python_scalars_are_weak():
    x = ng.tensor([0.5, 1.5], dtype=ng.float32)
    for got in (
        x + 1, 2.5 * x, x**2, x**0.5, 2**x, x / 3, 1 / x, x // 0.2, x % 0.7, -x, ng.maximum(x, 0.1),
        ng.clamp(x, 0.0, 1.0), ng.where(x > 1, x, 0.0), ng.where(x > 1, 1.0, x), F.leaky_relu(x, 0.1),
        F.softplus(x, 2.0), F.elu(x, 0.3), ng.lerp(x, x, 0.3), ng.hypot(x, 2.0), ng.xlogy(x, 2.0),
        ng.addcmul(x, x, x, value=0.5), ng.polygamma(2, x), ng.round(x, decimals=1), ng.sinc(x),
        ng.nan_to_num(x), x.add(x, alpha=0.5), F.gelu(x), ng.logaddexp(x, 0.1), ng.digamma(x),
    ):  # fmt: skip
        assert got.dtype == ng.float32
    assert (x + 1j).dtype == ng.complex64
    n = ng.tensor([1, 2], dtype=ng.int32)
    assert (n + 1).dtype == ng.int32 and (n + 0.5).dtype == ng.float64
    assert (n / 2).dtype == ng.float64 and (n // 2).dtype == ng.int32
    assert ng.exp(n).dtype == ng.float64 and ng.clamp(n, 0, 1).dtype == ng.int32
    assert (n + x).dtype == ng.float32


def test_float32_gradients_stay_float32():
    x = ng.tensor([0.5, 1.5], dtype=ng.float32, requires_grad=True)
    for fn in (F.gelu, ng.digamma, ng.maximum, F.leaky_relu, ng.tanh, F.hardtanh, ng.atan2):
        y = fn(x, x.detach() * 2) if fn in (ng.maximum, ng.atan2) else fn(x)
        assert ng.autograd.grad(y.sum(), x)[0].dtype == ng.float32


def test_scalar_parameters_do_not_recompile():
    from nbgrad.op import REGISTRY

    x = ng.tensor([0.5, -1.5])
    F.leaky_relu(x, 0.1)
    before = len(REGISTRY["leaky_relu"].kernels)
    for slope in (0.2, 0.3, 0.4):
        np.testing.assert_allclose(F.leaky_relu(x, slope).numpy(), [0.5, -1.5 * slope])
    assert len(REGISTRY["leaky_relu"].kernels) == before


ALIASES = {
    "multiply": "mul", "subtract": "sub", "divide": "div", "negative": "neg", "absolute": "abs",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "clip": "clamp", "fix": "trunc", "sign": "sgn",
    "power": "pow", "mod": "remainder", "conjugate": "conj", "degrees": "rad2deg",
    "radians": "deg2rad", "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
    "greater": "gt", "not_equal": "ne",
}  # fmt: skip


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias):
    assert getattr(ng, alias) is getattr(ng, ALIASES[alias])
    assert getattr(ng.Tensor, alias) is getattr(ng.Tensor, ALIASES[alias])


def test_python_operators():
    a = np.array([-7.5, 2.0, 3.25])
    x = ng.tensor(a)
    pairs = [
        (x // 2, a // 2), (2 // x, 2 // a), (x % 2, a % 2), (5 % x, 5 % a), (x**2, a**2),
        (2**x, 2**a), (1 - x, 1 - a), (1 / x, 1 / a), (+x, a), (-x, -a), (abs(x), np.abs(a)),
        (round(x), np.round(a)), (round(x, 1), np.round(a, 1)), (x > 0, a > 0), (x == 2, a == 2),
        (divmod(x, 2)[0], a // 2), (divmod(x, 2)[1], a % 2), (divmod(9, x)[1], 9 % a),
        (math.floor(x), np.floor(a)), (math.ceil(x), np.ceil(a)), (math.trunc(x), np.trunc(a)),
    ]  # fmt: skip
    for got, want in pairs:
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-15)
    n = ng.tensor([6, 3])
    assert (n & 2).tolist() == [2, 2] and (1 | n).tolist() == [7, 3] and (n ^ 1).tolist() == [7, 2]
    assert (~n).tolist() == [-7, -4] and (2**n).tolist() == [64, 8] and (1 << n).tolist() == [64, 8]
    assert (x == None) is False and (x != "a") is True  # noqa: E711 - Python's own rule for foreign types


def test_in_place_variants():
    x = ng.tensor([4.0, 9.0])
    y = x
    x += 1
    x -= 1
    x *= 2
    x /= 2
    x **= 2
    x //= 3
    x %= 4
    assert y is x and x.tolist() == [1.0, 3.0]
    x.add_(ng.tensor([1.0, 1.0]), alpha=-0.5).clamp_(min=1).sqrt_().neg_().abs_()
    assert x.tolist() == pytest.approx([1.0, math.sqrt(2.5)])
    assert x.addcmul_(x, x, value=0.0).mul_(0).cos_().tolist() == [1.0, 1.0]
    assert x.relu_().sigmoid_().round_().tolist() == [1.0, 1.0]
    n = ng.tensor([1, 2])
    n <<= 2
    n |= 1
    assert n.tolist() == [5, 9]
    with pytest.raises(ng.errors.DTypeError):
        n.div_(2)
    assert n.tolist() == [5, 9]
    leaf = ng.tensor([1.0, -2.0], requires_grad=True)
    z = leaf * 1
    z.exp_().mul_(3.0).clamp_(max=5.0)
    assert ng.autograd.grad(z.sum(), leaf)[0].tolist() == pytest.approx([0.0, 3 * math.exp(-2)])


# -- where, errors, the functional facade -------------------------------------------------------------------


def test_where_with_numbers_and_with_one_argument():
    c = ng.tensor([True, False, True])
    x = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert ng.where(c, 0.5, x).tolist() == [0.5, 2.0, 0.5]
    assert ng.where(c, x, -1).tolist() == [1.0, -1.0, 3.0]
    assert x.where(c, 7.0).tolist() == [1.0, 7.0, 3.0]
    assert ng.where(c, 1, 2).dtype == ng.int64
    (index,) = ng.where(c)
    assert index.tolist() == [0, 2]
    assert ng.autograd.grad(ng.where(c, x, 0.0).sum(), x)[0].tolist() == [1.0, 0.0, 1.0]


WRONG = [
    (lambda: ng.clamp(ng.tensor([1.0])), "clamp: the bounds is None and None"),
    (lambda: ng.div(1.0, ng.tensor([2.0]), rounding_mode="up"), "div: argument 'rounding_mode'"),
    (lambda: ng.tensor([1]) // 0, "floor_divide: an integer divisor is 0"),
    (lambda: ng.tensor([1]) % ng.tensor([0]), "remainder: an integer divisor is 0"),
    (lambda: ng.tensor([2]) ** -1, "pow: the smallest exponent"),
    (lambda: ng.tensor([True]) - ng.tensor([True]), "sub: the operands' dtype is bool"),
    (lambda: -ng.tensor([True]), "neg: the operands' dtype is bool"),
    (lambda: ng.tensor([1], dtype=ng.int8) + 300, "add: argument 1 is 300; expected a number that"),
    (lambda: ng.tensor([1.0]) & 1, "bitwise_and: the operands' dtype"),
    (lambda: ng.tensor([1.0]) << 1, "bitwise_left_shift: the operands' dtype"),
    (lambda: ng.polygamma(-1, ng.tensor([1.0])), "polygamma: argument 'n' is -1"),
    (lambda: ng.gelu(ng.tensor([1.0]), "fast"), "gelu: argument 'approximate'"),
    (lambda: ng.round(ng.tensor([1.0]), decimals=0.5), "round: argument 'decimals'"),
    (lambda: ng.tensor([1.0]) + "a", "add: argument 1 is a str"),
    (lambda: ng.tensor([1.0, 2.0]) + ng.tensor([1.0, 2.0, 3.0]), "add"),
    (lambda: F.mse_loss(ng.zeros(2), ng.zeros(2, 1)), "mse_loss: the target's shape"),
    (lambda: F.l1_loss(ng.zeros(2), ng.zeros(2), "avg"), "l1_loss: argument 'reduction'"),
    (lambda: F.prelu(ng.zeros(2, 3), ng.zeros(2)), "prelu: the number of slopes"),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_wrong_calls_say_what_is_wrong(k):
    call, text = WRONG[k]
    with pytest.raises(ng.errors.NbgradError) as caught:
        call()
    assert text in str(caught.value)


def test_functional_facade():
    x = ng.tensor([[-1.0, 0.5], [2.0, -0.25]], requires_grad=True)
    y = ng.tensor([[0.0, 1.0], [2.0, 2.0]])
    assert float(F.mse_loss(x, y)) == pytest.approx(6.3125 / 4)
    assert float(F.mse_loss(x, y, "sum")) == pytest.approx(6.3125)
    assert float(F.l1_loss(x, y)) == pytest.approx(3.75 / 4)
    np.testing.assert_allclose(
        F.linear(x, y, y[0]).detach().numpy(), x.detach().numpy() @ y.numpy().T + y.numpy()[0]
    )
    z = x * 1
    assert F.relu(z, inplace=True) is z and z.tolist() == [[0.0, 0.5], [2.0, 0.0]]
    assert F.prelu(x, ng.tensor([0.1, 0.2])).tolist() == [[-0.1, 0.5], [2.0, -0.05]]
    doubled = np.log1p(np.exp(2 * x.detach().numpy())) / 2
    np.testing.assert_allclose(F.softplus(x, 2.0).tolist(), doubled, rtol=1e-14)
    assert F.softplus(x, 1, 1).tolist()[1][0] == 2.0
    small = ng.tensor([1, 2], dtype=ng.uint8)
    np.testing.assert_allclose(
        F.softmin(small, 0).tolist(), F.softmax(ng.tensor([2, 1]), 0).tolist()
    )
    p = F.softmax(x, dim=1)
    np.testing.assert_allclose(p.sum(1).tolist(), [1, 1])
    np.testing.assert_allclose(ng.log(p).tolist(), F.log_softmax(x, dim=1).tolist())
    unit = F.normalize(x, dim=1)
    np.testing.assert_allclose((unit * unit).sum(1).tolist(), [1, 1])


def test_closeness():
    x = ng.tensor([1.0, NAN, INF])
    assert ng.isclose(x, x).tolist() == [True, False, True]
    assert ng.isclose(x, x, equal_nan=True).tolist() == [True, True, True]
    assert ng.allclose(x[:1], x[:1] + 1e-9) and not ng.allclose(x[:1], x[:1] + 1e-3)
    assert ng.equal(x[2:], x[2:]) and not ng.equal(x, x) and not ng.equal(x, x[:1])


def test_python_numbers_stay_weak_in_sums():
    for dtype in (ng.float32, ng.int32, ng.uint8):
        x = ng.ones(3, dtype=dtype)
        for out in (ng.rsub(x, 5), ng.rsub(x, 5, alpha=2), ng.add(x, 3, alpha=2)):
            assert out.dtype == dtype
    x = ng.ones(3, dtype=ng.float32)
    assert ng.rsub(x, 0.5).dtype == ng.sub(x, 0.5, alpha=2).dtype == ng.float32
    assert ng.rsub(x, 0.5).tolist() == [-0.5] * 3 and ng.sub(x, 0.5, alpha=4).tolist() == [-1] * 3
    assert ng.add(ng.ones(2, dtype=ng.int32), 3, alpha=2).tolist() == [7, 7]


def test_pytorchs_keyword_names():
    x, y = ng.tensor([1.0, 2.0, 3.0]), ng.tensor([4.0, 5.0, 6.0])
    calls = {
        "flip": (ng.flip(x, dims=[0]), [3, 2, 1]),
        "arange": (ng.arange(start=1, end=7, step=2), [1, 3, 5]),
        "arange from 0": (ng.arange(end=3), [0, 1, 2]),
        "arange by both": (ng.arange(1, end=4), [1, 2, 3]),
        "swapaxes": (ng.swapaxes(ng.outer(x, vec2=y), axis0=0, axis1=1)[0], [4, 8, 12]),
        "scatter": (x.scatter(0, ng.tensor([1]), value=9.0), [1, 9, 3]),
        "lerp": (ng.lerp(x, end=y, weight=0.5), [2.5, 3.5, 4.5]),
        "exp": (ng.exp(input=x * 0), [1, 1, 1]),
        "mul": (ng.mul(x, other=y), [4, 10, 18]),
        "maximum": (x.maximum(other=y), [4, 5, 6]),
        "complex": (ng.complex(real=x, imag=y), [1 + 4j, 2 + 5j, 3 + 6j]),
    }
    for name, (got, want) in calls.items():
        assert got.tolist() == want, name


def test_dir_lists_only_what_exists():
    assert all(hasattr(ng, name) for name in dir(ng))
