"""The compiler's passes one by one: what each does to a small tape or schedule."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.compiler.axes import Axes
from nbgrad.compiler.flatten import flatten
from nbgrad.compiler.generic import match
from nbgrad.compiler.items import Dot, Map
from nbgrad.compiler.lower import Schedule, pack_lives
from nbgrad.compiler.movement import scatter_layout, window_layout
from nbgrad.compiler.prepare import prepare
from nbgrad.compiler.stores import Store
from nbgrad.layout import Layout, contiguous


def prepared(f, *shapes):
    return prepare(ng.trace(f)(*[ng.zeros(*s) for s in shapes]))


def names(tape):
    return [i.op for i in tape.instructions]


def blocks(f, *shapes):
    tape, constants = prepared(f, *shapes)
    return Schedule(tape, constants).blocks()


def test_what_depends_on_constants_alone_is_computed_ahead():
    tape, constants = prepared(lambda x: x * (ng.ones(3) * 2 + 1).sum(), (3,))
    assert names(tape) == ["mul"]
    assert [constants.fill(v) for v in tape.instructions[0].inputs if v in constants] == [9.0]


def test_filled_arrays_do_not_become_one_that_must_be_loaded():
    tape, _ = prepared(lambda x: x * ng.cat([ng.ones(30), ng.zeros(30)]), (60,))
    assert names(tape) == ["cat", "mul"]


def test_a_constant_factor_makes_a_plain_product_of_zero_wins():
    tape, _ = prepared(ng.func.grad(lambda x: (3 * x).sum()), (4,))
    assert "zmul" not in names(tape)


def test_composite_operators_are_written_out():
    tape, _ = prepared(lambda x: ng.softmax(x, 1), (4, 5))
    assert "softmax" not in names(tape) and {"amax", "exp", "sum"} <= set(names(tape))


def test_axes_that_always_go_together_are_merged():
    tape, constants = prepared(lambda x: (ng.sin(x) * 2).sum(), (4, 5, 6))
    assert flatten(tape, constants).specs[tape.inputs[0]].shape == (120,)


@pytest.mark.parametrize("f", [lambda x: x.sum(1), lambda x: x @ x.T, lambda x: x[:, 1:]])
def test_axes_that_are_used_apart_are_not_merged(f):
    tape, constants = prepared(f, (4, 5))
    assert flatten(tape, constants).specs[tape.inputs[0]].shape == (4, 5)


def test_an_axis_is_followed_through_products_and_views():
    tape, _ = prepared(lambda x, w: ng.tanh(x @ w).T, (7, 3), (3, 2))
    axes = Axes(tape)
    x, w, y = *tape.inputs, tape.outputs[0]
    assert axes.of(x)[0] == axes.of(y)[1] and axes.of(w)[1] == axes.of(y)[0]
    assert axes.of(x)[1] == axes.of(w)[0] not in axes.of(y)


def test_a_loss_and_its_gradient_are_one_region():
    f = ng.func.value_and_grad(lambda w, x: (ng.tanh(x @ w) ** 2).mean())
    regions = [b for b in blocks(f, (8, 9), (500, 8)) if b.cls is not None]
    assert len(regions) == 1
    forms = [i.form for i in regions[0].items if isinstance(i, Dot)]
    assert forms == ["left", "sum"]


def test_streams_that_run_in_parallel_are_fused():
    f = lambda w, x, t: ng.func.jvp(lambda x: ng.sin(x @ w).sum(1), (x,), (t,))
    (region,) = [b for b in blocks(f, (8, 9), (500, 8), (500, 8)) if b.cls is not None]
    wide = [i for i in region.items if isinstance(i, Map) and i.space == (9,)]
    assert len(wide) == 1  # sin, cos and both sums in one loop nest


def test_flipped_rows_leave_the_region():
    found = blocks(lambda x: x * ng.flip(ng.sin(x), (0,)), (3000,))
    assert sum(b.cls is not None and bool(b.items) for b in found) == 2


def test_stores_that_live_at_once_do_not_overlap():
    rng = np.random.default_rng(0)
    stores = []
    for _ in range(60):
        s = Store("work", int(rng.integers(1, 50)), np.dtype("float64"))
        s.first = int(rng.integers(0, 30))
        s.last = s.first + int(rng.integers(0, 8))
        stores.append(s)
    top = pack_lives(stores)
    for i, a in enumerate(stores):
        assert a.offset % 64 == 0 and a.offset + a.bytes <= top
        for b in stores[:i]:
            together = a.first <= b.last and b.first <= a.last
            assert not together or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    assert top < sum(s.bytes for s in stores)


def test_windows_and_scatters_of_stored_values():
    base = contiguous((4, 6))
    window = Layout((2, 3), (6, 2), 7)  # rows 1 and 2, columns 1, 3, 5
    turned = Layout((4, 6), (1, 4), 0)  # stored column by column
    assert window_layout(window, base, turned) == Layout((2, 3), (1, 8), 5)
    assert window_layout(Layout((4,), (7,), 0), base, turned) is None  # a diagonal
    assert scatter_layout(Layout((4, 2), (6, 1), 2), base, 0).offset == 2
    assert scatter_layout(Layout((2, 6), (6, 1), 6), base, 0) is None  # cuts the rows


def test_tapes_that_differ_in_one_length_match():
    f = lambda x: (ng.tanh(x) * 2).sum(1).mean()
    a, b, c = (prepared(f, s) for s in [(10, 4), (20, 4), (20, 5)])
    found = match(a, b)
    assert (found.old, found.new) == (10, 20)
    assert match(a, c) is None  # two lengths
    assert match(a, prepared(lambda x: (ng.sin(x) * 2).sum(1).mean(), (20, 4))) is None


def test_sums_of_float32_lose_no_digits():
    x = np.full(10_000_000, 0.1, "float32")
    exact = float(np.float32(0.1)) ** 2 * 1e7
    assert abs(ng.compile(lambda x: (x * x).sum())(x).item() / exact - 1) < 1e-7
    g = ng.compile(ng.func.grad(lambda s, x: ((s * x) ** 2).mean()))(
        ng.tensor(1.0).to(ng.float32), x
    )
    assert abs(g.item() / (2 * exact / 1e7) - 1) < 2e-7
