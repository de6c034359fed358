"""Collapsed Taylor mode against ordinary Taylor mode, operation by operation."""

import numpy as np
import pytest
from known_fields import close

import nbgrad as ng
from nbgrad.pde.collapsed import Shape, flat_collapsed
from nbgrad.pde.composition import multiplicity, partitions
from nbgrad.tape.taylor import flat_jet

W = ng.tensor(np.random.default_rng(3).normal(size=(3, 3)))
FIELDS = {
    "sum of everything": lambda x: x + 2 * x - ng.tensor(1.5) * x[..., :1],
    "rank grows": lambda x: ng.tanh(x[..., 0]) + x.sum(-1, keepdim=True) * ng.ones((2, 1, 1)),
    "product": lambda x: x * ng.sin(x) * x[..., :1],
    "quotient": lambda x: x / (2 + ng.cos(x)) + 1 / (x * x + 1),
    "matrix product of moving factors": lambda x: (x[..., None] * x[..., None, :]) @ (x[..., None]),
    "matrix product": lambda x: ng.softplus(x @ W) @ W,
    "powers": lambda x: (x * x + 1) ** 1.5 + x**3 + ng.pow(1 + x * x, x),
    "two moving arguments": lambda x: ng.atan2(x, 2 + x[..., :1]) + ng.hypot(x, x[..., 1:2] + 3),
    "piecewise": lambda x: ng.relu(x) + ng.maximum(x, 0.1 * x) + ng.abs(x) + ng.clamp(x, -0.5, 0.5),
    "where": lambda x: ng.where(x > 0, ng.exp(x), x * x),
    "reductions": lambda x: ng.softmax(x, -1) + x.norm(dim=-1, keepdim=True) + x.prod(-1, keepdim=True),
    "several outputs": lambda x: ng.cat([*ng.linalg.slogdet(ng.eye(3) * 4 + x[..., None] * x[..., None, :])]),
    "in place": lambda x: _written(x),
    "sorting": lambda x: ng.sort(x, -1)[0] * x.cumsum(-1),
    "constant": lambda x: ng.ones((5, 3)) * 2.0,
    "detached": lambda x: x.detach() * ng.exp(x),
    "complex": lambda x: ng.exp(1j * x) * (x + 2j) / (1 + 1j * x),
    "complex modulus": lambda x: ng.abs(x + 1j * ng.exp(x)) + (x * 1j + x * x).real,
    "solve": lambda x: ng.linalg.solve(ng.eye(3) * 3 + x[..., None] * x[..., None, :], x[..., None]),
    "gradient inside": lambda x: ng.func.grad(lambda y: (ng.sin(y) * y * y).sum())(x),
    "vmap inside": lambda x: ng.func.vmap(lambda y: ng.tanh(W @ y) * y.sum())(x),
}  # fmt: skip


def _written(x):
    y = ng.sin(x)
    y[..., 1] = x[..., 0] * y[..., 2]
    y *= x
    return y


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    x = ng.tensor(rng.uniform(0.1, 1, (5, 3)) * rng.choice([-1, 1], (5, 3)))
    return x, ng.tensor(rng.normal(size=(4, 5, 3)))


def every_direction(f, x, v, order):
    """Per direction, coefficients 1 .. K by Taylor mode."""
    rows = [flat_jet(lambda y: [f(y)], [x], [[d, *[None] * (order - 1)]])[1][0] for d in v]
    return [np.stack([r[k].detach().numpy() for r in rows]) for k in range(order)]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", FIELDS)
def test_coefficients_and_sums_are_those_of_taylor_mode(name, order, setting):
    x, v = setting
    f = FIELDS[name]
    want = every_direction(f, x, v, order)
    groups = (((0, 1.0), (1, 1.0), (2, 1.0)), ((0, 2.0), (3, -0.5)), ((1, 1.0),))
    curve = [v, *[None] * (order - 2)] if order > 1 else []
    weighted = [sum(w * v[r] for r, w in g) for g in groups]
    top = ng.stack(weighted) if order == 1 else None
    (jet,) = flat_collapsed(lambda y: [f(y)], [x], [[*curve, top]], Shape((4,) * order, groups))
    assert close(jet.value, f(x))
    for k, (got, row) in enumerate(zip(jet.coefficients, want, strict=True)):
        if k == order - 1:
            row = np.stack([sum(w * row[r] for r, w in g) for g in groups])
        assert close(np.zeros_like(row) if got is None else got, row)


@pytest.mark.parametrize("name", ["matrix product", "reductions", "two moving arguments"])
def test_directions_of_lower_order_drop_out(name, setting):
    x, v = setting
    f = FIELDS[name]
    want = every_direction(f, x, v, 4)
    shape = Shape((4, 3, 3, 2), (((0, 1.0), (1, 3.0)),))
    (jet,) = flat_collapsed(lambda y: [f(y)], [x], [[v, None, None, None]], shape)
    for k in range(3):
        assert close(jet.coefficients[k], want[k][: shape.counts[k]])
    assert close(jet.coefficients[3][0], want[3][0] + 3 * want[3][1])


def test_the_bend_of_the_curve_goes_through_the_jacobian(setting):
    x, v = setting
    f = FIELDS["matrix product"]
    shape = Shape((4, 4), (((0, 1.0), (1, 1.0)), ()))
    (jet,) = flat_collapsed(lambda y: [f(y)], [x], [[v, ng.stack([v[3], v[2]])]], shape)
    want = every_direction(f, x, v, 2)
    assert close(jet.coefficients[1][0], want[1][0] + want[1][1] + want[0][3])
    assert close(jet.coefficients[1][1], want[0][2])


def test_float32_sums_over_directions_accumulate_in_float64():
    n = 20001
    v = np.zeros((n, 1, 1), np.float32)
    v[0], v[1:] = 4096.0, 1.0  # 4096^2 + 1 + 1 + ... loses every 1 in float32
    shape = Shape((n, n), (tuple((r, 1.0) for r in range(n)),))
    x = ng.tensor(np.zeros((1, 1), np.float32))
    (jet,) = flat_collapsed(lambda y: [y * y], [x], [[ng.tensor(v), None]], shape)
    got = jet.coefficients[1]
    assert got.dtype == ng.float32 and got.item() == np.float32(4096.0**2 + n - 1)


def test_zero_wins_where_a_branch_is_masked():
    x = ng.tensor([[-1.0, 2.0]])
    shape = Shape((2, 2, 2), (((0, 1.0), (1, 1.0)),))
    v = ng.tensor(np.eye(2)[:, None, :])
    (jet,) = flat_collapsed(lambda y: [ng.sqrt(ng.relu(y))], [x], [[v, None, None]], shape)
    assert jet.coefficients[0][:, 0, 0].tolist() == [0.0, 0.0]
    assert jet.coefficients[2][0, 0, 0].item() == 0.0


def test_partitions_and_their_multiplicities_make_up_the_bell_numbers():
    assert [len(partitions(k)) for k in range(8)] == [1, 1, 2, 3, 5, 7, 11, 15]
    assert sum(multiplicity(p) for p in partitions(6)) == 2**5  # compositions of 6
