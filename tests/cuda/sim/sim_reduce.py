import numpy as np
import pytest
from common import on_both, rng
from kernels_cuda import reduce as kernels

import nbgrad as ng

NAMES = ["sum", "prod", "amax", "amin", "any", "all", "mean"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 2), (1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_axes(name, dim, keepdim):
    x = rng().random((2, 3, 5))
    on_both(lambda t: getattr(ng, name)(t, dim, keepdim), x)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8", "bool"])
def test_dtypes(name, dtype):
    if name == "prod" and dtype == "bool":
        return
    x = (rng().random((4, 6)) * 4).astype(dtype)
    on_both(lambda t: getattr(ng, name)(t, 1), x, rtol=1e-6)
    on_both(lambda t: getattr(ng, name)(t), x, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (1, 64), (64, 1), (3, 21), (21, 3), (2, 2, 16)])
@pytest.mark.parametrize("name", ["sum", "amax"])
def test_one_and_two_passes(name, shape):
    x = rng().standard_normal(shape)
    for dim in (None, *range(len(shape))):
        on_both(lambda t, d=dim: getattr(ng, name)(t, d), x)


def test_long_rows_are_cut():
    assert kernels.pieces(1, 64, rows=True) > 1
    assert kernels.pieces(4, 64, rows=False) > 1
    assert kernels.pieces(1000, 64, rows=True) == 1


def test_layouts_and_empty_ones():
    x = rng().random((4, 6, 2))
    on_both(lambda t: t.transpose(0, 2)[:, ::-1].sum((0, 2)), x)
    on_both(lambda t: t[:, :1].expand(4, 3, 2).sum(1), x)
    on_both(lambda t: t[..., 0].sum(), x)
    on_both(lambda t: t.sum(()), x)
    on_both(lambda t: t[:, 3:3].sum(1), x)
    on_both(lambda t: t[2:2].sum(1), x)
    on_both(lambda t: ng.sum(t[0, 0, 0]), x)
    on_both(lambda t: ng.all(t[:, 3:3] > 2), x)


def test_nan_wins():
    x = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 0.0], [4.0, 5.0, 6.0]])
    on_both(lambda t: ng.amax(t, 1), x)
    on_both(lambda t: ng.amin(t), x)


def test_float32_accumulates_in_float64():
    x = np.array([1e8, 1.0, -1e8] * 20, "float32")
    assert ng.tensor(x, device="cuda").sum().item() == 20.0


def test_complex_and_half():
    x = rng().random(12) + 1j * rng().random(12)
    on_both(lambda t: t.sum(), x)
    on_both(lambda t: t.prod(), x.astype("complex64"), rtol=1e-5)
    on_both(lambda t: t.sum(), x.real.astype("float16"), rtol=1e-3)


def test_extremum_of_nothing():
    x = ng.zeros(0, 3, device="cuda")
    with pytest.raises(ng.errors.NbgradError, match="amax"):
        ng.amax(x, 0)
