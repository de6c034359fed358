"""``sparse_jacobian``: values, patterns, sweeps, parameters, numbering."""

import numpy as np
import pytest
import scipy.sparse as sp

import nbgrad as ng


def dense(fn, x, *rest):
    x = ng.tensor(x)
    out = ng.func.jacfwd(fn)(x, *rest).numpy()
    return out.reshape(-1, x.numel())


def agrees(fn, x, *rest, nnz=None, sweeps=None, rtol=1e-13):
    """The sparse Jacobian is the dense one, with this many entries and sweeps."""
    J = ng.sparse_jacobian(fn)
    found = J(x, *rest)
    assert isinstance(found, sp.csr_array) and found.has_sorted_indices
    assert np.allclose(found.toarray(), dense(fn, x, *rest), rtol=rtol, atol=1e-14)
    if nnz is not None:
        assert found.nnz == nnz
    if sweeps is not None:
        assert f"sweeps: {sweeps[0]} forward, {sweeps[1]} reverse" in J.explain(x, *rest)
    return J


def rng(seed=0):
    return np.random.default_rng(seed)


def laplacian(u, h):
    return (
        ng.roll(u, 1, 0) + ng.roll(u, -1, 0) + ng.roll(u, 1, 1) + ng.roll(u, -1, 1) - 4 * u
    ) / h**2


def brusselator(w, a=1.0, b=3.4, d=0.002):
    u, v = w[0], w[1]
    h = 1 / w.shape[1]
    uuv = u * u * v
    return ng.stack(
        [a + uuv - (b + 1) * u + d * laplacian(u, h), b * u - uuv + d * laplacian(v, h)]
    )


# -- functions ----------------------------------------------------------------------------------------


def tridiagonal(x):
    return ng.cat([x[:1], x[2:] - 2 * x[1:-1] ** 2 + x[:-2], x[-1:]])


def test_tridiagonal():
    agrees(tridiagonal, rng().normal(size=20), nnz=2 + 3 * 18, sweeps=(3, 0))


def test_brusselator():
    agrees(brusselator, rng().random((2, 7, 7)), nnz=2 * 49 * 6)


def test_the_fields_of_a_grid_of_five_need_few_sweeps():
    J = ng.sparse_jacobian(brusselator)
    x = rng().random((2, 20, 20))
    count = int(J.explain(x).split("sweeps: ")[1].split()[0])
    assert 6 <= count <= 14


def test_upwind_advection():
    def advection(u, c):
        back, on = u - ng.roll(u, 1), ng.roll(u, -1) - u
        return -c * ng.where(c > 0, back, on)

    u, c = rng().normal(size=12), rng(1).normal(size=12)
    agrees(advection, u, ng.tensor(c), nnz=36)
    assert ng.jacobian_sparsity(lambda u: advection(u, ng.tensor(c)), u).nnz == 24


def test_chained_gathers():
    first, second = np.array([3, 1, 1, 5]), np.array([2, 0, 3, 3, 1])

    def fn(x):
        return x[first][ng.tensor(second)] ** 2

    agrees(fn, rng().normal(size=6), nnz=5, sweeps=(1, 0))


def test_an_arrow_takes_two_forward_sweeps_and_one_reverse_sweep():
    def arrow(x):
        return ng.cat([(x**2).sum().reshape(1), x[1:] ** 3 * x[0]])

    n = 40
    J = agrees(arrow, rng().normal(size=n), nnz=n + 2 * (n - 1), sweeps=(2, 1))
    assert "mode: mixed" in J.explain(rng().normal(size=n))


def test_a_gradient_takes_one_reverse_sweep_and_a_curve_one_forward_sweep():
    agrees(lambda x: (x**2).sum(), rng().normal(size=30), nnz=30, sweeps=(0, 1))
    agrees(lambda t: ng.sin(t * ng.arange(1.0, 31.0)), 0.3, nnz=30, sweeps=(1, 0))


