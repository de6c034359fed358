import numpy as np
import pytest
from common import on_both, rng

import nbgrad as ng

SHAPES = [
    ((1, 1), (1, 1)),
    ((2, 3), (3, 4)),
    ((5, 7), (7, 9)),
    ((4, 3), (3, 4)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((2, 1, 3, 2), (3, 2, 5)),
    ((2, 2, 3, 2), (2, 2, 2, 3)),
    ((3, 2, 4), (4, 1)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((0, 2, 2), (2, 2)),
]


@pytest.mark.parametrize("a, b", SHAPES)
def test_shapes(a, b):
    r = rng()
    on_both(ng.matmul, r.random(a), r.random(b), rtol=1e-13)


@pytest.mark.parametrize(
    "dtype", ["float32", "int64", "int32", "complex64", "complex128", "float16"]
)
def test_dtypes(dtype):
    a, b = (rng().random((5, 6)) * 5).astype(dtype), (rng().random((6, 3)) * 5).astype(dtype)
    on_both(ng.matmul, a, b, rtol=1e-5 if dtype != "float16" else 1e-2)


def test_bool_is_or_of_and():
    on_both(ng.matmul, np.ones((2, 300), bool)[:, :256], np.ones((256, 2), bool))
    x = rng().random((3, 4)) > 0.5
    on_both(ng.matmul, x, x.T.copy())


def test_strides():
    r = rng()
    on_both(lambda a, b: a.mT @ b, r.random((6, 5)), r.random((6, 3)))
    on_both(lambda a, b: a @ b.mT, r.random((5, 6)), r.random((3, 6)))
    on_both(lambda a, b: a.mT @ b.mT, r.random((6, 5)), r.random((3, 6)))
    on_both(lambda a, b: a[::-1, ::2] @ b[::2], r.random((5, 6)), r.random((6, 3)))
    on_both(lambda a: a[:, :1].expand(3, 4) @ a.expand(4, 3, 4).mT, r.random((3, 4)))


def test_wrong_sizes():
    a = ng.zeros(2, 3, device="cuda")
    with pytest.raises(ng.errors.ShapeError, match="matmul"):
        a @ a


def test_a_zero_inner_size_gives_zeros():
    out = ng.zeros(2, 0, device="cuda") @ ng.zeros(0, 2, device="cuda")
    np.testing.assert_array_equal(out.cpu().numpy(), np.zeros((2, 2)))
