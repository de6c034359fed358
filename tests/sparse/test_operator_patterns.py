"""Every operator hands index sets on rightly: no derivative lies outside the pattern found for it."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.op import REGISTRY
from nbgrad.sparse.propagate import propagate
from nbgrad.sparse.rules import is_flat
from nbgrad.tape.record import trace_call

F64 = np.dtype("float64")
DIFFERENTIABLE = sorted(n for n, op in REGISTRY.items() if op.differentiable and op.tests)


def cases(name):
    """Calls of an operator: the function of its floating arguments, these, and the others."""
    op = REGISTRY[name]
    for sample in op.tests(np.random.default_rng(0), F64):
        args = [np.asarray(a) for a in sample.args]
        moving = [i for i, a in enumerate(args) if a.dtype.kind == "f" and i not in op.nondiff]
        if not moving:
            continue

        def fn(*leaves, op=op, params=sample.params):
            out = op(*leaves, **params)
            outs = out if isinstance(out, tuple) else (out,)
            return tuple(o for o in outs if o.dtype.kind in "fc")

        yield fn, args, moving


def pattern(fn, args, moving, known):
    tape = trace_call(fn, tuple(args))
    given = {tape.inputs[i]: a for i, a in enumerate(args) if i not in moving} if known else {}
    return propagate(tape, moving, given).sets.toarray()


def dense(fn, args, moving):
    """The Jacobian by forward mode, rows and columns numbered as in the pattern."""
    tensors = [ng.tensor(a) for a in args]
    outs = fn(*tensors)
    rows = sum(o.numel() for o in outs)
    blocks = ng.func.jacfwd(fn, tuple(moving))(*tensors)
    matrix = [
        np.concatenate(
            [
                b.numpy().reshape(o.numel(), args[i].size)
                for b, i in zip(block, moving, strict=True)
            ],
            1,
        )
        for block, o in zip(blocks, outs, strict=True)
    ]
    return np.concatenate(matrix) if matrix else np.zeros((rows, 0))


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_no_derivative_lies_outside_the_pattern(name, known):
    for fn, args, moving in cases(name):
        found, true = pattern(fn, args, moving, known), dense(fn, args, moving)
        assert found.shape == true.shape
        assert not ((true != 0) & ~found).any()


EXACT = (
    *("reshape", "permute", "expand", "slice", "diagonal", "unfold", "strided_view", "unview"),
    *(
        "strided_scatter",
        "clone",
        "sum",
        "index",
        "unindex",
        "index_put",
        "gather_",
        "cat",
        "cumsum",
    ),
    *("scatter_add_", "scatter_", "pad_zero", "exp", "add", "matmul"),
)


@pytest.mark.parametrize("name", EXACT)
def test_patterns_of_linear_movements_are_exact(name):
    for fn, args, moving in cases(name):
        assert np.array_equal(pattern(fn, args, moving, True), dense(fn, args, moving) != 0)


@pytest.mark.parametrize(
    "name, i, flat",
    [
        ("floor", 0, True),
        ("round_to", 0, True),
        ("floor_div", 0, True),
        ("where", 0, True),
        ("frac", 0, False),
        ("mul", 0, False),
        ("relu", 0, False),
    ],
)
def test_identically_zero_derivatives_are_known(name, i, flat):
    assert is_flat(REGISTRY[name], i) is flat
