"""Mistakes give messages that name the operation, the leaf, what was given and what was expected."""

import pytest

import nbgrad as ng
from nbgrad.errors import ArgumentError, DTypeError, ShapeError, TraceError

X = ng.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: ng.scan(None, X, X), ArgumentError, "scan: the function is None; expected a callable"),
        (lambda: ng.scan(lambda c, x: c, X, X), ArgumentError, r"the result of f is \*; expected a pair"),
        (lambda: ng.scan(lambda c, x: (c, x), X), ArgumentError, "argument 'length' is None and xs has no leaves"),
        (lambda: ng.scan(lambda c, x: (c, x), X, X, 3), ShapeError, "'length' is 3; expected 2, the length of xs"),
        (lambda: ng.scan(lambda c, x: (c, x), X, length=-1), ArgumentError, "'length' is -1; expected an integer >= 0"),
        (lambda: ng.scan(lambda c, x: (c, x), X, length=2.0), ArgumentError, "'length' is 2.0"),
        (lambda: ng.scan(lambda c, x: (c, x), X, 1.0), ShapeError, "'xs' is 0-d; expected a leading dimension"),
        (
            lambda: ng.scan(lambda c, x: (c, x), X, {"a": X, "b": ng.ones(3)}),
            ShapeError,
            r"'xs'\['b'\] is 3; expected 2, that of the first leaf",
        ),
        (
            lambda: ng.scan(lambda c, x: ({"u": (c["u"][0], ng.cat([X, X]))}, None), {"u": (X, X)}, X),
            ShapeError,
            r"the carry f returns\['u'\]\[1\] is float64\[4\]; expected float64\[2\], as the carry comes in",
        ),
        (
            lambda: ng.scan(lambda c, x: (c + x, None), 0, X),
            DTypeError,
            r"returns is float64\[\]; expected int64\[\], as the carry comes in. Convert one of them, e.g. with "
            r".to\(ng.float64\)",
        ),
        (
            lambda: ng.scan(lambda c, x: ((c, c), None), X, X),
            ArgumentError,
            r"the structure of the carry f returns is \(\*, \*\); expected \*",
        ),
        (lambda: ng.scan(lambda c, x: (c, x), "text", X), DTypeError, "scan: argument 'init' is a str"),
        (lambda: ng.while_loop(lambda c: c, lambda c: c, X), DTypeError, r"the condition is float64\[2\]; expected one"),
        (lambda: ng.while_loop(lambda c: c > 0, lambda c: c, X), DTypeError, r"bool\[2\]; .* \.any\(\) or \.all\(\)"),
        (
            lambda: ng.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 0.5, c[1]), (0, X)),
            DTypeError,
            r"while_loop: the carry body_fun returns\[0\] is float64\[\]; expected int64\[\]",
        ),
        (
            lambda: ng.while_loop(lambda c: c < 2, lambda c: c, 0, max_steps=-1),
            ArgumentError,
            "'max_steps' is -1; expected an integer >= 0",
        ),
        (lambda: ng.fori_loop(0, 2.5, lambda i, c: c, X), ArgumentError, "'upper' is 2.5; expected an integer"),
        (lambda: ng.fori_loop(0, X, lambda i, c: c, X), DTypeError, r"'upper' is float64\[2\]; expected one integer"),
        (lambda: ng.cond(X > 0, ng.sin, ng.cos, X), DTypeError, r"cond: argument 'pred' is bool\[2\]; expected one bool"),
        (lambda: ng.cond(ng.tensor(1.0), ng.sin, ng.cos, X), DTypeError, "Compare it"),
        (lambda: ng.cond(True, 3, ng.cos, X), ArgumentError, "cond: the branch is 3; expected a callable"),
        (lambda: ng.switch(0, [], X), ArgumentError, "argument 'branches' is empty"),
        (lambda: ng.switch(0.5, [ng.sin], X), DTypeError, r"'index' is float64\[\]; expected one integer"),
        (
            lambda: ng.trace(lambda p: ng.cond(p, lambda: X, lambda: 1))(ng.tensor(True)),
            ShapeError,
            r"the result of branch 1 is int64\[\]; expected float64\[2\], as the first branch gives",
        ),
        (
            lambda: ng.trace(lambda p: ng.cond(p, lambda: {"a": X}, lambda: X))(ng.tensor(True)),
            ArgumentError,
            "the structure of the result of branch 1",
        ),
        (
            lambda: ng.scan(lambda c, x: (c + ng.randn(2), None), X, length=3),
            TraceError,
            "scan: the body draws random numbers; it is traced once",
        ),
        (
            lambda: ng.scan(lambda c, x: (ng.while_loop(lambda c: c[0] < 1, lambda c: c + ng.rand(2), c), 1), X, X),
            TraceError,
            "while_loop: the body draws random numbers",
        ),
    ],
)  # fmt: skip
def test_messages(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_body_must_not_write_what_it_captures():
    total = ng.zeros(2)

    def step(c, x):
        total.add_(c)
        return c, None

    with pytest.raises(TraceError, match="cannot be written in place inside scan"):
        ng.scan(step, X, length=2)
    assert total.tolist() == [0.0, 0.0]


def test_a_traced_value_must_not_leave_its_body():
    kept = []

    def step(c, x):
        kept.append(c)
        return c, None

    ng.scan(step, X, length=2)
    with pytest.raises(TraceError, match="was used after scan returned"):
        kept[0] + 1


def test_a_mistake_in_a_body_leaves_no_mode_behind():
    with pytest.raises(ZeroDivisionError):
        ng.scan(lambda c, x: 1 // 0, X, length=2)
    x = X.clone().requires_grad_()
    assert (x * 2).requires_grad and ng.is_grad_enabled()


def test_random_numbers_are_passed_in():
    noise = ng.randn(4, 2)
    walk, _ = ng.scan(lambda c, n: (c + n, None), X, noise)
    assert ng.allclose(walk, X + noise.sum(0))