def test_empty_rows_and_columns():
    def fn(x):
        return ng.stack([x[0] * x[1], ng.zeros(()), ng.floor(x[2]), x[4].detach() + x[1]])

    J = agrees(fn, rng().normal(size=5), nnz=3)
    assert np.diff(J(rng().normal(size=5)).indptr).tolist() == [2, 0, 0, 1]


def test_rectangular():
    A = sp.random_array((9, 4), density=0.3, random_state=0).toarray()
    agrees(lambda x: ng.tensor(A) @ ng.sin(x), rng().normal(size=4), nnz=np.count_nonzero(A))
    agrees(lambda x: ng.sin(x) @ ng.tensor(A), rng().normal(size=9), nnz=np.count_nonzero(A))


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "mixed"])
def test_sizes_one_and_zero(mode):
    J = ng.sparse_jacobian(lambda x: x**2, mode=mode)
    assert J(np.array([3.0])).toarray().tolist() == [[6.0]]
    assert J(np.array(3.0)).toarray().tolist() == [[6.0]]
    value, none = J.value_and_jacobian(np.zeros(0))
    assert none.shape == (0, 0) and value.shape == (0,)
    assert ng.sparse_jacobian(lambda x: ng.ones(3), mode=mode)(np.ones(2)).nnz == 0
    assert ng.sparse_jacobian(lambda x: x[:0], mode=mode)(np.ones(2)).shape == (0, 2)
    assert ng.sparse_jacobian(lambda x: x.sum() + ng.ones(3), mode=mode)(np.ones(0)).shape == (3, 0)


def test_a_larger_one_against_finite_differences():
    from scipy.optimize._numdiff import approx_derivative

    x = rng().random((2, 16, 16))
    J = ng.sparse_jacobian(brusselator)
    found = J(x)

    def flat(v):
        return brusselator(ng.tensor(v.reshape(x.shape))).numpy().reshape(-1)

    want = approx_derivative(
        flat, x.reshape(-1), method="3-point", sparsity=(found, np.arange(512))
    )
    assert abs(found - want).max() < 1e-6


# -- dtypes and layouts ----------------------------------------------------------------------------------


def test_float32_stays_float32_beside_python_numbers():
    def fn(x, c):
        return c * x * ng.roll(x, 1)

    x = rng().normal(size=8).astype(np.float32)
    found = ng.sparse_jacobian(fn)(x, 0.5)
    assert found.dtype == np.float32
    assert np.allclose(found.toarray(), dense(fn, x, 0.5), rtol=1e-6)


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_holomorphic_functions(mode, dtype):
    def fn(z):
        return ng.exp(1j * z[1:]) * z[:-1] ** 2 + z[1:].sum() * (2 - 1j)

    z = (rng().normal(size=6) + 1j * rng(1).normal(size=6)).astype(dtype)
    found = ng.sparse_jacobian(fn, mode=mode)(z)
    assert found.dtype == dtype
    want = ng.func.jacfwd(fn)(ng.tensor(z)).numpy()
    assert np.allclose(found.toarray(), want, rtol=1e-4 if dtype is np.complex64 else 1e-12)


def test_complex_results_of_real_arguments_go_forward():
    def fn(x):
        return ng.exp(1j * x) * ng.roll(x, 1)

    x = rng().normal(size=5)
    J = ng.sparse_jacobian(fn)
    assert np.allclose(J(x).toarray(), ng.func.jacfwd(fn)(ng.tensor(x)).numpy())
    assert "real part only" in J.explain(x)
    with pytest.raises(ng.errors.DTypeError, match=r"'reverse' for complex results.*'forward' or"):
        ng.sparse_jacobian(fn, mode="reverse")(x)


def test_non_contiguous_and_reversed_inputs():
    base = rng().normal(size=(6, 8))
    for x in (base.T, base[::2, ::-1], np.broadcast_to(base[0], (3, 8))):
        J = ng.sparse_jacobian(lambda x: (x * ng.roll(x, 1, 0)).reshape(-1)[::3])
        assert np.array_equal(J(x).toarray(), J(np.ascontiguousarray(x)).toarray())


# -- structure -------------------------------------------------------------------------------------------


