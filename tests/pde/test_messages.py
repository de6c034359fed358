"""What a user is told who gives the wrong thing."""

import numpy as np
import pytest
from known_fields import mlp, network, points, scalar, sines

import nbgrad as ng
from nbgrad import pde
from nbgrad.errors import ArgumentError, DTypeError, IndexingError, ShapeError

X, P = points(), network()
A, B = X[:, 0], X[:, 1]
S = ng.rand(5, 3, 3)
two = {"argnums": (0, 1)}
CASES = [
    (lambda: pde.laplacian(sines)(ng.tensor(1.0)), ShapeError, ["laplacian", "last axis", "argnums"]),
    (lambda: pde.laplacian(sines)(ng.ones((2, 3), dtype=ng.int64)), DTypeError, ["int64", "real floating"]),
    (lambda: pde.laplacian(sines)(X + 0j), DTypeError, ["complex128", "coordinate"]),
    (lambda: pde.laplacian(lambda x: x > 0)(X), DTypeError, ["result", "bool"]),
    (lambda: pde.laplacian(lambda x: x.sum())(X), ShapeError, ["result", "one value a point", "(5,)"]),
    (lambda: pde.laplacian(lambda x, y: x * y, **two)(A, B[:3]), ShapeError, ["equal shapes"]),
    (lambda: pde.laplacian(lambda x, y: x * y, **two)(A, B.to(ng.float32)), DTypeError, ["one common dtype"]),
    (lambda: pde.laplacian(sines, argnums=3)(X), ArgumentError, ["argnums", "3"]),
    (lambda: pde.laplacian(sines, argnums=())(X), ArgumentError, ["at least one"]),
    (lambda: pde.laplacian(3), ArgumentError, ["argument 'u'", "callable"]),
    (lambda: pde.laplacian(sines, method="fast"), ArgumentError, ["'fast'", "collapsed", "nested"]),
    (lambda: pde.laplacian(sines, coupled="yes"), ArgumentError, ["coupled", "allow"]),
    (lambda: pde.partial(sines, (0, 3))(X), ArgumentError, ["partial", "(0, 3)", "0 to 2"]),
    (lambda: pde.partial(sines, (0, -1))(X), ArgumentError, ["0 to 2"]),
    (lambda: pde.partial(sines, 1.5)(X), ArgumentError, ["multi-index", "1.5"]),
    (lambda: pde.partial(sines, (0, True))(X), ArgumentError, ["multi-index"]),
    (lambda: pde.partial(sines, "xx")(X), ArgumentError, ["coords="]),
    (lambda: pde.partial(sines, "xq", coords="xyz")(X), ArgumentError, ["'q'", "xyz"]),
    (lambda: pde.partial(sines, "x", coords="xy")(X), ArgumentError, ["3 names"]),
    (lambda: pde.derivatives(sines, []), ArgumentError, ["derivatives", "at least one"]),
    (lambda: pde.jacobian(sines)(X), ShapeError, ["jacobian", "gradient"]),
    (lambda: pde.divergence(mlp)(X, P), ShapeError, ["divergence", "3 components"]),
    (lambda: pde.vector_laplacian(mlp)(X, P), ShapeError, ["vector_laplacian", "3 components"]),
    (lambda: pde.curl(lambda x: x)(ng.ones((2, 4))), ArgumentError, ["curl", "2 or 3"]),
    (lambda: pde.directional(sines, [1.0, 2.0])(X), ShapeError, ["'v'", "(3,)", "(5, 3)"]),
    (lambda: pde.directional(sines, np.ones(3) * 1j)(X), DTypeError, ["'v'", "real"]),
    (lambda: pde.directional(sines, [1.0, 0, 0], 0), ArgumentError, ["order", ">= 1"]),
    (lambda: pde.weighted_laplacian(sines), ArgumentError, ["sigma", "matrix", "one of the two"]),
    (lambda: pde.weighted_laplacian(sines, S[0], matrix=S[0]), ArgumentError, ["both given"]),
    (lambda: pde.weighted_laplacian(sines, ng.ones((2, 3)))(X), ShapeError, ["'sigma'", "d = 3"]),
    (lambda: pde.weighted_laplacian(sines, matrix=S[0, :, :2])(X), ShapeError, ["'matrix'", "(d, d)"]),
    (lambda: pde.linear_operator(sines, [(0,)]), ArgumentError, ["{multi-index: coefficient}"]),
    (lambda: pde.linear_operator(sines, {(0, 1): 1, (1, 0): 2})(X), ArgumentError, ["twice", "commute"]),
    (lambda: pde.linear_operator(sines, {(0,): np.ones(4)})(X), ShapeError, ["coefficient", "(4,)", "(5,)"]),
    (lambda: pde.linear_operator(sines, {(0, 0): np.ones((5, 2))})(X), ShapeError, ["coefficient", "(5, 2)"]),
    (lambda: pde.linear_operator(sines, {(0,): "c"})(X), DTypeError, ["coefficient", "str"]),
    (lambda: pde.time_derivative(sines, 0), ArgumentError, ["time_derivative", "order"]),
    (lambda: pde.time_derivative(sines, time=7)(X), ArgumentError, ["time_derivative", "0 to 2"]),
    (lambda: pde.material_derivative(sines, [1.0])(X), ShapeError, ["'velocity'", "(2,)"]),
    (lambda: pde.laplacian(sines, samples=0), ArgumentError, ["samples", ">= 1"]),
    (lambda: pde.laplacian(sines, samples=1, standard_error=True), ArgumentError, ["samples", ">= 2"]),
    (lambda: pde.laplacian(sines, standard_error=True), ArgumentError, ["standard_error", "samples="]),
    (lambda: pde.laplacian(sines, samples=2, distribution="uniform"), ArgumentError, ["rademacher", "sparse"]),
    (lambda: pde.laplacian(sines, samples=2, method="nested"), ArgumentError, ["method", "collapsed"]),
    (lambda: pde.laplacian(sines, samples=2, generator=3)(X), DTypeError, ["Generator"]),
    (lambda: pde.linear_operator(sines, {(0, 0, 0): 1}, samples=2)(X), ArgumentError, ["second order", "3"]),
    (lambda: pde.linear_operator(sines, {(0, 0): 1j}, samples=2)(X), ArgumentError, ["complex", "real"]),
    (lambda: pde.laplacian(scalar)(X), TypeError, ["scalar()"]),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(CASES)))
def test_the_message_says_what_and_what_to_do(i):
    call, kind, words = CASES[i]
    with pytest.raises(kind) as e:
        call()
    missing = [w for w in words if w not in str(e.value)]
    assert not missing, (missing, str(e.value))


def test_columns_refuse_coefficients_that_would_broadcast_to_pairs():
    a, b = A[:, None], B[:, None]
    op = pde.linear_operator(lambda x, t: x * t, {(0, 0): A, (1, 1): 1}, argnums=(0, 1))
    with pytest.raises(ShapeError, match=r"coefficient.*\(5, 1\)"):
        op(a, b)


def test_errors_are_nbgrads_own():
    assert issubclass(pde.CouplingError, ng.errors.NbgradError)
    assert issubclass(IndexingError, ng.errors.NbgradError)
