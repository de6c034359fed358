"""``sparse_hessian``: star colouring, exact symmetry, parameters, derivatives of the entries."""

import numpy as np
import pytest

import nbgrad as ng


def rng(seed=0):
    return np.random.default_rng(seed)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def surface(u):
    """The area of a surface over a grid: a nine-point Hessian."""
    a, b = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    return ng.sqrt(1 + a**2 + b**2).sum()


def dense(fn, x, *rest):
    x = ng.tensor(x)
    return ng.func.hessian(fn)(x, *rest).numpy().reshape(x.numel(), x.numel())


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "mixed"])
def test_rosenbrock(mode):
    x = rng().normal(size=30)
    H = ng.sparse_hessian(rosenbrock, mode=mode)
    found = H(x)
    assert found.nnz == 30 + 2 * 29
    assert np.allclose(found.toarray(), dense(rosenbrock, x), rtol=1e-12)


def test_a_star_colouring_saves_sweeps_and_gives_exact_symmetry():
    u = rng().normal(size=(9, 9))
    H = ng.sparse_hessian(surface)
    found = H(u).toarray()
    assert np.array_equal(found, found.T)
    assert np.allclose(found, dense(surface, u), rtol=1e-11, atol=1e-12)
    assert "star colouring" in H.explain(u)

    def sweeps(H):
        return int(H.explain(u).split("sweeps: ")[1].split()[0])

    assert sweeps(H) <= sweeps(ng.sparse_hessian(surface, mode="forward"))


def test_an_arrow_takes_two_sweeps():
    def arrow(x):
        return (x[0] * x[1:] ** 2).sum() + x[0] ** 4

    x = rng().normal(size=50)
    H = ng.sparse_hessian(arrow)
    assert "sweeps: 2 forward, 0 reverse" in H.explain(x)
    assert np.allclose(H(x).toarray(), dense(arrow, x))


def test_the_gradient_comes_with_it():
    x = rng().normal(size=8)
    g, h = ng.sparse_hessian(rosenbrock).gradient_and_hessian(x)
    assert np.allclose(g.numpy(), ng.func.grad(rosenbrock)(ng.tensor(x)).numpy())
    assert h.shape == (8, 8)


def test_trees_argnums_and_parameters():
    def fn(k, p):
        return k * (p["a"] ** 2 * p["b"].sum()).sum() + (p["b"] ** 4).prod()

    tree = {"a": rng().normal(size=3), "b": rng(1).normal(size=(2, 1))}
    H = ng.sparse_hessian(fn, 1)
    for k in (1.0, 2.0):
        g, found = H.gradient_and_hessian(k, tree)
        blocks = ng.func.hessian(fn, 1)(k, {n: ng.tensor(v) for n, v in tree.items()})
        want = np.block(
            [[blocks[r][c].numpy().reshape(tree[r].size, -1) for c in "ab"] for r in "ab"]
        )
        assert np.allclose(found.toarray(), want)
    assert set(g) == {"a", "b"}
    assert H.sparsity(1.0, tree).toarray()[:3, :3].sum() == 3


def test_pattern_of_partially_separable_functions():
    places = np.array([[0, 3], [3, 5], [1, 1]])

    def energy(x):
        a, b = x[places[:, 0]], x[places[:, 1]]
        return (a * b**2).sum() + ng.logsumexp(x[6:], 0)

    pattern = ng.hessian_sparsity(energy, np.zeros(8)).toarray()
    want = np.zeros((8, 8), bool)
    for i, j in ((0, 3), (3, 3), (3, 5), (5, 5), (1, 1), (6, 6), (6, 7), (7, 7)):
        want[i, j] = want[j, i] = True
    assert (pattern | ~want).all()
    assert not pattern[2].any() and not pattern[4].any() and not pattern[:6, 6:].any()
    x = rng().normal(size=8)
    assert np.allclose(ng.sparse_hessian(energy)(x).toarray(), dense(energy, x))


def test_linear_and_empty_functions_have_no_entries():
    assert ng.sparse_hessian(lambda x: (3 * x).sum())(np.ones(4)).nnz == 0
    assert ng.sparse_hessian(lambda x: (x**2).sum())(np.ones(0)).shape == (0, 0)
    assert ng.sparse_hessian(lambda x: x**3)(np.array(2.0)).toarray().tolist() == [[12.0]]


def test_float32():
    found = ng.sparse_hessian(rosenbrock)(np.ones(5, np.float32))
    assert found.dtype == np.float32
    assert np.allclose(found.toarray(), dense(rosenbrock, np.ones(5)))


def test_entries_are_differentiable():
    H = ng.sparse_hessian(lambda x: (x[1:] ** 3 * ng.sin(x[:-1])).sum())
    x = ng.tensor(rng().normal(size=4), requires_grad=True)
    assert ng.autograd.gradcheck(H.data, (x,))
    assert ng.autograd.gradgradcheck(H.data, (x,))


def test_a_larger_one_against_finite_differences():
    from scipy.optimize._numdiff import approx_derivative

    u = rng().normal(size=(15, 15))
    found = ng.sparse_hessian(surface)(u)
    gradient = ng.func.grad(surface)

    def flat(v):
        return gradient(ng.tensor(v.reshape(u.shape))).numpy().reshape(-1)

    want = approx_derivative(
        flat, u.reshape(-1), method="3-point", sparsity=(found, np.arange(225))
    )
    assert abs(found - want).max() < 1e-7


def test_given_patterns_are_checked():
    x = rng().normal(size=6)
    full = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    assert np.allclose(
        ng.sparse_hessian(rosenbrock, sparsity=full)(x).toarray(), dense(rosenbrock, x)
    )
    one_sided = np.triu(full)
    assert np.allclose(
        ng.sparse_hessian(rosenbrock, sparsity=one_sided)(x).toarray(), dense(rosenbrock, x)
    )
    full[1, 2] = full[2, 1] = False
    with pytest.raises(ng.errors.ArgumentError, match=r"sparse_hessian: .*'sparsity' in row [123]"):
        ng.sparse_hessian(rosenbrock, sparsity=full)(x)


def test_mistakes_are_named():
    with pytest.raises(ng.errors.ShapeError, match="one scalar"):
        ng.sparse_hessian(lambda x: x**2)(np.ones(3))
    with pytest.raises(
        ng.errors.DTypeError, match=r"sparse_hessian: .*complex; expected a real one"
    ):
        ng.sparse_hessian(lambda z: (z.abs() ** 2).sum())(np.ones(3) + 0j)
