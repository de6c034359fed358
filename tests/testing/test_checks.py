"""The properties hold for right derivatives and fail for planted errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from planted import planted, square

import nbgrad as ng
import nbgrad.testing as nt
from nbgrad.autograd import GradcheckError
from nbgrad.errors import ArgumentError

A = np.array([[0.1, 0.7], [-0.3, 0.4]])
B = np.array([[1.0, 0.2], [0.3, -0.4]])
Z = A + 1j * B


def pair(a, b):
    return {"product": (a @ b).sin(), "scalar": (a * b).exp().sum()}


RIGHT = {
    "pair": (pair, (A, B)),
    "complex": (lambda z: z * z.conj() * z, (Z,)),
    "nested": (lambda d: d["x"] * d["y"][0], ({"x": A, "y": [B]},)),
    "integers": (lambda x, i: (x[i] * x[i]).exp(), (A, ng.tensor([1, 1, 0]))),
    "0-d": (lambda x: x.sin() * x, (np.array(0.3),)),
}
PROPERTIES = [
    nt.check_grads,
    nt.dot_product_test,
    nt.taylor_remainder_test,
    nt.hessian_symmetry,
    nt.forward_vs_reverse,
    nt.inputs_unmodified,
    nt.tape_agrees,
    nt.vmap_agrees,
]


@pytest.mark.parametrize("check", PROPERTIES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives_have_every_property(name, check):
    check(*RIGHT[name])


@settings(max_examples=25, deadline=None)
@given(nt.tensors(shapes=(2, 3), dtypes=[ng.float64, ng.complex128], away_from=[0.0], margin=0.2))
def test_properties_over_drawn_tensors(x):
    f = lambda x: (x * x + 2.0).sin() / x
    nt.check_grads(f, (x,), order=1)
    nt.dot_product_test(f, (x,))


def fails(check, *args, **options):
    with pytest.raises(GradcheckError) as caught:
        check(*args, **options)
    return str(caught.value)


# -- check_grads ---------------------------------------------------------------------------------------


def test_check_grads_finds_a_wrong_factor_and_shows_the_ratio():
    with square(lambda g, x: g * x) as op:
        text = fails(nt.check_grads, lambda x: op(x), (A,), order=1, modes=("rev",))
    assert "check_grads: reverse" in text and "ratio is 0.5" in text


def test_check_grads_names_the_combination_that_is_wrong():
    with square(lambda g, x: g * x.detach() * 2.0) as op:
        nt.check_grads(lambda x: op(x), (A,), order=1, modes=("rev",))
        text = fails(nt.check_grads, lambda x: op(x), (A,), order=2, modes=("rev",))
    assert "reverse over reverse" in text


def test_check_grads_reaches_third_order():
    # a square whose second derivative is right and whose third is not
    right = lambda g, out, x, *, needs: (g * (x * 2.0),)
    third = lambda g, out, x, *, needs: (g * helper(x),)
    half = lambda g, out, x, *, needs: (g * (2.0 + 1e-3 * x.detach()),)
    with (
        planted(lambda x: 2.0 * x + 5e-4 * x * x, half, name="helper") as helper,
        planted(lambda x: x * x + 1e-3 / 6 * x**3, third) as op,
    ):
        f = lambda x: op(x)
        nt.check_grads(f, (A,), order=2, modes=("rev",))
        assert "reverse over reverse over reverse" in fails(
            nt.check_grads, f, (A,), order=3, modes=("rev",)
        )
    with planted(lambda x: x * x, right) as op:
        nt.check_grads(lambda x: op(x), (A,), order=3)


def test_check_grads_points_out_a_kink():
    ramp = lambda x: ng.where(x > 0, x, 0 * x)
    assert "by finite differences" in fails(nt.check_grads, ramp, (np.zeros(2),), order=1)
    root = lambda x: ng.where(x > 0, x, 0 * x).sqrt()
    assert "kink" in fails(nt.check_grads, root, (np.zeros(2),), order=1)


def test_check_grads_refuses_wrong_arguments():
    with pytest.raises(ArgumentError, match="modes"):
        nt.check_grads(pair, (A, B), modes=("backward",))
    with pytest.raises(ArgumentError, match="order"):
        nt.check_grads(pair, (A, B), order=0)
    with pytest.raises(ArgumentError, match="floating or complex"):
        nt.check_grads(lambda i: i, (ng.tensor([1, 2]),))
    with pytest.raises(ArgumentError, match="floating or complex"):
        nt.check_grads(lambda x: x > 0, (A,))


# -- the single properties -----------------------------------------------------------------------------

TWO_MODES = {
    "wrong reverse": (lambda g, out, x, *, needs: (g * x,), lambda t, out, x: t[0] * x * 2.0),
    "wrong forward": (lambda g, out, x, *, needs: (g * x * 2.0,), lambda t, out, x: t[0] * x),
}


@pytest.mark.parametrize("name", TWO_MODES)
def test_modes_that_disagree_are_found(name):
    with planted(lambda x: x * x, *TWO_MODES[name]) as op:
        f = lambda x: op(x)
        assert "dot_product_test" in fails(nt.dot_product_test, f, (A,))
        text = fails(nt.forward_vs_reverse, f, (A,))
        assert "d output_0[0, 0] / d argument_0[0, 0]" in text
        mode = "rev" if name == "wrong reverse" else "fwd"
        assert "slope 1." in fails(nt.taylor_remainder_test, f, (A,), mode=mode)


def test_a_conjugate_that_is_missing_in_one_mode_is_found():
    wrong = lambda g, out, z, *, needs: (g * z * 2.0,)
    right = lambda t, out, z: t[0] * z * 2.0
    with planted(lambda z: z * z, wrong, right) as op:
        assert "one of the two modes is wrong" in fails(nt.dot_product_test, lambda z: op(z), (Z,))
        fails(nt.forward_vs_reverse, lambda z: op(z), (Z,))


@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_taylor_slopes(order, mode):
    slope = nt.taylor_remainder_test(pair, (A, B), order=order, mode=mode)
    assert order + 0.9 < slope < order + 1.5


def test_the_taylor_remainder_of_a_polynomial_vanishes():
    assert nt.taylor_remainder_test(lambda x: x * x, (A,), order=2) == np.inf


def test_the_taylor_test_finds_a_missing_second_derivative():
    with square(lambda g, x: g * x.detach() * 2.0) as op:
        f = lambda x: op(x).sin()
        nt.taylor_remainder_test(f, (A,), order=1)
        assert "slope 2." in fails(nt.taylor_remainder_test, f, (A,), order=2)


def test_an_unsymmetric_hessian_is_found():
    # the rule of a product that forgets how its first factor depends on x
    wrong = lambda g, out, x, y, *, needs: (g * y, g * x.detach())
    with planted(lambda x, y: x * y, wrong) as op:
        assert "w'Hu" in fails(nt.hessian_symmetry, lambda x, y: op(x, y), (A, B))


def test_modified_inputs_are_found_in_every_pass():
    def forward(x):
        x *= 2
        return x.copy()

    def backward(g, out, x, *, needs):
        x._data[...] = 0
        return (g,)

    with planted(forward, lambda g, out, x, *, needs: (g,)) as op:
        assert "the function changed argument 0" in fails(
            nt.inputs_unmodified, lambda x: op(x), (A,)
        )
    with planted(lambda x: x.copy(), backward) as op:
        assert "reverse mode changed argument 0" in fails(
            nt.inputs_unmodified, lambda x: op(x), (A,)
        )


def test_a_wrong_batching_rule_is_found():
    rule = lambda dims, x: (x * 1.5, dims[0])
    with planted(lambda x: x.copy(), lambda g, out, x, *, needs: (g,), batch=rule) as op:
        assert "vmap_agrees: value 0" in fails(nt.vmap_agrees, lambda x: op(x), (A,))


def test_a_tape_that_misses_a_dependence_is_found():
    # reads a value behind the tape's back, so a replay at a new point is stale
    def f(x):
        return x * stale["value"] + 0 * x

    stale = {"value": 1.0}

    def drifting(x):
        stale["value"] += 1.0
        return f(x)

    assert "tape_agrees: tape.replay" in fails(nt.tape_agrees, drifting, (A,))


def test_the_arguments_and_the_global_random_state_are_left_alone():
    before, args = np.random.get_state()[1].copy(), (A.copy(), B.copy())
    for check in PROPERTIES:
        check(pair, args)
    assert (np.random.get_state()[1] == before).all()
    assert (args[0] == A).all() and (args[1] == B).all()


def test_a_seed_or_a_generator_decides_the_directions():
    first = nt.taylor_remainder_test(lambda x: x.sin(), (A,), seed=1)
    assert first == nt.taylor_remainder_test(lambda x: x.sin(), (A,), seed=np.random.default_rng(1))
    assert first != nt.taylor_remainder_test(lambda x: x.sin(), (A,), seed=2)


# -- assert_close --------------------------------------------------------------------------------------


def test_assert_close_accepts_rounding_and_equal_infinities():
    nt.assert_close(A + 1e-12, A)
    nt.assert_close(ng.tensor(A), A)
    nt.assert_close([1.0, np.inf, np.nan], [1.0, np.inf, np.nan], equal_nan=True)
    nt.assert_close(np.zeros((0, 2)), np.zeros((0, 2)))


@pytest.mark.parametrize(
    "a, b, words",
    [
        ([1.0, 2.0, 3.5], [1.0, 2.0, 3.0], ["1 / 3 (33.3%)", "0.5 at index (2,)", "expected 3.0"]),
        ([1.0], [1.0, 2.0], ["shapes do not match", "(1,) != (2,)"]),
        ([1.0], [1], ["dtypes do not match", "float64 != int64"]),
        (1.0, 2.0, ["Scalars are not close"]),
        ([np.nan], [np.nan], ["1 / 1"]),
        ([True, False], [True, True], ["1 / 2"]),
        ([1.0], [np.inf], ["inf"]),
    ],
)
def test_assert_close_says_what_differs(a, b, words):
    with pytest.raises(AssertionError) as caught:
        nt.assert_close(a, b)
    for word in words:
        assert word in str(caught.value)
