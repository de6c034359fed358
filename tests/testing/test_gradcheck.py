"""gradcheck and gradgradcheck accept right derivatives and name what is wrong with planted errors."""

import numpy as np
import pytest
from planted import planted, square

import nbgrad as ng
from nbgrad.autograd import GradcheckError, gradcheck, gradgradcheck
from nbgrad.errors import ArgumentError

X = [0.5, -1.5, 2.0]
M = [[0.5, -1.0], [1.5, 2.0]]
Z = [1.0 + 2.0j, -0.5j]


def leaf(values, **options):
    return ng.tensor(values, requires_grad=True, **options)


def failure(check, *args, **options):
    """The message of a check that must fail, and proof that raise_exception=False returns False."""
    with pytest.raises(GradcheckError) as caught:
        check(*args, **options)
    assert check(*args, raise_exception=False, **options) is False
    return str(caught.value)


ALL = {
    "check_forward_ad": True,
    "check_grad_dtypes": True,
    "check_batched_grad": True,
    "check_batched_forward_grad": True,
}
SECOND = {"check_fwd_over_rev": True, "check_grad_dtypes": True, "check_batched_grad": True}


# -- right derivatives ---------------------------------------------------------------------------------

RIGHT = {
    "elementwise": (lambda x: x.exp() * x, [X]),
    "broadcast": (lambda a, b: a * b + b, [M, X[:2]]),
    "matmul": (lambda a, b: (a @ b).sin(), [M, M]),
    "0-d": (lambda x: x.sin() * x, [0.3]),
    "empty": (lambda x: x * x, [np.zeros((0, 2))]),
    "two outputs": (lambda a, b: (a * b, {"second": a.sin()}), [X, X]),
    "linear": (lambda x: 3 * x, [X]),
    "complex": (lambda z: z * z.conj() + z * z * z, [Z]),
    "complex to real": (lambda z: ng.real(z * z), [Z]),
    "real and complex": (lambda x, z: x * z, [X[:2], Z]),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_derivatives_pass(name, fast_mode):
    f, values = RIGHT[name]
    inputs = tuple(leaf(v) for v in values)
    assert gradcheck(f, inputs, fast_mode=fast_mode, **ALL) is True
    assert gradgradcheck(f, inputs, fast_mode=fast_mode, **SECOND) is True


def test_inputs_are_restored_and_grads_stay_empty():
    x = leaf(X)
    gradcheck(lambda x: x * x, x)
    assert x.tolist() == X if not x.requires_grad else x.detach().tolist() == X
    assert x.grad is None


def test_strided_inputs_are_checked_in_place():
    memory = np.arange(12.0).reshape(3, 4)
    x = ng.from_numpy(memory[::-1, 1::2]).requires_grad_()
    assert gradcheck(lambda x: x.sin(), x)
    assert (memory == np.arange(12.0).reshape(3, 4)).all()


def test_constant_and_integer_arguments_are_passed_on():
    k = ng.tensor([2, 0])
    assert gradcheck(lambda x, index, flag: x[index] * (2 if flag else 0), (leaf(X), k, True))


def test_parameters_read_from_outside_are_checked():
    w = leaf(X)
    assert gradcheck(lambda *_: w * w * w, (w,))
    with square(lambda g, x: g * x) as op:
        assert "factor 0.5" in failure(gradcheck, lambda *_: op(w), (w,))


# -- planted errors ------------------------------------------------------------------------------------


def test_a_missing_factor_two():
    with square(lambda g, x: g * x) as op:
        text = failure(gradcheck, lambda x: op(x), leaf(X))
    assert "worst entry: d output_0[2] / d input_0[2]" in text
    assert "analytical:  2.0" in text and "numerical:   4.0" in text
    assert "2 absolute, 0.5 relative" in text
    assert "a factor 0.5" in text and "factor 2" in text


def test_a_wrong_sign():
    with square(lambda g, x: g * x * -2.0) as op:
        assert "the sign" in failure(gradcheck, lambda x: op(x), leaf(X))


def test_a_mean_instead_of_a_sum():
    with square(lambda g, x: g * x * (2.0 / 3.0)) as op:
        text = failure(gradcheck, lambda x: op(x), leaf(X))
    assert "1/3: perhaps a mean where a sum belongs" in text


def test_a_transposed_gradient():
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    wrong = lambda g, out, x, *, needs: ((g * ng.tensor(weights)).transpose(-2, -1),)
    with planted(lambda x: np.asarray((x * weights).sum()), wrong) as op:
        assert "transposed" in failure(gradcheck, lambda x: op(x), leaf(M))


def test_an_untransposed_factor_of_a_matrix_product():
    wrong = lambda g, out, a, b, *, needs: (g @ b, a.mT @ g)
    with planted(lambda a, b: a @ b, wrong) as op:
        text = failure(gradcheck, lambda a, b: op(a, b), (leaf(M), leaf(M)))
    assert "which factor is transposed" in text


def test_a_missing_sum_over_a_broadcast_dimension():
    wrong = lambda g, out, x, *, needs: (g[0],)
    with planted(lambda x: np.stack([x, x]), wrong) as op:
        text = failure(gradcheck, lambda x: op(x), leaf(X))
    assert "part of the gradient is missing" in text and "broadcast" in text


def test_gradient_to_elements_that_are_not_used():
    wrong = lambda g, out, x, *, needs: (ng.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) @ g,)
    with planted(lambda x: x[[0, 2]], wrong) as op:
        assert "should be 0" in failure(gradcheck, lambda x: op(x), leaf(X))


