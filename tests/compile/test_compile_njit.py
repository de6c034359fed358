"""Compiled programs inside the user's Numba code: @njit, prange, nogil threads, @cfunc."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from numba import njit, prange

import nbgrad as ng
from nbgrad.errors import ArgumentError, UnsupportedError

F = ng.func
rng = np.random.default_rng(2)


def f(x, w):
    """A vector of losses and their sum."""
    losses = (ng.tanh(x @ w) ** 2).sum(1)
    return losses, losses.sum()


X, W = rng.normal(size=(40, 3)), rng.normal(size=(3, 5))
WANT = [t.numpy() for t in f(ng.tensor(X), ng.tensor(W))]


@pytest.fixture(scope="module")
def program():
    return ng.compile(f).program(X, W)


# -- njit ------------------------------------------------------------------------------------------------


def test_called_from_python_and_from_numba(program):
    fn = program.njit

    @njit
    def user(x, w):
        losses, total = fn(x, w)
        return losses.sum() - total, losses

    losses, total = fn(X, W)
    assert isinstance(total, float) and isinstance(losses, np.ndarray)
    np.testing.assert_allclose(losses, WANT[0], rtol=1e-14)
    difference, losses = user(X, W)
    assert abs(difference) < 1e-12
    np.testing.assert_allclose(losses, WANT[0], rtol=1e-14)


def test_scalars_in_and_out():
    """Newton's method on the gradient of a function of three numbers, all inside njit."""

    def energy(a, b, c):
        return ng.exp(a) - 2 * a + (b - a) ** 2 + ng.cosh(c - b)

    newton = ng.compile(lambda a, b, c: sum(map(tuple, hessian_rows(energy, a, b, c)), ()))
    derivative = newton.program(0.0, 0.0, 0.0).njit

    @njit
    def solve(a, b, c):
        g, h = np.empty(3), np.empty((3, 3))
        for _ in range(20):
            r = derivative(a, b, c)
            for i in range(3):
                g[i] = r[4 * i]
                for j in range(3):
                    h[i, j] = r[4 * i + 1 + j]
            s = np.linalg.solve(h, g)
            a, b, c = a - s[0], b - s[1], c - s[2]
        return a, b, c

    np.testing.assert_allclose(solve(0.1, 0.5, -0.5), np.log(2.0), atol=1e-12)


def hessian_rows(fn, *xs):
    """For each argument the derivative, and its derivatives."""
    for i in range(len(xs)):
        g = F.grad(fn, i)
        yield [g(*xs), *F.grad(g, tuple(range(len(xs))))(*xs)]


def test_a_single_number_comes_back_as_a_number():
    fn = ng.compile(lambda x: (x * x).sum()).program(np.ones(4)).njit
    assert fn(np.arange(4.0)) == 14.0
    square = ng.compile(lambda s: s * s).program(3.0).njit
    assert square(3.0) == 9.0 and square(3) == 9.0 and square(np.float64(0.5)) == 0.25


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "bool"])
def test_other_dtypes(dtype):
    x = (rng.normal(size=(6, 4)) * 3).astype(dtype)
    fn = lambda x: (x.transpose(0, 1), ng.where(x > 0, x, x), x.reshape(-1)[2:])
    got = ng.compile(fn).program(x).njit(x)
    for g, w in zip(got, fn(ng.tensor(x)), strict=True):
        assert g.dtype == w.numpy().dtype and np.array_equal(g, w.numpy())


def test_captured_tensors_are_read_where_they_are():
    w = ng.tensor([1.0, 2.0, 3.0])
    fn = ng.compile(lambda x: (x * w).sum()).program(np.ones(3)).njit

    @njit
    def user(x):
        return fn(x)

    assert user(np.ones(3)) == 6.0
    w.mul_(2.0)
    assert user(np.ones(3)) == 12.0


def test_captured_views_are_refused():
    """Only an address is kept, so the captured memory must be the array itself."""
    w = ng.tensor(np.arange(12.0).reshape(3, 4)).transpose(0, 1)[1:, ::2]
    program = ng.compile(lambda x: x + w).program(np.zeros((3, 2)))
    for door in ("njit", "njit_into"):
        with pytest.raises(
            ArgumentError, match=r"captured tensor of shape \(3, 2\).*contiguous\(\)"
        ):
            getattr(program, door)


