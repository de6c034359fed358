import numpy as np
import pytest
from common import rng

import nbgrad as ng
from kernels_cuda import reduce as kernels

NAMES = ["sum", "prod", "amax", "amin", "any", "all", "mean"]


def check(name, x, dim=None, keepdim=False, rtol=1e-12, view=lambda t: t):
    """A reduction of a view of x on the device, against NumPy (in the widest dtype)."""
    wide = {"f": "float64", "c": "complex128"}.get(x.dtype.kind, x.dtype.name)
    axes = tuple(range(view(x).ndim)) if dim is None else dim
    fn = getattr(np, {"amax": "max", "amin": "min"}.get(name, name))
    want = fn(view(x).astype(wide), axis=axes, keepdims=keepdim)
    got = getattr(ng, name)(view(ng.tensor(x, device="cuda")), dim, keepdim)
    assert str(got.device) == "cuda:0"
    assert got.shape == np.shape(want)
    if name in ("amax", "amin") or (x.dtype.kind in "fc" and name not in ("any", "all")):
        assert got.dtype == x.dtype
    else:
        kinds = {"any": "bool", "all": "bool", "mean": "float64"}
        assert got.dtype == kinds.get(name, "int64")
    np.testing.assert_allclose(got.cpu().numpy(), want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 2), (1, 2)])
def test_axes(name, dim):
    x = rng().random((2, 3, 5))
    check(name, x, dim)
    check(name, x, dim, keepdim=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "bool"])
def test_dtypes(name, dtype):
    x = (rng().random((4, 6)) * 4).astype(dtype)
    rtol = 2e-3 if dtype == "float16" else 1e-6
    if name == "prod":
        x = x[:, :3]
    check(name, x, 1, rtol=rtol)
    check(name, x, rtol=rtol)


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (64,), (1, 64), (64, 1), (3, 21), (21, 3), (2, 2, 16)]
)
@pytest.mark.parametrize("name", ["sum", "amax"])
def test_one_and_two_passes(name, shape):
    x = rng().standard_normal(shape)
    for dim in (None, *range(len(shape))):
        check(name, x, dim)


def test_long_rows_are_cut():
    assert kernels.pieces(1, 64, rows=True) > 1
    assert kernels.pieces(4, 64, rows=False) > 1
    assert kernels.pieces(1000, 64, rows=True) == 1


def test_layouts():
    x = rng().random((4, 6, 2))
    check("sum", x, (0, 2), view=lambda t: t.swapaxes(0, 2)[:, ::-1])
    check("sum", x, 0, view=lambda t: t[::-2, 1:5:3])
    check("sum", x, view=lambda t: t[..., 0])
    check("amax", x, (0,), view=lambda t: t[0, 0, 0][None])
    one = ng.tensor(x, device="cuda")[:, :1].expand(4, 3, 2).sum(1)
    np.testing.assert_allclose(one.cpu().numpy(), 3 * x[:, 0])


def test_empty_ones():
    x = rng().random((4, 6, 2))
    for name in ("sum", "prod", "any", "all"):
        check(name, x, 1, view=lambda t: t[:, 3:3])
        check(name, x, 1, view=lambda t: t[2:2])
    check("amax", x, 1, view=lambda t: t[2:2])
    with pytest.raises(ng.errors.NbgradError, match="amax"):
        ng.amax(ng.zeros(0, 3, device="cuda"), 0)


def test_nan_wins():
    x = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 0.0], [4.0, 5.0, 6.0]])
    check("amax", x, 1)
    check("amin", x)


def test_float32_accumulates_in_float64():
    x = np.array([1e8, 1.0, -1e8] * 20, "float32")
    assert ng.tensor(x, device="cuda").sum().item() == 20.0


def test_complex():
    x = rng().random(12) + 1j * rng().random(12)
    check("sum", x)
    check("prod", x.astype("complex64"), rtol=1e-5)
