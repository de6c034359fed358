"""Operators on fields with known derivatives, in all ways, and derivatives of the results."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_fields import METHODS, close, gaussian, mlp, network, points, scalar, sines, wave

import nbgrad as ng
from nbgrad import pde

K = np.array([0.7, -1.3, 0.4])


# -- exact values -------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("index", [(), (0,), (2, 2), (0, 1), (0, 1, 1), (0, 1, 2), (0, 0, 1, 2)])
def test_partials_of_a_plane_wave(index, method):
    x = points()
    want = np.prod(K[list(index)]) * wave(K)(x)
    assert close(pde.partial(wave(K), index, method=method)(x), want)


@pytest.mark.parametrize(
    "index", [(0,) * 6, (0, 0, 0, 1, 1, 2), (0, 0, 1, 1, 2, 2), (1, 1, 1, 1, 2)]
)
def test_partials_up_to_order_six(index):
    x = points()
    for method in ("collapsed", "taylor"):
        want = np.prod(K[list(index)]) * wave(K)(x)
        assert close(pde.partial(wave(K), index, method=method)(x), want)


def test_partials_of_a_polynomial():
    def u(x):
        return x[..., 0] ** 3 * x[..., 1] ** 2 + 4 * x[..., 1]

    x = points(d=2)
    a, b = x[:, 0], x[:, 1]
    value, u_y, u_xxy, u_xxxyy, zero = pde.derivatives(
        u, [(1,), (0, 0, 1), (0, 0, 0, 1, 1), (0, 1, 1, 1)], value=True
    )(x)
    assert close(value, u(x)) and close(u_y, 2 * a**3 * b + 4) and close(u_xxy, 12 * a * b)
    assert close(u_xxxyy, np.full(5, 12.0)) and close(zero, np.zeros(5))


@pytest.mark.parametrize("method", METHODS)
def test_laplacians_of_known_fields(method):
    x = points()
    assert close(pde.laplacian(sines, method=method)(x), -3 * sines(x))
    r2 = (x * x).sum(-1)
    assert close(pde.laplacian(gaussian, method=method)(x), (r2 - 3) * gaussian(x))
    assert close(pde.biharmonic(sines, method=method)(x), 9 * sines(x))
    want = (r2 * r2 - 10 * r2 + 15) * gaussian(x)
    assert close(pde.biharmonic(gaussian, method=method)(x), want)


def test_the_biharmonic_in_more_dimensions_goes_through_a_laplacian_of_a_laplacian():
    x = points(d=6)
    collapsed = pde.biharmonic(sines, method="collapsed")
    assert close(collapsed(x), 36 * sines(x))
    assert close(pde.biharmonic(sines, method="taylor")(x), 36 * sines(x))
    # no fourth-order jets: the tape holds fewer operations than those of one order-four jet of 36 directions
    estimate = pde.explain(collapsed, x).rows[0].estimate
    assert estimate < 1 + 3 * 36


@pytest.mark.parametrize("method", METHODS)
def test_gradient_and_hessian_of_the_gaussian(method):
    x = points()
    g = gaussian(x)
    assert close(pde.gradient(gaussian, method=method)(x), -x * g[:, None])
    want = (x[:, :, None] * x[:, None, :] - ng.eye(3)) * g[:, None, None]
    assert close(pde.hessian(gaussian, method=method)(x), want)


@pytest.mark.parametrize("method", METHODS)
def test_vector_operators_of_known_fields(method):
    def swirl(x):
        return ng.stack([x[..., 1] * x[..., 2], x[..., 0] ** 2, x[..., 2] * x[..., 0]], -1)

    x = points()
    a, b, c = x.unbind(-1)
    assert close(pde.divergence(swirl, method=method)(x), a)
    assert close(pde.curl(swirl, method=method)(x), ng.stack([0 * a, b - c, 2 * a - c], -1))
    want = np.zeros((5, 3))
    want[:, 1] = 2
    assert close(pde.vector_laplacian(swirl, method=method)(x), want)
    J = pde.jacobian(swirl, method=method)(x)
    assert J.shape == (5, 3, 3) and close(J[:, 0, 1], c) and close(J[:, 2, 0], c)
    assert close(J, ng.func.vmap(ng.func.jacrev(swirl))(x))


def test_a_tuple_of_components_is_a_vector_field():
    def flow(x, y):
        return -y * x, x * x

    x, y = points(d=2).unbind(-1)
    two = {"argnums": (0, 1)}
    assert close(pde.curl(flow, **two)(x, y), 3 * x)
    assert close(pde.divergence(flow, **two)(x, y), -y)
    u, v = pde.laplacian(flow, **two)(x, y)
    assert close(u, 0 * x) and close(v, 0 * x + 2)

    def field(x, y, z):
        return y * z, x * x, z * x

    a, b, c = points().unbind(-1)
    p, q, r = pde.curl(field, argnums=(0, 1, 2))(a, b, c)
    assert close(p, 0 * a) and close(q, b - c) and close(r, 2 * a - c)


def test_helmholtz_identities_of_a_network():
    x, p = points(), network(m=3)
    rot = pde.curl(lambda x: pde.gradient(scalar)(x, p))(x)
    assert close(rot, np.zeros((5, 3)))
    assert close(pde.divergence(lambda x: pde.curl(mlp)(x, p))(x), np.zeros(5))
    lap = pde.divergence(lambda x: pde.gradient(scalar)(x, p))(x)
    assert close(lap, pde.laplacian(scalar)(x, p))


# -- all ways agree -----------------------------------------------------------------------------------
def variable():
    rng = np.random.default_rng(5)
    c = ng.tensor(rng.normal(size=5))
    return c, ng.tensor(rng.normal(size=(5, 3, 2))), rng.normal(size=(3, 3))


C, SIGMA, MATRIX = variable()
OPERATORS = {
    "partial": lambda u, **o: pde.partial(u, (0, 1, 1), **o),
    "derivatives": lambda u, **o: pde.derivatives(u, [(0,), (1, 2), (0, 0, 2), ()], **o),
    "gradient": pde.gradient,
    "hessian": pde.hessian,
    "laplacian": pde.laplacian,
    "biharmonic": pde.biharmonic,
    "factor": lambda u, **o: pde.weighted_laplacian(u, SIGMA, **o),
    "constant factor": lambda u, **o: pde.weighted_laplacian(u, MATRIX[:, :2], **o),
    "matrix": lambda u, **o: pde.weighted_laplacian(u, matrix=MATRIX, **o),
    "directional": lambda u, **o: pde.directional(u, [1.0, 2.0, -1.0], 3, **o),
    "heat": lambda u, **o: pde.linear_operator(u, {(0,): 1, (1, 1): -0.3, (2, 2): -0.3}, **o),
    "variable": lambda u, **o: pde.linear_operator(
        u, {(0,): 2, (1,): C, (0, 0): C, (1, 1): C, (0, 1): 0.5, (2, 2): 1, (): 3}, **o
    ),
    "third order": lambda u, **o: pde.linear_operator(
        u, {(0,): C, (0, 0, 0): C, (1, 1): C, (0, 1, 2): 0.5, (2, 2): 1, (): C}, **o
    ),
    "complex": lambda u, **o: pde.linear_operator(u, {(0,): 1j, (0, 0): C, (1, 1): 1}, **o),
    "first order": lambda u, **o: pde.linear_operator(u, {(0,): 1, (2,): C}, **o),
    "nothing": lambda u, **o: pde.linear_operator(u, {(0,): 0}, **o),
    "time": lambda u, **o: pde.time_derivative(u, 2, **o),
    "material": lambda u, **o: pde.material_derivative(u, SIGMA[:, :, 1][:, :2], **o),
}


def leaves(r):
    return list(r) if isinstance(r, tuple) else [r]


@pytest.mark.parametrize("u", [scalar, mlp], ids=["scalar", "components"])
@pytest.mark.parametrize("name", OPERATORS)
def test_all_methods_agree(name, u):
    x, p = points(), network()
    want = leaves(OPERATORS[name](u, method="nested")(x, p))
    for method in ("collapsed", "taylor", "forward_over_reverse", "auto"):
        for a, b in zip(leaves(OPERATORS[name](u, method=method)(x, p)), want, strict=True):
            assert close(a, b), method


def test_directional_derivatives_against_nested_reverse_mode_by_hand():
    x, p = points().requires_grad_(), network()
    (g,) = ng.autograd.grad(scalar(x, p).sum(), x, create_graph=True)
    v = ng.tensor([0.5, -1.0, 2.0])
    (gv,) = ng.autograd.grad((g @ v).sum(), x, create_graph=True)
    assert close(pde.directional(scalar, v)(x, p), g @ v)
    assert close(pde.directional(scalar, v, 2)(x, p), gv @ v)
    lap = sum(ng.autograd.grad(g[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(3))
    assert close(pde.laplacian(scalar)(x, p), lap)


def test_a_function_may_give_directions_factors_and_coefficients():
    x, p = points(), network()
    assert close(
        pde.directional(scalar, lambda x, p: x * x, 2)(x, p),
        pde.directional(scalar, x * x, 2)(x, p),
    )
    sigma = x[:, :, None] * ng.tensor([1.0, 2.0])
    assert close(
        pde.weighted_laplacian(scalar, lambda x, p: x[:, :, None] * ng.tensor([1.0, 2.0]))(x, p),
        pde.weighted_laplacian(scalar, sigma)(x, p),
    )
    a = pde.linear_operator(scalar, {(0, 0): lambda x, p: x[:, 0], (): 1})(x, p)
    assert close(a, x[:, 0] * pde.partial(scalar, (0, 0))(x, p) + scalar(x, p))


# -- coordinates --------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(5,), (5, 1), (2, 3), ()])
def test_separate_coordinates(shape, method):
    rng = np.random.default_rng(0)
    t, x = (ng.tensor(rng.normal(size=shape)) for _ in range(2))

    def u(t, x, k):
        return ng.sin(k * x) * ng.exp(-2 * t)

    two = {"argnums": (0, 1), "coords": "tx", "method": method}
    u_t, u_x, u_txx = pde.derivatives(u, ["t", "x", "txx"], **two)(t, x, 3.0)
    assert close(u_t, -2 * u(t, x, 3.0)) and close(u_txx, 18 * u(t, x, 3.0))
    assert close(u_x, 3 * ng.cos(3 * x) * ng.exp(-2 * t))
    heat = pde.linear_operator(u, {"t": 1, "xx": -2 / 9}, **two)(t, x, 3.0)
    assert close(heat, 0 * t)
    varying = pde.linear_operator(u, {"t": x, "xx": t}, **two)(t, x, 3.0)
    assert close(varying, x * u_t - 9 * t * u(t, x, 3.0))


def test_columns_in_and_several_components_out():
    x, p = points(d=2), network(d=2, m=3)

    def u(t, y):
        return mlp(ng.cat([t, y], -1), p)

    t, y = x[:, :1], x[:, 1:]
    got = pde.laplacian(u, argnums=(0, 1))(t, y)
    assert close(got, pde.laplacian(mlp)(x, p))
    for method in METHODS:
        assert close(pde.gradient(u, argnums=(0, 1), method=method)(t, y), pde.gradient(mlp)(x, p))
    c = x[:, 0]
    want = pde.linear_operator(mlp, {(0, 0): c, (1,): c})(x, p)
    assert close(pde.linear_operator(u, {(0, 0): c, (1,): c}, argnums=(0, 1))(t, y), want)


def test_coordinates_may_stand_anywhere_among_the_arguments():
    x, p = points(), network()
    got = pde.laplacian(lambda p, x, scale: scale * scalar(x, p), argnums=1)(p, x, scale=2.0)
    assert close(got, 2 * pde.laplacian(scalar)(x, p))


@pytest.mark.parametrize("method", METHODS)
def test_a_single_point_and_no_points(method):
    p = network()
    x = points()
    one = pde.laplacian(scalar, method=method)(x[2], p)
    assert one.shape == () and close(one, pde.laplacian(scalar)(x, p)[2])
    assert pde.hessian(mlp, method=method)(x[2], p).shape == (2, 3, 3)
    none = ng.zeros((0, 3))
    assert pde.hessian(mlp, method=method)(none, p).shape == (0, 2, 3, 3)
    assert pde.laplacian(scalar, method=method)(none, p).shape == (0,)
    grid = points(6).reshape(2, 3, 3)
    assert close(
        pde.laplacian(scalar, method=method)(grid, p).reshape(6),
        pde.laplacian(scalar)(points(6), p),
    )


def test_constant_and_linear_fields_have_vanishing_derivatives():
    x = points()
    assert close(pde.laplacian(lambda x: ng.ones(5))(x), np.zeros(5))
    for method in METHODS:
        assert close(pde.hessian(lambda x: x @ ng.ones(3), method=method)(x), np.zeros((5, 3, 3)))


def test_numpy_arrays_and_lists_are_coordinates_too():
    assert close(pde.laplacian(sines)(np.array([[0.3, 0.4]])), -2 * sines(ng.tensor([[0.3, 0.4]])))


# -- dtypes -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_float32_stays_float32(method):
    x, p = points(dtype=np.float32), network(dtype=np.float32)
    got = pde.laplacian(scalar, method=method)(x, p)
    assert got.dtype == ng.float32
    want = pde.laplacian(scalar)(points(), network())
    assert close(got.to(ng.float64), want, 1e-5)
    c = ng.tensor(np.ones(5))  # coefficients take the coordinates' precision
    for terms in ({(0,): c, (1, 1): 2.0}, {(0, 0): c}, {(): c}):
        assert pde.linear_operator(scalar, terms, method=method)(x, p).dtype == ng.float32


@pytest.mark.parametrize("method", METHODS)
def test_a_complex_field_of_real_coordinates(method):
    k = ng.tensor(K)

    def psi(x):
        return ng.exp(1j * (x @ k)) * (1 + x[..., 0])

    x = points()
    real, imag = (
        pde.hessian(lambda x, part=part: getattr(psi(x), part))(x) for part in ("real", "imag")
    )
    assert close(pde.hessian(psi, method=method)(x), real + 1j * imag)
    plane = lambda x: ng.exp(1j * (x @ k))
    assert close(pde.biharmonic(plane, method=method)(x), (K @ K) ** 2 * plane(x))
    schroedinger = pde.linear_operator(plane, {(0,): 1j, (1, 1): 0.5}, method=method)(x)
    assert close(schroedinger, (-K[0] - 0.5 * K[1] ** 2) * plane(x))


# -- derivatives of the results ------------------------------------------------------------------------
SMOOTH = ["derivatives", "laplacian", "biharmonic", "factor", "matrix", "variable", "material"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_with_respect_to_parameters_and_points(name, method):
    """Reverse mode through the operator, and again: against the nested way and against differences."""
    if name == "biharmonic" and method == "forward_over_reverse":
        method = "taylor"  # sixth derivatives by nesting take long
    x, p = points(), network(width=4)

    def loss(x, p, method=method):
        return sum((r * r).mean() for r in leaves(OPERATORS[name](scalar, method=method)(x, p)))

    gx, gp = ng.func.grad(loss, (0, 1))(x, p)
    rng = np.random.default_rng(2)
    dx, dp = ng.tensor(rng.normal(size=x.shape)), [ng.tensor(rng.normal(size=w.shape)) for w in p]
    _, slope = ng.func.jvp(loss, (x, p), (dx, dp))
    dot = (gx * dx).sum() + sum((a * b).sum() for a, b in zip(gp, dp, strict=True))
    assert close(dot, slope, 1e-9)
    h = 1e-5
    up, down = (
        loss(x + s * dx, [w + s * d for w, d in zip(p, dp, strict=True)], "taylor").item()
        for s in (h, -h)
    )
    assert abs(slope.item() - (up - down) / (2 * h)) < 1e-6 * (1 + abs(slope.item()))


def test_second_derivatives_of_a_residual():
    x, p = points(), network(width=3)

    def loss(w):
        return ng.square(pde.laplacian(scalar)(x, [w, *p[1:]]) + 1).mean()

    def nested(w):
        return ng.square(pde.laplacian(scalar, method="nested")(x, [w, *p[1:]]) + 1).mean()

    assert close(ng.func.hessian(loss)(p[0]), ng.func.hessian(nested)(p[0]), 1e-9)


def test_backward_and_create_graph_through_an_operator():
    x, p = points().requires_grad_(), [w.requires_grad_() for w in network()]
    lap = pde.laplacian(scalar)(x, p)
    (third,) = ng.autograd.grad(lap.sum(), x, create_graph=True)
    want = pde.partial(scalar, (0, 0, 1))(x, p) + pde.partial(scalar, (1, 1, 1))(x, p)
    want = want + pde.partial(scalar, (1, 2, 2))(x, p)
    assert close(third[:, 1], want)
    third.square().sum().backward()
    assert all(w.grad is not None and w.grad.abs().sum() > 0 for w in p[:1])


def test_gradients_with_respect_to_coefficients_and_directions():
    x, p = points(), network()
    nu = ng.tensor(0.3, requires_grad=True)
    r = pde.linear_operator(scalar, {(0,): 1, (1, 1): -nu, (2, 2): -nu})(x, p)
    (g,) = ng.autograd.grad(r.sum(), nu)
    u_yy, u_zz = pde.derivatives(scalar, [(1, 1), (2, 2)])(x, p)
    assert close(g, -(u_yy + u_zz).sum())
    v = ng.tensor(K, requires_grad=True)
    (g,) = ng.autograd.grad(pde.directional(scalar, v, 2)(x, p).sum(), v)
    assert close(g, 2 * (pde.hessian(scalar)(x, p) @ v.detach()).sum(0))


# -- traces, vmap -------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SMOOTH)
def test_traced_and_replayed_on_other_values(name, method):
    x, p = points(), network()
    tape = ng.trace(OPERATORS[name](scalar, method=method))(x, p)
    y, q = points(seed=7), network(seed=8)
    for t in (tape, tape.simplify()):
        got = leaves(t.replay(y, q))
        for a, b in zip(got, leaves(OPERATORS[name](scalar)(y, q)), strict=True):
            assert close(a, b)


def test_the_gradient_of_a_traced_residual():
    x, p = points(), network()

    def loss(w, x):
        return ng.square(pde.laplacian(scalar)(x, [w, *p[1:]])).mean()

    tape = ng.trace(loss)(p[0], x).grad()
    assert close(tape.run([p[0], x])[0], ng.func.grad(loss)(p[0], x))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["derivatives", "laplacian", "hessian", "directional", "heat"])
def test_vmap_over_points_and_over_parameters(name, method):
    x, p = points(), network()
    op = OPERATORS[name](scalar, method=method)
    want = leaves(op(x, p))
    got = leaves(ng.func.vmap(op, in_dims=(0, None))(x, p))
    for a, b in zip(got, want, strict=True):
        assert close(a, b)
    many = [ng.stack([w, 2 * w]) for w in p]
    both = leaves(ng.func.vmap(op, in_dims=(None, 0))(x, many))
    for a, b in zip(both, want, strict=True):
        assert close(a[0], b)


def test_operators_nest():
    x = points()
    inner = pde.laplacian(sines, method="nested")
    for method in METHODS:
        assert close(pde.laplacian(inner, method=method)(x), 9 * sines(x))


# -- identities ---------------------------------------------------------------------------------------
NUMBERS = st.floats(-2, 2, allow_nan=False)
INDICES = st.lists(st.integers(0, 2), min_size=0, max_size=4).map(tuple)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    st.dictionaries(INDICES.map(lambda a: tuple(sorted(a))), NUMBERS, min_size=1, max_size=4),
    NUMBERS,
)
def test_a_linear_operator_is_linear(terms, a):
    x = points(3)
    both = pde.linear_operator(lambda x: sines(x) + a * gaussian(x), terms)(x)
    one, two = (pde.linear_operator(u, terms)(x) for u in (sines, gaussian))
    assert close(both, one + a * two)
    plain = sum(c * pde.partial(sines, i)(x) for i, c in terms.items())
    assert close(one, plain)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_the_product_rule_of_the_laplacian(d, seed):
    x = points(4, d, seed)
    product = pde.laplacian(lambda x: sines(x) * gaussian(x))(x)
    gu, gv = pde.gradient(sines)(x), pde.gradient(gaussian)(x)
    want = gaussian(x) * pde.laplacian(sines)(x) + sines(x) * pde.laplacian(gaussian)(x)
    assert close(product, want + 2 * (gu * gv).sum(-1))


def test_the_hessian_is_symmetric_and_its_trace_the_laplacian():
    x, p = points(), network()
    H = pde.hessian(mlp)(x, p)
    assert close(H, H.transpose(-1, -2))
    assert close(sum(H[..., i, i] for i in range(3)), pde.laplacian(mlp)(x, p))
    assert close(
        sum(float(MATRIX[i, j]) * H[..., i, j] for i, j in itertools.product(range(3), repeat=2)),
        pde.weighted_laplacian(mlp, matrix=MATRIX)(x, p),
    )


def test_the_operator_keeps_the_name_of_the_field():
    op = pde.laplacian(gaussian)
    assert op.__name__ == "gaussian" and "laplacian of gaussian" in repr(op)