def test_gradients_are_programs_too():
    loss = lambda x, w: f(x, w)[1]
    program = ng.compile(F.grad_and_value(loss, 1)).program(X, W)
    gradient, value = program.njit(X, W)
    np.testing.assert_allclose(value, WANT[1], rtol=1e-13)
    want = F.grad(loss, 1)(ng.tensor(X), ng.tensor(W)).numpy()
    np.testing.assert_allclose(gradient, want, rtol=1e-12)


def test_large_programs_with_matrix_products_and_loops():
    """Above the size at which Python hands products to BLAS, and with a workspace too large for the stack."""
    x, w = rng.normal(size=(600, 70)), rng.normal(size=(70, 70)) * 0.1

    def deep(x, w):
        h = ng.tanh(x @ w)
        g = h.transpose(0, 1) @ h / 600
        return ng.softmax(g @ g, 0), (h @ g).sum()

    got = ng.compile(deep).program(x, w).njit(x, w)
    for g, e in zip(got, deep(ng.tensor(x), ng.tensor(w)), strict=True):
        np.testing.assert_allclose(g, e.numpy(), rtol=1e-11, atol=1e-13)


def test_empty_arrays():
    fn = lambda x: ((x * 2).sum(0), x + 1)
    x = np.zeros((0, 3))
    try:
        got = ng.compile(fn).program(x).njit(x)
    except UnsupportedError as e:
        assert "no native code" in str(e)
    else:
        assert np.array_equal(got[0], np.zeros(3)) and got[1].shape == (0, 3)


# -- into given arrays ---------------------------------------------------------------------------------


def test_into_given_arrays_without_allocation(program):
    into, space = program.njit_into, program.workspace()

    @njit
    def repeat(x, w, losses, total, space):
        worst = 0
        for k in range(5):
            x[0, 0] = k
            worst = min(worst, into(x, w, losses, total, space))
        return worst

    x, losses, total = X.copy(), np.empty(40), np.empty(1)
    assert repeat(x, W, losses, total, space) == 0
    want = f(ng.tensor(x), ng.tensor(W))
    np.testing.assert_allclose(losses, want[0].numpy(), rtol=1e-14)
    np.testing.assert_allclose(total[0], want[1].item(), rtol=1e-13)


def test_into_reports_wrong_sizes_by_status(program):
    into, space = program.njit_into, program.workspace()
    losses, total = np.full(40, 7.0), np.full(1, 7.0)
    assert into(X[:39].copy(), W, losses, total, space) == -1
    assert into(X, W[:, :4].copy(), losses, total, space) == -2
    assert into(X, W, losses[:39].copy(), total, space) == -3
    assert into(X, W, losses, total[:0], space) == -4
    assert into(X, W, losses, total, space[:0]) == (0 if space.size <= 1 else -5)
    if space.size > 1:
        assert (losses == 7.0).all() and total[0] == 7.0  # nothing was computed
    assert into(X, W, losses, total, space) == 0


def test_prange_with_a_workspace_for_each_thread(program):
    into = program.njit_into
    batches = rng.normal(size=(24, 40, 3))
    n = numba.get_num_threads()
    spaces = np.zeros((n, program.workspace().size + 64), np.uint8)

    @njit(parallel=True)
    def run(batches, w, losses, totals, spaces):
        for i in prange(batches.shape[0]):
            space = spaces[numba.get_thread_id()]
            into(batches[i], w, losses[i], totals[i], space)

    losses, totals = np.empty((24, 40)), np.empty((24, 1))
    run(batches, W, losses, totals, spaces)
    for x, a, b in zip(batches, losses, totals, strict=True):
        want = f(ng.tensor(x), ng.tensor(W))
        np.testing.assert_allclose(a, want[0].numpy(), rtol=1e-14)
        np.testing.assert_allclose(b[0], want[1].item(), rtol=1e-13)


def test_the_allocating_function_in_prange(program):
    fn = program.njit
    batches = rng.normal(size=(16, 40, 3))

    @njit(parallel=True)
    def run(batches, w):
        out = np.empty(batches.shape[0])
        for i in prange(batches.shape[0]):
            out[i] = fn(batches[i], w)[1]
        return out

    want = [f(ng.tensor(x), ng.tensor(W))[1].item() for x in batches]
    np.testing.assert_allclose(run(batches, W), want, rtol=1e-13)


