"""What the Numba door does not cover is refused, with the place, the line's text, and what to write instead."""

import inspect
import re

import numba
import numpy as np
import pytest
from numba import njit

import nbgrad as ng

X = np.array([0.5, 1.5, 2.5])
TABLE = np.array([1.0, 2.0, 3.0])

# --- language: the line at fault is marked "# here" ---------------------------------------------------------------


def self_recursion(x):
    if x < 1.0:
        return x
    return x * self_call(x - 1.0)  # here


self_call = njit(self_recursion)


def ping(x):
    return x if x < 1.0 else pong(x - 1.0)


def pong(x):
    return x * ping(x)  # here


ping, pong = njit(ping), njit(pong)


def mutual_recursion(x):
    return ping(x)


def catches(x):
    try:  # here
        y = x * x
    except Exception:
        y = x
    return y


def appends(x):
    out = []
    out.append(x * x)  # here
    return out[0]


def comprehends(x):
    values = [x * i for i in range(3)]  # here
    return values[1]


def keeps_a_dict(x):
    d = {1: x}  # here
    return d[1]


def keeps_a_set(x):
    s = {x, 2.0 * x}  # here
    return x * len(s)


def formats_text(x):
    name = f"value {x}"  # here
    return x * len(name)


def leaves_to_python(x):
    with numba.objmode(y="float64"):  # here
        y = x * 2.0
    return y


def mutates_a_global(x):
    TABLE[0] = x  # here
    return TABLE[0] * x


def calls_something_unknown(x):
    return x * np.frombuffer(b"12345678", np.float64)[0]  # here


def generates(x):
    yield x  # here
    yield x * x


def sums_a_generator(x):
    s = 0.0
    for v in njit_generates(x):
        s += v
    return s


njit_generates = njit(generates)


def defines_a_compiled_function(x):
    @njit  # here
    def inner(v):
        return v * v

    return inner(x)


def defines_a_class(x):
    class Inner:  # here
        pass

    return x


def writes_into_a_list(x):
    values = [x, 2.0 * x]
    values[0] = x * x  # here
    return values[0]


def repeats_a_list(x):
    values = [x] * int(x)  # here
    return values[0]


def raises_a_number(x):
    if x > 100.0:
        raise x  # here
    return x


@numba.stencil
def neighbours(a):
    return a[0] + a[1]


def calls_a_stencil(x):
    return neighbours(np.full(3, x)).sum()  # here


LANGUAGE = [
    self_recursion,
    mutual_recursion,
    catches,
    appends,
    comprehends,
    keeps_a_dict,
    keeps_a_set,
    formats_text,
    leaves_to_python,
    mutates_a_global,
    calls_something_unknown,
    sums_a_generator,
    defines_a_compiled_function,
    defines_a_class,
    writes_into_a_list,
    repeats_a_list,
    raises_a_number,
    calls_a_stencil,
]
FAULTY_CALLEE = {mutual_recursion: pong.py_func, sums_a_generator: generates}
TRANSFORMS = {
    "grad": lambda f: ng.njit.grad(f)(2.5),
    "jvp": lambda f: ng.njit.jvp(f)((2.5,), 1.0),
    "from compiled code": lambda f: caller_of(ng.njit.grad(f))(2.5),
}


def caller_of(derivative):
    @njit
    def call(x):
        return derivative(x)

    return call


def message_of(action) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def marked_line(f):
    lines, first = inspect.getsourcelines(f)
    offset = next(i for i, text in enumerate(lines) if "# here" in text)
    return first + offset, lines[offset].split("#")[0].strip()


@pytest.mark.parametrize("way", TRANSFORMS)
@pytest.mark.parametrize("function", LANGUAGE, ids=lambda f: f.__name__)
def test_not_covered(function, way):
    number, text = marked_line(FAULTY_CALLEE.get(function, function))
    message = message_of(lambda: TRANSFORMS[way](function))
    assert "test_njit_errors.py" in message
    assert re.search(rf"\b{number}\b", message), message
    assert text in message
    assert re.search(r"`\)\. [A-Z]\w+ .*\.", message), (
        f"no word on what to write instead: {message}"
    )


def test_refusals_are_errors_of_this_library():
    with pytest.raises(ng.errors.UnsupportedError):
        ng.njit.grad(catches)(2.5)


def depends_on_text(x, mode):
    return x * x if mode == "square" else x


def test_text_as_an_argument():
    message = message_of(lambda: ng.njit.grad(depends_on_text)(2.0, "square"))
    assert "'mode'" in message and "unicode_type" in message and "literal" in message


def test_text_as_a_default_or_a_literal():
    square = ng.njit.grad(njit(lambda x, mode="square": depends_on_text_call(x, mode)))
    assert square(2.0) == 4.0

    @njit
    def linear(x):
        return square(x, "linear")

    assert linear(2.0) == 1.0


depends_on_text_call = njit(depends_on_text)


def test_source_that_is_not_there():
    namespace = {}
    exec("def f(x):\n    return x * x\n", namespace)
    message = message_of(lambda: ng.njit.grad(namespace["f"])(2.0))
    assert "source" in message and "file" in message


