"""In-place operations: history of views and bases, versions, and what is refused before anything changes."""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad
from nbgrad.errors import AutogradError, DTypeError, ShapeError


def leaf(*values):
    return ng.tensor(list(values), requires_grad=True)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), b, rtol=1e-12, atol=1e-14)


def test_a_write_to_a_view_is_in_the_history_of_its_base():
    x, y = leaf(1.0, 2.0, 3.0, 4.0), leaf(10.0, 20.0)
    b = (x * 1).view(2, 2)
    b[1].mul_(y)
    close(b, [[1.0, 2.0], [30.0, 80.0]])
    gx, gy = grad(b.sum(), (x, y))
    close(gx, [1.0, 1.0, 10.0, 20.0])
    close(gy, [3.0, 4.0])


def test_every_view_sees_the_write():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    b = x * 1
    t, flipped, tail = b.view(2, 2).t(), b.flip(0), b[2:]
    view = b[::2]
    view.mul_(ng.tensor([10.0, 100.0]))
    close(b, [10.0, 2.0, 300.0, 4.0])
    close(t, [[10.0, 300.0], [2.0, 4.0]])
    close(tail, [300.0, 4.0])
    close(grad((t * t).sum(), x)[0], [2 * 100.0, 4.0, 2 * 30000.0, 8.0])
    assert flipped.tolist() == [4.0, 3.0, 2.0, 1.0]  # flip copies


def test_chains_of_views_and_augmented_assignment():
    x = leaf(*map(float, range(1, 7)))
    b = x * 1.0
    t = b.view(2, 3).t()
    t[0].add_(1)
    t[0] *= 2
    close(b, [4.0, 2.0, 3.0, 10.0, 5.0, 6.0])
    close(grad(b.sum(), x)[0], [2.0, 1.0, 1.0, 2.0, 1.0, 1.0])


def test_outputs_of_split_and_unbind_can_be_written():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    b = x * 1
    first, second = b.split(2)
    first.mul_(3)
    close(grad((b * b).sum(), x)[0], [2 * 9.0, 2 * 18.0, 6.0, 8.0])
    b = x * 1
    b.unbind()[1].mul_(5)
    second = b.unbind()[1]
    close(grad(second, x)[0], [0.0, 5.0, 0.0, 0.0])


def test_dead_writes_carry_no_gradient_and_copies_accumulate():
    x = leaf(1.0, 2.0)
    b = ng.zeros(2)
    b[:] = x * 2
    b[:] = x * 3
    close(grad(b.sum(), x)[0], [3.0, 3.0])
    d = ng.zeros(2)
    d.copy_(x)
    close(grad((x * 5).sum() + d.sum(), x)[0], [6.0, 6.0])
    b = x * 2
    b.fill_(1.0)
    assert not b.requires_grad or float(grad(b.sum(), x)[0].sum()) == 0.0


def test_leaves_refuse_before_they_change():
    a = leaf(1.0, 2.0)
    writes = [
        lambda: a.add_(5),
        lambda: a.__setitem__(0, 7.0),
        lambda: a[0].mul_(2),
        lambda: a.view(2, 1).t().zero_(),
        lambda: a.copy_(ng.zeros(2)),
    ]
    for write in writes:
        with pytest.raises(AutogradError, match="leaf"):
            write()
    close(a, [1.0, 2.0])
    assert a._version == 0
    with ng.no_grad():
        a.sub_(0.5)
    close(a, [0.5, 1.5])
    assert a.is_leaf and a.requires_grad and a._version == 1


def test_an_operation_that_raises_has_changed_nothing():
    x = ng.tensor([1.0, 2.0])
    n = ng.tensor([1, 2])
    with pytest.raises(ShapeError):
        x.add_(ng.ones(2, 2))
    with pytest.raises(DTypeError, match="int64"):
        n.mul_(0.5)
    with pytest.raises(AutogradError, match="clone"):
        ng.ones(1).expand(3).add_(1)
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(AutogradError, match="read-only"):
        ng.from_numpy(frozen).add_(1)
    close(x, [1.0, 2.0])
    assert n.tolist() == [1, 2] and x._version == n._version == 0