def test_a_wrong_formula_without_pattern():
    with square(lambda g, x: g * x * x) as op:
        assert "the formula itself is wrong" in failure(gradcheck, lambda x: op(x), leaf(X))


def test_a_nan_in_the_backward_pass():
    with square(lambda g, x: g * (x / 0.0) * 0.0) as op:
        text = failure(gradcheck, lambda x: op(x), leaf(X))
    assert "analytical:  nan" in text and "detect_anomaly" in text


def test_no_gradient_path():
    text = failure(gradcheck, lambda x: x.detach() * 2 + 0 * x, leaf(X))
    assert "no gradient path" in text


@pytest.mark.parametrize("values", [Z, [0.5 + 1.5j, 1.0 - 1.0j]])
def test_a_missing_conjugate(values):
    with square(lambda g, x: g * x * 2.0) as op:
        assert "complex conjugate" in failure(gradcheck, lambda z: op(z), leaf(values))
    wrong = lambda g, out, z, *, needs: (2 * g * z.conj(),)
    with planted(lambda z: (z * z.conj()).real, wrong) as op:
        assert "complex conjugate" in failure(gradcheck, lambda z: op(z), leaf(values))


def test_a_missing_second_derivative_is_reported():
    with square(lambda g, x: g * x.detach() * 2.0) as op:
        x = leaf(X)
        assert gradcheck(lambda x: op(x), x)
        text = failure(gradgradcheck, lambda x: op(x), x)
    assert "no gradient path" in text and "input_0" in text


def test_an_error_in_the_cotangent_of_a_backward():
    with square(lambda g, x: g.detach() * x * 2.0) as op:
        x = leaf(X)
        assert gradcheck(lambda x: op(x), x)
        assert "grad_output_0" in failure(gradgradcheck, lambda x: op(x), x)


def test_a_wrong_forward_mode():
    right = lambda g, out, x, *, needs: (g * x * 2.0,)
    wrong = lambda tangents, out, x: tangents[0] * x
    with planted(lambda x: x * x, right, wrong) as op:
        x = leaf(X)
        assert gradcheck(lambda x: op(x), x)
        text = failure(gradcheck, lambda x: op(x), x, check_forward_ad=True)
    assert "forward-mode" in text


def test_a_wrong_batching_rule():
    right = lambda g, out, x, *, needs: (helper(g) * 1.0,)
    double = lambda dims, x: (x * 2.0, dims[0])
    with (
        planted(
            lambda x: x, lambda g, out, x, *, needs: (g,), batch=double, name="helper"
        ) as helper,
        planted(lambda x: x.copy(), right) as op,
    ):
        x = leaf(X)
        assert gradcheck(lambda x: op(x), x)
        assert "batching rule" in failure(gradcheck, lambda x: op(x), x, check_batched_grad=True)


def test_a_function_that_changes_its_input():
    def f(x):
        with ng.no_grad():
            x.mul_(2)
        return x * 1

    assert "changed input 0 in place" in failure(gradcheck, f, leaf(X))


def test_non_determinism_forward_and_its_tolerance():
    rng = np.random.default_rng(0)
    noisy = lambda size: lambda x: x * x + ng.tensor(rng.uniform(0, size, 3))
    assert "non-determinism" in failure(gradcheck, noisy(1.0), leaf(X))
    assert gradcheck(noisy(1e-13), leaf(X), nondet_tol=1e-12)