# --- outputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: x * 2.0, ["array", "vjp"]),
        (lambda x: x.sum() * 1j, ["complex", "real"]),
        (lambda x: (x.sum(), x[0]), ["tuple"]),
        (lambda x: None, ["None"]),
        (lambda x: x.shape[0], ["int"]),
        (lambda x: x[0] > 0.0, ["bool"]),
    ],
    ids=["array", "complex", "tuple", "nothing", "integer", "flag"],
)
def test_output_of_grad(function, words):
    message = message_of(lambda: ng.njit.grad(function)(X))
    assert message.startswith("njit.grad") or "grad" in message
    for word in words:
        assert word in message


def test_auxiliary_output_that_is_missing():
    assert "has_aux" in message_of(lambda: ng.njit.grad(lambda x: x.sum(), has_aux=True)(X))


# --- arguments ----------------------------------------------------------------------------------------------------


def product(x, y, n):
    return (x * y).sum() * n


@pytest.mark.parametrize("argnums", [3, (0, 3), -4, "x", 1.5, (), (0, 0), (1, -2), None, True])
def test_wrong_argnums(argnums):
    message = message_of(lambda: ng.njit.grad(product, argnums)(X, X.copy(), 2))
    assert "njit.grad" in message and "argnums" in message and "expected" in message


@pytest.mark.parametrize("argument", [2, np.array([1, 2, 3]), True, np.array([True, False, True])])
def test_differentiating_what_has_no_derivative(argument):
    def f(x, k):
        return x * np.sum(np.asarray(k)) if False else x

    message = message_of(lambda: ng.njit.grad(f, argnums=1)(2.0, argument))
    assert "argnums" in message or "argument 'k'" in message
    assert "float" in message


def test_wrong_number_of_arguments():
    with pytest.raises(TypeError, match="not enough arguments: expected 3, got 2"):
        ng.njit.grad(product)(X, X)


@pytest.mark.parametrize("f", [lambda x, *, k=1.0: x, lambda x, **more: x])
def test_parameters_without_a_position(f):
    message = message_of(lambda: ng.njit.grad(f))
    assert "keyword only" in message and "Remove" in message


class Model:
    pass


UNKNOWN = {
    "Model": Model(),
    "dict": {},
    "float128": np.ones(3, np.longdouble),
    ">f8": X.astype(">f8"),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_arguments_that_numba_has_no_type_for(kind):
    for action in (
        lambda x: ng.njit.grad(product)(X, x, 2),
        lambda x: ng.njit.vjp(product)((X, x, 2), 1.0),
    ):
        with pytest.raises(ng.errors.DTypeError) as caught:
            action(UNKNOWN[kind])
        assert kind in str(caught.value) and "'" in str(caught.value)


@pytest.mark.parametrize("x", [[1.0, 2.0], np.ones(2, np.float16), None, {1.0}])
def test_arguments_without_derivatives(x):
    with pytest.raises(ng.errors.DTypeError, match=r"argument 0 is .*; expected floating-point"):
        ng.njit.grad(lambda x: x[0] * x[0])(x)


def test_not_a_function():
    assert "function" in message_of(lambda: ng.njit.grad(3.0))
    assert "function" in message_of(lambda: ng.njit.jvp("sin"))


# --- memory shared by arguments -----------------------------------------------------------------------------------


@njit
def writes_into_first(a, b):
    for i in range(a.shape[0]):
        a[i] = a[i] * b[i]
    return a.sum()


@njit
def reads_both(a, b):
    return (a * b).sum()


@pytest.mark.parametrize(
    "pair", [lambda x: (x, x), lambda x: (x[:3], x[1:]), lambda x: (x, x[::-1])]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_shared_memory_that_is_written(pair, compiled):
    derivative = ng.njit.grad(writes_into_first, argnums=(0, 1))
    if compiled:
        inner = derivative

        @njit
        def derivative(a, b):
            return inner(a, b)

    x = np.array([1.0, 2.0, 3.0, 4.0])
    message = message_of(lambda: derivative(*pair(x)))
    assert "memory" in message and "copy" in message
    assert "'a'" in message and "'b'" in message
    np.testing.assert_array_equal(x, [1, 2, 3, 4])


def test_shared_memory_that_is_only_read():
    ga, gb = ng.njit.grad(reads_both, argnums=(0, 1))(X, X)
    np.testing.assert_allclose(ga, X)
    np.testing.assert_allclose(gb, X)


# --- tangents and cotangents --------------------------------------------------------------------------------------


def doubled(x):
    return 2.0 * x


@pytest.mark.parametrize("tangent", [np.ones(2), np.ones((3, 1)), 1.0, (X, X)])
def test_tangent_that_does_not_fit(tangent):
    message = message_of(lambda: ng.njit.jvp(doubled)((X,), tangent))
    assert "tangent" in message and "jvp" in message


@pytest.mark.parametrize("cotangent", [np.ones(2), 1.0, (X, X)])
def test_cotangent_that_does_not_fit(cotangent):
    message = message_of(lambda: ng.njit.vjp(doubled)((X,), cotangent))
    assert "cotangent" in message and "vjp" in message


@pytest.mark.parametrize("way", ["jvp", "vjp"])
def test_complex_directions_of_real_values(way):
    """Their imaginary parts would be dropped."""
    message = message_of(lambda: getattr(ng.njit, way)(doubled)((X,), X * 1j))
    assert "complex" in message and "real" in message


def test_arguments_of_vjp_are_a_tuple():
    assert "tuple" in message_of(lambda: ng.njit.vjp(doubled)(X, X))


@pytest.mark.parametrize("order", [0, -1, 1.5])
def test_order_of_a_jet(order):
    assert "order" in message_of(lambda: ng.njit.jet(doubled, order)((X,), X))