def test_threads_without_the_gil(program):
    into = program.njit_into

    @njit(nogil=True)
    def run(x, w, losses, total, space, repeats):
        for _ in range(repeats):
            into(x, w, losses, total, space)

    def job(k):
        x = X + k
        losses, total = np.empty(40), np.empty(1)
        run(x, W, losses, total, program.workspace(), 200)
        return x, total[0]

    with ThreadPoolExecutor(4) as pool:
        for x, total in pool.map(job, range(8)):
            np.testing.assert_allclose(total, f(ng.tensor(x), ng.tensor(W))[1].item(), rtol=1e-13)


# -- cfunc -----------------------------------------------------------------------------------------------


def test_quadrature_of_a_compiled_integrand():
    """The area under a derivative is a difference of the function."""
    fn = lambda x: ng.sin(3 * x) * ng.exp(-x * x)
    slope = ng.compile(F.grad(fn)).program(0.0).njit

    @numba.cfunc("float64(float64)")
    def integrand(x):
        return slope(x)

    call = scipy.LowLevelCallable(integrand.ctypes)
    area, _ = scipy.integrate.quad(call, -0.5, 1.2)
    want = fn(ng.tensor(1.2)) - fn(ng.tensor(-0.5))
    assert abs(area - want.item()) < 1e-12


def test_a_cfunc_over_an_array_of_arguments():
    value = ng.compile(lambda v: ng.exp(-(v * v).sum()) * v[1]).program(np.zeros(2)).njit

    @numba.cfunc("float64(intc, CPointer(float64))")
    def integrand(n, p):
        return value(numba.carray(p, (2,), np.float64))

    call = scipy.LowLevelCallable(
        ctypes.cast(
            integrand.address,
            ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.POINTER(ctypes.c_double)),
        )
    )
    got, _ = scipy.integrate.nquad(call, [[0.0, 1.0], [0.0, 2.0]])
    from math import erf, exp, pi, sqrt

    want = sqrt(pi) / 2 * erf(1.0) * (1 - exp(-4.0)) / 2
    assert abs(got - want) < 1e-10


# -- misuse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, words",
    [
        ((X.astype(np.float32), W), ["argument 0", "float64[40, 3]", "astype"]),
        ((np.asfortranarray(X), W), ["argument 0", "C-contiguous", "ascontiguousarray"]),
        ((X, W[:, ::2]), ["argument 1", "C-contiguous"]),
        ((X, W[0]), ["argument 1", "float64[3, 5]"]),
        ((X, 2.0), ["argument 1", "float64[3, 5]"]),
        ((X, None), ["argument 1", "float64[3, 5]"]),
    ],
)
def test_wrong_types_are_explained_at_compilation(program, args, words):
    fn = program.njit
    with pytest.raises(numba.TypingError) as e:
        fn(*args)
    assert all(w in str(e.value) for w in words), str(e.value)
    with pytest.raises(numba.TypingError) as e:
        njit(lambda *a: fn(*a))(*args)
    assert all(w in str(e.value) for w in words), str(e.value)


def test_wrong_shapes_are_explained_at_the_call(program):
    fn = program.njit
    with pytest.raises(ValueError, match="argument 0 has another shape"):
        fn(X[:39].copy(), W)
    with pytest.raises(ValueError, match="argument 1 has another shape"):
        njit(lambda x, w: fn(x, w)[1])(X, W[:, :4].copy())


def test_wrong_scalars_are_explained():
    fn = ng.compile(lambda s, k: s * k).program(2.0, np.int64(3)).njit
    assert fn(2.0, 3) == 6.0
    with pytest.raises(numba.TypingError, match="argument 1"):
        fn(2.0, 3.5)
    with pytest.raises(numba.TypingError, match="argument 0"):
        fn(1j, 3)


def test_operators_without_native_code_are_named():
    program = ng.compile(lambda x: ng.linalg.inv(x)).program(np.eye(3))
    for door in ("njit", "njit_into"):
        with pytest.raises(UnsupportedError, match=r"no native code for inv"):
            getattr(program, door)