def test_trees_are_numbered_leaf_by_leaf_in_c_order():
    def fn(state):
        return {"b": state["p"][1:] * state["q"].sum(0), "a": (state["q"] ** 2, state["p"][0])}

    tree = {"p": rng().normal(size=4), "q": rng(1).normal(size=(2, 3))}
    J = ng.sparse_jacobian(fn)
    value, found = J.value_and_jacobian(tree)
    tensors = {k: ng.tensor(v) for k, v in tree.items()}
    blocks = ng.func.jacfwd(fn)(tensors)
    rows = [blocks["b"], blocks["a"][0], blocks["a"][1]]
    want = np.vstack(
        [np.hstack([r["p"].reshape(-1, 4).numpy(), r["q"].reshape(-1, 6).numpy()]) for r in rows]
    )
    assert np.allclose(found.toarray(), want)
    assert set(value) == {"a", "b"}
    assert np.allclose(value["a"][0].numpy(), tree["q"] ** 2)


def test_several_argnums_stand_side_by_side():
    def fn(x, k, y):
        return k * x[1:] * y

    x, y = rng().normal(size=4), rng(1).normal(size=3)
    first = ng.sparse_jacobian(fn, 0)(x, 2.0, y).toarray()
    last = ng.sparse_jacobian(fn, -1)(x, 2.0, y).toarray()
    both = ng.sparse_jacobian(fn, (2, 0))(x, 2.0, y).toarray()
    assert np.array_equal(both, np.hstack([last, first]))
    assert np.allclose(last, np.diag(2 * x[1:]))


def test_parameters_are_read_at_every_call():
    J = ng.sparse_jacobian(lambda x, p: p["k"] * x**2)
    x = np.arange(1.0, 4.0)
    for k in (1.0, 2.0, np.array([0.0, 1.0, 5.0])):
        assert np.allclose(J(x, {"k": k}).toarray(), np.diag(2 * x * k))


def test_results_do_not_share_their_pattern():
    J = ng.sparse_jacobian(tridiagonal)
    first = J(np.zeros(6))
    first.eliminate_zeros()
    first.data[:] = 7
    assert np.allclose(J(np.ones(6)).toarray(), dense(tridiagonal, np.ones(6)))


def test_many_sweeps_go_in_chunks(monkeypatch):
    from nbgrad.sparse import sweep

    x = rng().random((2, 6, 6))
    want = ng.sparse_jacobian(brusselator)(x)
    for limit in (1, 40_000, 60_000):
        monkeypatch.setattr(sweep, "MEMORY", limit)
        for mode in ("forward", "reverse", "mixed"):
            assert np.allclose(
                ng.sparse_jacobian(brusselator, mode=mode)(x).toarray(), want.toarray(), rtol=1e-13
            )


# -- found once ------------------------------------------------------------------------------------------


def test_the_function_is_traced_once_a_signature():
    calls = []

    def fn(x):
        calls.append(x.shape)
        return x**2 * ng.roll(x, 1)

    J = ng.sparse_jacobian(fn)
    for k in range(4):
        J(rng(k).normal(size=5))
        J.data(ng.tensor(rng(k).normal(size=5)))
        J.explain(np.zeros(5))
    assert len(calls) == 1
    J(np.zeros(6))
    J(np.zeros(5, np.float32))
    assert len(calls) == 3


def test_a_new_index_array_gives_a_new_pattern():
    J = ng.sparse_jacobian(lambda x, i: x[i] ** 2)
    x = np.arange(1.0, 6.0)
    for places in ([0, 1], [3, 3], [4, 0], [0, 1]):
        i = np.array(places)
        found = J(x, i)
        assert found.nnz == 2
        assert np.allclose(found.toarray(), dense(lambda x, i=i: x[i] ** 2, x))


def test_a_captured_matrix_that_changes_is_noticed():
    A = ng.tensor(np.diag([1.0, 2.0, 3.0]))
    J = ng.sparse_jacobian(lambda x: A @ x)
    assert J(np.ones(3)).nnz == 3
    assert "uses the values of 1 constants" in J.explain(np.ones(3))
    A[0, 2] = 5.0
    assert J(np.ones(3)).toarray().tolist() == [[1, 0, 5], [0, 2, 0], [0, 0, 3]]
    A[2, 0] = 4.0
    assert J(np.ones(3)).toarray().tolist() == [[1, 0, 5], [0, 2, 0], [4, 0, 3]]


