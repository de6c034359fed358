import numpy as np
import pytest
from common import on_both, rng

import nbgrad as ng


def pick(key):
    return lambda x: x[key]


KEYS = [
    [0, 2, 0],
    np.array([[1, -1], [0, 2]]),
    (slice(None), [1, 3]),
    ([0, 1], [2, 3]),
    (np.array([[0], [2]]), np.array([1, 2, 3])),
    (slice(None), slice(None, None, -1), [0, 1]),
    ([0, 1], slice(None), [1, 0]),
    (Ellipsis, [1]),
    [],
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_gather_and_its_adjoint(key):
    x = rng().random((3, 4, 2))
    on_both(pick(key), x)

    def gradient(t):
        t = t.clone().requires_grad_()
        y = t[key]
        (g,) = ng.autograd.grad((y * y).sum(), t, create_graph=True)
        (h,) = ng.autograd.grad((g * g).sum(), t)
        return [g.detach(), h]

    on_both(gradient, x)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assignment(key):
    def put(t, v):
        t = t.clone()
        t[key] = 2 * v
        return t

    on_both(put, rng().random((3, 4, 2)), np.array(3.0))


def test_the_last_of_several_writes_wins():
    def put(t, v):
        t = t.clone()
        t[[1, 1, 0, 1]] = v
        return t

    on_both(put, np.zeros(3), np.array([1.0, 2.0, 3.0, 4.0]))


def test_gradient_of_assignment():
    def put(t, v):
        t, v = t.clone().requires_grad_(), v.clone().requires_grad_()
        y = t * 1
        y[[1, 1, 0]] = v
        return list(ng.autograd.grad((y * y * y).sum(), [t, v]))

    on_both(put, rng().random((3, 2)), rng().random((3, 2)))


def test_index_tensors_on_either_side():
    x = ng.tensor(rng().random((4, 2)), device="cuda")
    for device in ("cpu", "cuda"):
        i = ng.tensor([3, -4], device=device)
        np.testing.assert_array_equal(x[i].cpu().numpy(), x.cpu().numpy()[[3, 0]])


def test_out_of_range():
    x = ng.zeros(4, device="cuda")
    with pytest.raises(ng.errors.IndexingError, match="4"):
        x[ng.tensor([0, 4], device="cuda")]
    with pytest.raises(ng.errors.IndexingError):
        x[[0, -5]]


def test_dtypes():
    for dtype in ("float32", "int64", "bool", "complex64", "float16"):
        on_both(pick([2, 0]), (rng().random((3, 2)) * 3).astype(dtype))