def test_changes_of_saved_tensors_are_reported_with_the_culprit():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * y
    y.add_(1)
    with pytest.raises(AutogradError, match=r"MulBackward.*add_\(\)"):
        z.sum().backward()
    y = x.exp()  # exp saves its result
    y.mul_(2)
    with pytest.raises(AutogradError, match=r"ExpBackward.*mul_\(\)"):
        y.sum().backward()
    y = x * 3  # only the constant is saved: no objection
    y.add_(1)
    close(grad(y.sum(), x)[0], [3.0, 3.0])
    y = x * 1
    z = y.sin()
    y[0] = 5.0
    with pytest.raises(AutogradError, match="SinBackward"):
        z.sum().backward()
    y = x * 1
    z = y.sin()
    y.detach().zero_()  # shares memory and version
    with pytest.raises(AutogradError, match=r"zero_\(\)|fill_\(\)"):
        z.sum().backward()
    y = x * 1
    z = y.sin()
    ng.autograd.graph.increment_version(y)
    with pytest.raises(AutogradError, match="increment_version"):
        z.sum().backward()


def test_versions_count_writes_and_are_shared_by_views():
    b = ng.zeros(4)
    v = b[1:]
    v.add_(1)
    b.mul_(2)
    assert b._version == v._version == b.detach()._version == 2
    assert (b + 1)._version == 0


def test_views_made_under_no_grad():
    x = leaf(1.0, 2.0)
    y = x * 1
    with ng.no_grad():
        v = y[:1]
        w = y[1:]
        w.mul_(2)  # fine here: nothing is recorded
    assert not v.requires_grad
    with pytest.raises(AutogradError, match="no_grad"):
        v.mul_(2)
    close(y, [1.0, 4.0])
    close(v * 2, [2.0])
    y = x * 1
    with ng.no_grad():
        v = y[:1]
    y.mul_(3)
    with pytest.raises(AutogradError, match="no_grad"):
        v * 2


def test_writing_under_no_grad_keeps_the_history():
    x = leaf(1.0, 2.0)
    y = x * 3
    with ng.no_grad():
        y.mul_(10)
    close(y, [30.0, 60.0])
    close(grad(y.sum(), x)[0], [3.0, 3.0])


def test_self_assignment_and_overlap():
    x = leaf(1.0, 2.0, 3.0)
    b = x * 1
    b[1:] = b[:-1]
    close(b, [1.0, 1.0, 2.0])
    close(grad((b * ng.tensor([1.0, 10.0, 100.0])).sum(), x)[0], [11.0, 100.0, 0.0])
    b = x * 1
    b.add_(b)
    close(grad(b.sum(), x)[0], [2.0, 2.0, 2.0])


def test_retain_grad_follows_in_place_operations_and_hooks_stay():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * ng.tensor([1.0, 10.0])).sum().backward()
    close(y.grad, [1.0, 10.0])  # of the present value
    assert seen == [[1.0, 10.0], [3.0, 30.0]]  # the first hook saw the value it was put on
    v = (x * 1)[:1]
    v.retain_grad()
    v.mul_(4)
    (5 * v).sum().backward()
    close(v.grad, [5.0])


def test_second_derivatives_through_writes():
    x = leaf(0.5, 2.0)
    b = ng.zeros(3)
    b[0] = x[0] ** 3
    b[1:] = x**2
    b[1:].mul_(x)
    (g,) = grad(b.sum(), x, create_graph=True)
    close(g, [3 * 0.25 * 2, 12.0])
    close(grad(g.sum(), x)[0], [6.0, 12.0])


def test_looking_at_a_stale_view_under_no_grad_keeps_its_history():
    w = ng.ones(2, requires_grad=True)
    q = w * 2
    v = q[:1]
    q.mul_(3)
    with ng.no_grad():
        v.sum()
    assert v.requires_grad
    close(grad(v.sum(), w)[0], [6, 0])
    q = w * 2
    v = q[:1]
    with ng.no_grad():
        v.zero_()
    close(grad(v.sum(), w)[0], [2, 0])


def test_bool_tensors_are_filled_by_integers():
    b = ng.ones(3, dtype=ng.bool)
    assert b.zero_().tolist() == [False] * 3 and b.dtype == ng.bool
    for value in (1, True, 7, ng.tensor(1)):
        assert b.zero_().fill_(value).tolist() == [True] * 3
    assert b.fill_(0).tolist() == [False] * 3


def test_the_adjoint_of_a_view_of_a_view_is_no_view_of_the_wrong_memory():
    cotangent = ng.tensor(np.arange(8.0).reshape(4, 2))
    x = ng.zeros(2, 2).requires_grad_()
    z = ng.zeros(2, 4).requires_grad_()
    row = ng.autograd.grad(z[1], z, x.t().reshape(4), create_graph=True)[0]
    for create_graph in (False, True):
        (g,) = ng.autograd.grad(row.t(), x, cotangent, retain_graph=True, create_graph=create_graph)
        assert g.detach().numpy().tolist() == [[1, 5], [3, 7]]
