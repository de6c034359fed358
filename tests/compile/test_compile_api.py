"""Calling compiled functions: structures, static arguments, signatures, captured values, errors, threads."""

import functools
import threading
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import nbgrad as ng
from kernels_cpu import threads
from nbgrad.compiler import RecompilationWarning
from nbgrad.errors import ArgumentError, TraceError

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3))


class Counted:
    """A function that counts how often Python runs it."""

    def __init__(self, fn):
        self.fn = fn
        self.seen = deque()  # a number or a list would be watched: a change means another trace
        self.__name__ = "counted"

    @property
    def calls(self):
        return len(self.seen)

    def __call__(self, *args, **kwargs):
        self.seen.append(None)
        return self.fn(*args, **kwargs)


def same(got, want):
    np.testing.assert_allclose(ng.as_tensor(got).numpy(), ng.as_tensor(want).numpy(), rtol=1e-13)


# -- structures -----------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: ng.Tensor
    second: ng.Tensor


def test_trees_go_in_and_come_out():
    @ng.compile
    def f(state, *rest, scale):
        a, b = state["pair"]
        return {"sum": a + b, "rest": [r * scale for r in rest], "none": None}, Pair(a, -b)

    a, b = ng.ones(2), ng.tensor([3.0, 4.0])
    tree, pair = f({"pair": (a, b), "unused": None}, a, b, scale=ng.tensor(2.0))
    same(tree["sum"], a + b)
    same(tree["rest"][1], 2 * b)
    assert tree["none"] is None and len(tree["rest"]) == 2
    assert isinstance(pair, Pair)
    same(pair.second, -b)


def test_arrays_and_numbers_go_in():
    f = ng.compile(lambda x, s: (x * s).sum())
    assert isinstance(f(X, 2.0), ng.Tensor)
    same(f(X, 2.0), (2 * X).sum())
    same(f(ng.tensor(X), 0.5), (0.5 * X).sum())
    same(ng.compile(lambda z, w: (z * w).imag)(1.0 + 2.0j, np.float64(3.0)), 6.0)


def test_a_float_takes_the_default_dtype_like_a_tensor_of_it():
    f = ng.compile(lambda x, s: x * s)
    assert f(1.5, 2.0).dtype == ng.get_default_dtype()
    assert f(X.astype(np.float32), np.float32(2.0)).dtype == ng.float32


def test_results_may_be_arguments_constants_and_each_other():
    @ng.compile
    def f(x, y):
        z = x + y
        return x, z, z, z.transpose(0, 1), ng.ones(2), z[1:], 3.0

    x = ng.tensor(X)
    got = f(x, x)
    for g, w in zip(got, (x, 2 * x, 2 * x, 2 * x.transpose(0, 1), ng.ones(2), 2 * x[1:], 3.0)):
        same(g, w)
    got[0].zero_()
    got[1].zero_()
    same(x, X)  # results own their memory
    same(got[2], 2 * X)


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float16", "uint8", "int16", "bool"])
def test_values_of_every_dtype_pass_through(dtype):
    x = ng.tensor(np.arange(12).reshape(3, 4) % 5).to(getattr(ng, dtype))
    f = lambda x: (x, x.transpose(0, 1), x[1:, ::2], ng.cat([x, x]), x.reshape(-1).reshape(2, 6))
    for got, want in zip(ng.compile(f)(x), f(x), strict=True):
        assert got.dtype == want.dtype and np.array_equal(got.numpy(), want.numpy())


def test_decorator_with_options_and_methods():
    class Model:
        def __init__(self):
            self.w = ng.tensor([1.0, 2.0])

        @ng.compile(static_argnums=(0, 2))
        def __call__(self, x, power):
            return (self.w * x) ** power

    same(Model.__call__(Model(), ng.ones(2), 2), [1.0, 4.0])
    assert Model.__call__.__name__ == "__call__"


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.asfortranarray(x),
        lambda x: x[::-1],
        lambda x: x[:, ::2],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x[:0],
        lambda x: x[:1],
        lambda x: x[0, 0],
    ],
    ids=["Fortran", "reversed", "steps", "zero strides", "empty", "one row", "0-d"],
)
def test_layouts_and_sizes_of_inputs(make):
    def f(x):
        y = ng.tanh(x) * 2
        return y, y.sum(), (y * y).mean() if x.numel() else y.sum()

    x = ng.from_numpy(np.asarray(make(X)))
    for got, want in zip(ng.compile(f)(x), f(x), strict=True):
        assert got.shape == want.shape
        same(got, want)


# -- signatures -----------------------------------------------------------------------------------------