def test_non_determinism_backward():
    rng = np.random.default_rng(0)
    with square(lambda g, x: g * x * (2.0 + float(rng.uniform(0, 1e-9)))) as op:
        assert "two backward passes" in failure(gradcheck, lambda x: op(x), leaf(X))
        assert gradcheck(lambda x: op(x), leaf(X), nondet_tol=1e-6)


def test_float32_is_named_as_the_cause():
    text = failure(gradcheck, lambda x: x.sin(), leaf(X, dtype=ng.float32))
    assert "float32" in text and "double" in text
    assert gradcheck(lambda x: x.sin(), leaf(X, dtype=ng.float32), eps=1e-2, atol=1e-3, rtol=1e-2)


def test_cotangents_left_out():
    def wrong(g, out, x, *, needs):
        return (
            (0 * x if g[0] is None else g[0] * 2) + (0 * x + 5.0 if g[1] is None else g[1] * 3),
        )

    with planted(lambda x: (2 * x, 3 * x), wrong) as op:
        op._n_out = 2
        x = leaf(X)
        text = failure(gradcheck, lambda x: op(x), x)
    assert "output 0" in text


def test_fast_mode_reports_the_worst_entry():
    with square(lambda g, x: g * x) as op:
        text = failure(gradcheck, lambda x: op(x), leaf(X), fast_mode=True)
    assert "worst entry: d output_0[2]" in text


# -- kinks and singular points -------------------------------------------------------------------------


def test_a_kink_is_named_with_both_slopes():
    text = failure(gradcheck, lambda x: ng.where(x > 0, x, 0 * x), leaf([0.0, 2.0]))
    assert "a kink" in text and "left (0)" in text and "right (1)" in text


def test_the_edge_of_the_domain():
    text = failure(gradcheck, lambda x: x.sqrt(), leaf([0.0, 2.0]))
    assert "edge of the function's domain" in text


def test_zero_wins_confirmed_by_both_sides_passes_and_can_be_refused():
    masked = lambda x: ng.where(x > 2, x.log(), 2 * x)
    x = leaf([0.0, 3.0])
    assert gradcheck(masked, x)
    assert gradcheck(masked, x, zero_wins="allow")
    text = failure(gradcheck, masked, x, zero_wins="fail")
    assert "LogBackward" in text and "zero wins" in text


def test_zero_wins_at_a_kink_fails_unless_allowed():
    # |x| by way of a root: central differences and the convention agree on 0, but there is no derivative
    root = lambda x: x.abs().sqrt().square()
    x = leaf([0.0, 2.0])
    text = failure(gradcheck, root, x)
    assert "zero met an infinite" in text and "-1 from the left and 1 from the right" in text
    assert gradcheck(root, x, zero_wins="allow")


def test_zero_wins_in_forward_mode():
    root = lambda x: x.abs().sqrt().square()
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert "forward mode" in failure(gradcheck, root, leaf([0.0]), **options)


# -- arguments -----------------------------------------------------------------------------------------


def test_grad_outputs_of_gradgradcheck():
    x = leaf(X)
    f = lambda x: x * x * x
    assert gradgradcheck(f, x, leaf([1.0, 2.0, 3.0]))
    assert gradgradcheck(f, x, ng.tensor([1.0, 2.0, 3.0]))
    assert gradgradcheck(f, x, gen_non_contig_grad_outputs=True)
    with pytest.raises(ArgumentError, match="grad_outputs"):
        gradgradcheck(f, x, (leaf(X), leaf(X)))


@pytest.mark.parametrize(
    "inputs, words",
    [
        ((ng.tensor([1.0]),), "requires_grad=True"),
        ((ng.tensor([1.0], requires_grad=True).expand(3),), "clone"),
        ((), "requires_grad=True"),
    ],
)
def test_unusable_inputs(inputs, words):
    with pytest.raises(ArgumentError, match=words):
        gradcheck(lambda *xs: xs[0] * 2, inputs)


def test_unusable_functions_and_options():
    with pytest.raises(ArgumentError, match="floating or complex"):
        gradcheck(lambda x: x > 0, leaf(X))
    with pytest.raises(ArgumentError, match="zero_wins"):
        gradcheck(lambda x: x, leaf(X), zero_wins="maybe")
    with pytest.raises(ArgumentError, match="no output requires grad"):
        gradgradcheck(lambda x: x.detach(), leaf(X))


def test_the_error_is_an_assertion_and_a_runtime_error():
    assert issubclass(GradcheckError, AssertionError) and issubclass(GradcheckError, RuntimeError)