def test_captured_arrays_and_numbers_that_change_are_refused():
    A, c = np.eye(3), 2.0
    J = ng.sparse_jacobian(lambda x: x * A[0])
    J(np.ones(3))
    A[0, 1] = 1.0
    with pytest.raises(ng.errors.TraceError, match="captured NumPy array"):
        J(np.ones(3))
    J = ng.sparse_jacobian(lambda x: c * x)
    assert J(np.ones(3)).data.tolist() == [2, 2, 2]
    c = 3.0
    with pytest.raises(ng.errors.TraceError, match="'c' has changed since recording"):
        J(np.ones(3))


def test_parameters_that_require_grad_are_not_relied_on():
    A = ng.tensor(np.eye(3), requires_grad=True)
    J = ng.sparse_jacobian(lambda x: A @ x)
    with ng.no_grad():
        assert J(np.ones(3)).nnz == 9
    assert "values of" not in J.explain(np.ones(3))


def test_it_works_under_no_grad():
    with ng.no_grad():
        assert np.allclose(
            ng.sparse_jacobian(tridiagonal)(np.ones(5)).toarray(), dense(tridiagonal, np.ones(5))
        )


# -- differentiable entries ----------------------------------------------------------------------------------


def test_entries_are_a_differentiable_tensor():
    def fn(x, k):
        return k * x**3 * ng.roll(x, 1)

    J = ng.sparse_jacobian(fn)
    x, k = ng.tensor(rng().normal(size=5)), ng.tensor(1.5)
    assert np.array_equal(J.data(x, k).numpy(), J(x, k).data)

    def energy(x, k):
        return (J.data(x, k) ** 2).sum()

    def reference(x, k):
        return (ng.func.jacfwd(fn)(x, k) ** 2).sum()

    for transform in (ng.func.grad, lambda f: ng.func.hessian(f)):
        for arg in (0, 1):
            got = transform(lambda v, a=arg: energy(*((v, k), (x, v))[a]))((x, k)[arg])
            want = transform(lambda v, a=arg: reference(*((v, k), (x, v))[a]))((x, k)[arg])
            assert np.allclose(got.numpy(), want.numpy(), rtol=1e-11)
    leaf = x.clone().requires_grad_()
    energy(leaf, k).backward()
    assert np.allclose(leaf.grad.numpy(), ng.func.grad(reference)(x, k).numpy())


@pytest.mark.parametrize("mode", ["forward", "reverse", "mixed"])
def test_entries_pass_gradcheck_twice_in_every_mode(mode):
    J = ng.sparse_jacobian(
        lambda x: ng.cat([(ng.sin(x) ** 2).sum().reshape(1), x[1:] * ng.exp(x[:-1])]), mode=mode
    )
    x = ng.tensor(rng().normal(size=4), requires_grad=True)
    assert ng.autograd.gradcheck(J.data, (x,))
    assert ng.autograd.gradgradcheck(J.data, (x,))


def test_entries_can_be_traced_and_batched():
    J = ng.sparse_jacobian(tridiagonal)
    x = rng().normal(size=(3, 5))
    tape = ng.trace(J.data)(x[0])
    got = ng.func.vmap(J.data)(ng.tensor(x)).numpy()
    for k in range(3):
        assert np.array_equal(tape(x[k]).numpy(), J(x[k]).data)
        assert np.allclose(got[k], J(x[k]).data)


def test_inside_an_outer_gradient_over_a_captured_parameter():
    x = ng.tensor(rng().normal(size=4))

    def loss(k):
        return (ng.sparse_jacobian(lambda x: k * x**2).data(x) ** 2).sum()

    k = ng.tensor(1.3)
    assert np.allclose(ng.func.grad(loss)(k).item(), 2 * 1.3 * (4 * x.numpy() ** 2).sum())