def test_one_trace_per_signature():
    fn = Counted(lambda x, y: x * y)
    f = ng.compile(fn)
    for k in range(3):
        same(f(X + k, 2.0 * k), (X + k) * 2 * k)
    assert fn.calls == 1
    f(X[:20], 1.0)
    assert fn.calls == 2
    f(X.astype(np.float32), 1.0)
    assert fn.calls == 3
    f(X, y=1.0)  # by name: another structure
    calls = fn.calls
    for args in ((X, 1.0), (X[:20], 1.0), (X.astype(np.float32), 1.0)):
        f(*args)
    f(X, y=2.0)
    assert fn.calls == calls


def test_integers_strings_and_static_arguments_are_part_of_the_signature():
    def power(x, n, mode):
        for _ in range(n):
            x = x * 2 if mode == "double" else -x
        return x

    fn = Counted(power)
    f = ng.compile(fn)
    same(f(X, 2, "double"), 4 * X)
    same(f(X, 3, "double"), 8 * X)
    same(f(X, 3, mode="negate"), -X)
    assert fn.calls == 3
    g = ng.compile(lambda x, how: x * how[1] if how[0] else -x, static_argnums=1)
    same(g(X, (True, 3.0)), 3 * X)
    same(g(X, (False, 3.0)), -X)
    same(g(X, (True, 4.0)), 4 * X)


def test_equal_statics_of_other_types_are_told_apart():
    f = ng.compile(lambda x, k: x * (10 if k is True else 1), static_argnums=1)
    same(f(X, 1), X)
    same(f(X, True), 10 * X)
    g = ng.compile(lambda x, k: x * (10 if k is True else 1))
    same(g(X, 1), X)
    same(g(X, True), 10 * X)


