"""Given patterns and colourings, explanations, and what mistakes are answered with."""

import numpy as np
import pytest
import scipy.sparse as sp

import nbgrad as ng


def rng(seed=0):
    return np.random.default_rng(seed)


def tridiagonal(x):
    return ng.cat([x[:1], x[2:] - 2 * x[1:-1] ** 2 + x[:-2], x[-1:]])


def dense(fn, x):
    return ng.func.jacfwd(fn)(ng.tensor(x)).numpy()


# -- the user's own pattern and colours -----------------------------------------------------------------------


def test_a_given_pattern_may_be_larger():
    x = rng().normal(size=6)
    want = dense(tridiagonal, x)
    band = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 2
    for given in (band, sp.csr_array(band), sp.coo_array(band.astype(float)), np.ones((6, 6))):
        found = ng.sparse_jacobian(tridiagonal, sparsity=given)(x)
        assert found.nnz == np.count_nonzero(given.toarray() if sp.issparse(given) else given)
        assert np.allclose(found.toarray(), want)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_a_pattern_that_lacks_entries_is_found_out(mode):
    band = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    band[2, 3] = False
    J = ng.sparse_jacobian(tridiagonal, sparsity=band, mode=mode)
    for _ in range(2):  # and again at the next call
        with pytest.raises(
            ng.errors.ArgumentError, match=r"sparse_jacobian: .*'sparsity' in row 2"
        ):
            J(rng().normal(size=6))
        with pytest.raises(ng.errors.ArgumentError, match=r"'sparsity' in row 2 is incomplete"):
            J.data(ng.tensor(rng().normal(size=6), requires_grad=True))


def test_a_given_colouring_is_used_and_checked():
    x = rng().normal(size=6)
    J = ng.sparse_jacobian(tridiagonal, coloring=np.arange(6) % 3)
    assert np.allclose(J(x).toarray(), dense(tridiagonal, x))
    assert "your colouring" in J.explain(x)
    rows = ng.sparse_jacobian(tridiagonal, coloring=np.arange(6), mode="reverse")
    assert np.allclose(rows(x).toarray(), dense(tridiagonal, x))
    with pytest.raises(ng.errors.ArgumentError, match="columns 0 and 2, which meet in row 1"):
        ng.sparse_jacobian(tridiagonal, coloring=np.arange(6) % 2)(x)
    with pytest.raises(ng.errors.ArgumentError, match="6 non-negative integers, one a column"):
        ng.sparse_jacobian(tridiagonal, coloring=np.arange(5))(x)


# -- messages --------------------------------------------------------------------------------------------------


def test_the_explanation_names_size_sweeps_and_operators_without_rule():
    J = ng.sparse_jacobian(tridiagonal)
    text = J.explain(np.ones(50))
    for words in (
        "50 x 50, 146 entries (5.84 %)",
        "3 forward, 0 reverse",
        "cheapest",
        "longest row",
    ):
        assert words in text, text


class Cubed(ng.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


def test_an_operator_without_rule_is_dense_and_named():
    J = ng.sparse_jacobian(lambda x: Cubed.apply(x), mode="reverse")
    assert J(np.ones(3)).toarray().tolist() == [[3, 0, 0], [0, 3, 0], [0, 0, 3]]
    assert "taken as dense" in J.explain(np.ones(3))


def test_where_a_derivative_would_be_lost_it_points_to_products_and_data():
    J = ng.sparse_jacobian(tridiagonal)
    x, k = ng.ones(5), ng.tensor(1.0)

    def captures(k):
        return ng.sparse_jacobian(lambda x: k * x)(x).sum()

    words = r"sparse_jacobian: an argument or captured tensor is .*data\(x\).*func.jvp"
    for call in (
        lambda: ng.trace(J)(x),
        lambda: ng.trace(captures)(k),
        lambda: ng.trace(lambda y: J(x).sum() * y)(k),
        lambda: ng.func.vmap(J)(ng.ones(2, 5)),
        lambda: ng.func.jvp(J, (x,), (x,)),
    ):
        with pytest.raises(ng.errors.TraceError, match=words):
            call()
    for call in (
        lambda: ng.func.grad(lambda x: J(x).sum())(x),
        lambda: ng.func.grad(captures)(k),
        lambda: J(x.clone().requires_grad_()),
        lambda: captures(k.clone().requires_grad_()),
    ):
        with pytest.raises(ng.errors.ArgumentError, match=words + r".*no_grad\(\)"):
            call()
    with ng.no_grad():
        assert J(x.clone().requires_grad_()).nnz == 11


def test_mistakes_are_named():
    with pytest.raises(ng.errors.ArgumentError, match=r"'mode' is 'both'.*auto, forward, reverse"):
        ng.sparse_jacobian(tridiagonal, mode="both")
    with pytest.raises(ng.errors.ArgumentError, match="the function is 3"):
        ng.sparse_jacobian(3)
    with pytest.raises(ng.errors.ArgumentError, match="'sparsity' of shape"):
        ng.sparse_jacobian(tridiagonal, sparsity=np.ones((3, 4)))(np.ones(5))
    with pytest.raises(ng.errors.DTypeError, match=r"sparse_jacobian: .*int64"):
        ng.sparse_jacobian(tridiagonal)(np.arange(5))
    with pytest.raises(ng.errors.DTypeError, match="the function's result is bool"):
        ng.sparse_jacobian(lambda x: x > 0)(np.ones(5))
    with pytest.raises(ng.errors.DTypeError, match="holomorphic"):
        ng.sparse_jacobian(lambda z: z * z.conj())(np.ones(3) + 1j)
    with pytest.raises(ng.errors.DTypeError, match="holomorphic"):
        ng.sparse_jacobian(lambda z: z.abs()).data(ng.ones(3) + 1j)
    with pytest.raises(ng.errors.ArgumentError, match="argnums"):
        ng.sparse_jacobian(tridiagonal, 1)(np.ones(5))