def test_recompiling_again_and_again_warns_with_the_reason():
    f = ng.compile(lambda x: x @ x.T)  # two lengths change
    with pytest.warns(RecompilationWarning, match=r"float64\[\d+, \d+\] to float64\[\d+, \d+\]"):
        for n in range(1, 13):
            f(np.ones((n, n + 1)))
    g = ng.compile(lambda x, k: x * k)
    with pytest.warns(RecompilationWarning, match="Pass numbers that vary as tensors"):
        for k in range(1, 13):
            g(X, k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        h = ng.compile(lambda x, k: x * k)
        for k in range(12):
            h(X, float(k))
        i = ng.compile(lambda x: x + 1)
        for n in range(1, 30):  # one program serves all
            i(np.ones(n))


def test_the_warning_points_at_the_call():
    f = ng.compile(lambda x: x @ x.T)  # two lengths change
    with pytest.warns(RecompilationWarning) as caught:
        for n in range(1, 13):
            f(np.ones((n, n + 1)))
    assert caught[0].filename == __file__


# -- captured values --------------------------------------------------------------------------------


def test_captured_tensors_are_read_at_each_call():
    w = ng.tensor([1.0, 2.0, 3.0])
    fn = Counted(lambda x: (x * w).sum())
    f = ng.compile(fn)
    same(f(X), (X * w.numpy()).sum())
    w.mul_(10.0)
    same(f(X), (X * w.numpy()).sum())
    assert fn.calls == 1


def test_a_captured_view_is_read_at_each_call():
    base = ng.tensor(np.arange(12.0).reshape(3, 4))
    w = base.transpose(0, 1)[1:]
    f = ng.compile(lambda x: (x * w).sum(0))
    x = np.ones((3, 3))
    same(f(x), w.sum(0))
    base.add_(5.0)
    same(f(x), w.sum(0))


def test_a_replaced_captured_tensor_is_noticed():
    box = [ng.tensor([1.0, 2.0, 3.0])]
    f = ng.compile(lambda x: x * box[0])
    same(f(X), X * [1.0, 2.0, 3.0])
    box[0] = ng.tensor([5.0, 5.0, 5.0])
    same(f(X), 5 * X)


class Model:
    def __init__(self):
        self.w, self.k = ng.ones(3), 2.0

    def __call__(self, x):
        return x * self.w * self.k

    def inner(self, x):
        return self(x) + 1


LEVEL = 2.0
WEIGHT = ng.ones(3)


def helper(x):
    return x * LEVEL * WEIGHT


def closure_tensor():
    w = ng.ones(3)

    def change():
        nonlocal w
        w = 5 * w

    return lambda x: x * w, change


def closure_number():
    k = 2.0

    def change():
        nonlocal k
        k = 5.0

    return lambda x: x * k, change


def global_of_a_helper(name):
    def change():
        globals()[name] = 5 * globals()[name]

    return lambda: (lambda x: helper(x), change)


def element_of(box, key, value):
    return lambda: (lambda x: x * box[key], lambda: box.__setitem__(key, value))


def array(convert):
    def make():
        a = np.array([1.0, 2.0, 3.0])
        return lambda x: x * convert(a), lambda: a.__setitem__(1, 7.0)

    return make


def attribute(call, name, value):
    def make():
        m = Model()
        return call(m), lambda: setattr(m, name, value)

    return make


CAPTURES = {
    "closure tensor": closure_tensor,
    "closure number": closure_number,
    "global number of a helper": global_of_a_helper("LEVEL"),
    "global tensor of a helper": global_of_a_helper("WEIGHT"),
    "tensor in a list": element_of([ng.ones(3)], 0, 5 * ng.ones(3)),
    "number in a dict": element_of({"k": 2.0}, "k", 3.0),
    "array": array(lambda a: a),
    "array through tensor()": array(ng.tensor),
    "array through as_tensor()": array(ng.as_tensor),
    "element of an array": array(lambda a: a[1]),
    "attribute tensor of a closure object": attribute(
        lambda m: lambda x: m(x), "w", 5 * ng.ones(3)
    ),
    "attribute tensor of a callable object": attribute(lambda m: m, "w", 5 * ng.ones(3)),
    "attribute number of a callable object": attribute(lambda m: m, "k", 5.0),
    "attribute tensor of a bound method's object": attribute(
        lambda m: m.inner, "w", 5 * ng.ones(3)
    ),
    "attribute number of a bound method's object": attribute(lambda m: m.inner, "k", 5.0),
    "argument of a partial": lambda: (
        lambda k: (functools.partial(lambda k, x: k * x, k), lambda: k.mul_(2.0))
    )(ng.ones(3)),
}


@pytest.mark.parametrize("what", CAPTURES)
def test_no_change_of_what_was_captured_goes_unnoticed(what):
    f, change = CAPTURES[what]()
    c = ng.compile(f)
    same(c(X), f(ng.tensor(X)))
    before = f(ng.tensor(X))
    change()
    assert not ng.allclose(f(ng.tensor(X)), before)
    same(c(X), f(ng.tensor(X)))
    same(c(X), f(ng.tensor(X)))


def test_names_that_share_a_tensor_may_part():
    a = ng.ones(3)
    b = a

    def f(x):
        return x * a + b

    c = ng.compile(f)
    same(c(X), X + 1)
    a = 5 * a
    same(c(X), 5 * X + 1)
    b = a
    same(c(X), 5 * X + 5)


def test_tensors_may_move_from_name_to_name():
    p, q = ng.ones(3), 2 * ng.ones(3)

    def f(x):
        return x * p + 10 * q

    c = ng.compile(f)
    for k in range(4):
        same(c(X), X * p.numpy() + 10 * q.numpy())
        p, q = q, (k + 3) * p


def test_a_training_loop_that_rebinds_its_parameters():
    w = ng.zeros(3)
    target = ng.tensor(X @ np.array([1.0, -2.0, 0.5]))

    def loss(x):
        return ((x @ w - target) ** 2).mean()

    c = ng.compile(loss)
    for _ in range(200):
        w = w.detach().requires_grad_()
        (g,) = ng.autograd.grad(c(X), w)
        w = (w - 0.2 * g).detach()
    same(ng.round(w, decimals=6), [1.0, -2.0, 0.5])


def test_the_default_dtype_is_part_of_the_signature():
    c = ng.compile(lambda x: ng.ones(3) + 0 * x)
    x = np.ones(3, np.float32)
    assert c(x).dtype == ng.float64
    ng.set_default_dtype(ng.float32)
    try:
        assert c(x).dtype == ng.float32
    finally:
        ng.set_default_dtype(ng.float64)


def test_callables_without_a_name():
    same(ng.compile(Model())(X), 2 * X)
    same(ng.compile(functools.partial(np.multiply, 3.0))(X), 3 * X)


def test_captured_tensors_that_require_grad_get_gradients():
    w = ng.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = ng.compile(lambda x: (x * w).sum())
    f(X).backward()
    same(w.grad, X.sum(0))
    with ng.no_grad():
        w *= 2
    y = f(X)
    same(y.detach(), (X * w.detach().numpy()).sum())
    assert y.requires_grad and not f(X).detach().requires_grad


# -- batches of changing size -----------------------------------------------------------------------------

SIZES = [
    (100, 64),
    (64, 64),
    (50, 64),
    (64, 50),
    (0, 64),
    (1, 64),
    (64, 1),
    (128, 128),
    (700, 64),
    (64, 64),
]
BATCHED = {
    "sum of features": lambda x: (ng.tanh(x) * 2).sum(1),
    "sum of rows": lambda x: (ng.tanh(x) * 2).sum(0),
    "elementwise": lambda x: ng.tanh(x) * 2,
    "total": lambda x: (ng.tanh(x) ** 2).sum(),
    "gram": lambda x: x.transpose(0, 1) @ x,
    "pairs": lambda x: ((x.unsqueeze(1) - x[:3]) ** 2).sum(-1),
    "own width": lambda x: (x @ x.transpose(0, 1)).sum(0) if x.shape[0] == x.shape[1] else x.sum(0),
    "number of rows": lambda x: x.sum(0) / (x.shape[0] + 1) + x.shape[1],
    "padded": lambda x: ng.pad(x, (1, 1))[:, :-1].cumsum(1).sum(0),
}


@pytest.mark.filterwarnings("ignore::nbgrad.compiler.RecompilationWarning")
@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_changing_size(name):
    f = BATCHED[name]
    c, g = ng.compile(f), ng.compile(ng.func.grad(lambda x: (f(x) ** 2).sum()))
    for shape in SIZES:
        x = ng.tensor(np.random.default_rng(shape).normal(size=shape))
        np.testing.assert_allclose(c(x).numpy(), f(x).numpy(), rtol=1e-11, atol=1e-11)
        want = ng.func.grad(lambda x: (f(x) ** 2).sum())(x).numpy()
        np.testing.assert_allclose(g(x).numpy(), want, rtol=1e-10, atol=1e-10)


# -- errors --------------------------------------------------------------------------------------------


def branching(x):
    if x.sum() > 0:
        return x
    return -x


def test_python_control_flow_names_the_line_and_the_way_out():
    with pytest.raises(TraceError) as e:
        ng.compile(branching)(X)
    text = str(e.value)
    assert "if x.sum() > 0" in text or "test_compile_api.py" in text
    assert "ng.where" in text


def test_random_numbers_are_refused():
    with pytest.raises(ArgumentError, match="random"):
        ng.compile(lambda x: x + ng.rand(3))(X)


def test_writes_to_arguments_are_refused_and_clones_may_be_written():
    def f(x):
        x[0] = 0.0
        return x

    x = ng.tensor(X)
    with pytest.raises(ArgumentError, match="written in place"):
        ng.compile(f)(x)
    same(x, X)
    same(ng.compile(lambda x: f(x.clone()))(x), f(ng.tensor(X)))
    same(x, X)


def test_writes_to_captured_tensors_are_refused():
    w = ng.zeros(3)

    def f(x):
        w.add_(x.sum(0))
        return x * w

    with pytest.raises(TraceError, match="cannot be written in place"):
        ng.compile(f)(ng.tensor(X))
    same(w, ng.zeros(3))


def test_wrong_options_are_explained():
    with pytest.raises(ArgumentError, match="callable"):
        ng.compile(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="positions >= 0"):
        ng.compile(lambda x: x, static_argnums=-1)
    with pytest.raises(ArgumentError, match="has no hash"):
        ng.compile(lambda x, k: x, static_argnums=1)(X, [1])
    with pytest.raises(ArgumentError, match="positions of the 1 positional"):
        ng.compile(lambda x, k=0: x, static_argnums=1)(X)


def test_an_error_of_the_function_comes_through_and_leaves_no_trace_behind():
    fn = Counted(lambda x, y: x @ y)
    f = ng.compile(fn)
    for _ in range(2):
        with pytest.raises(ng.errors.NbgradError, match="matmul"):
            f(X, X)
    same(f(X, X.T), X @ X.T)
    assert fn.calls == 3


def test_unhashable_leaves_are_explained():
    with pytest.raises(ArgumentError, match="a set, which has no hash"):
        ng.compile(lambda x, s: x)(X, {1, 2})


# -- threads ------------------------------------------------------------------------------------------


def work(x, w):
    h = ng.tanh(x @ w)
    return h, (h * h).sum(0), ng.exp(-h).sum()


def test_results_do_not_depend_on_the_number_of_threads():
    x, w = rng.normal(size=(3000, 8)), rng.normal(size=(8, 8))
    f = ng.compile(work)
    before = threads.get_num_threads()
    try:
        seen = []
        for n in (1, 2, 3, 2):
            threads.set_num_threads(n)
            seen.append([t.numpy() for t in f(x, w)])
    finally:
        threads.set_num_threads(before)
    for other in seen[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(seen[0], other, strict=True))


def test_threads_may_call_one_compiled_function_at_once():
    fn = Counted(work)
    f = ng.compile(fn)
    w = rng.normal(size=(4, 4))
    given = [rng.normal(size=(200, 4)) for _ in range(8)]
    barrier = threading.Barrier(8)

    def call(x):
        barrier.wait()
        for _ in range(20):
            out = f(x, w)
        return out

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, given))
    assert fn.calls == 1
    for x, got in zip(given, results, strict=True):
        for g, e in zip(got, work(ng.tensor(x), ng.tensor(w)), strict=True):
            same(g, e)
