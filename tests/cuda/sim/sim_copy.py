import numpy as np
import pytest
from common import on_both, rng, same

import nbgrad as ng

DTYPES = ["float64", "float32", "float16", "complex128", "int64", "int8", "uint8", "bool"]


@pytest.mark.parametrize("src", DTYPES)
def test_conversions(src):
    x = (rng().random((3, 4)) * 3).astype(src)
    for dst in DTYPES:
        on_both(lambda t, d=dst: t.to(getattr(ng, d)), x, rtol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(dtype):
    x = (rng().random((3, 0, 2)) * 3).astype(dtype)
    assert ng.tensor(x, device="cuda").cpu().numpy().shape == (3, 0, 2)
    x = (rng().random((3, 5)) * 3).astype(dtype)
    t = ng.tensor(x, device="cuda")
    np.testing.assert_array_equal(t.cpu().numpy(), x)
    np.testing.assert_array_equal(t[1:, ::-2].cpu().numpy(), x[1:, ::-2])
    assert t.tolist() == x.tolist()


def test_tiled_transpose():
    for shape in ((5, 9), (4, 4), (3, 16), (2, 7)):
        on_both(lambda t: t.transpose(0, 1).contiguous(), rng().random(shape))
        on_both(lambda t: t.transpose(0, 1).clone(), rng().random(shape) > 0.5)


def test_views_share_memory():
    x = ng.zeros(3, 4, device="cuda")
    row = x[1]
    row += 2.0
    x[:, ::2].mul_(3.0)
    np.testing.assert_array_equal(x.cpu().numpy(), [[0] * 4, [6, 2, 6, 2], [0] * 4])
    assert row.data_ptr() == x.data_ptr() + 32
    assert x.transpose(0, 1).stride() == (1, 4)


def assigned(x):
    x = x.clone()
    x[1:, ::2] = 5.0
    x[0] = x[1]
    x[..., -1] = ng.arange(3, dtype=x.dtype, device=x.device)
    x.transpose(0, 1)[1:3].fill_(7) if hasattr(x, "fill_") else None
    return x


def test_assignment():
    on_both(assigned, rng().random((3, 4)))
    on_both(assigned, rng().random((3, 4)).astype("float32"))


def test_overlapping_source_and_target():
    def shift(x):
        x = x.clone()
        x[1:] = x[:-1]
        return x

    on_both(shift, rng().random(9))
    on_both(lambda x: shift(x.flip(0)), rng().random(9))


def test_creation():
    for fn in (
        lambda d: ng.ones(2, 3, device=d),
        lambda d: ng.full((2,), 3, device=d),
        lambda d: ng.arange(5, device=d),
        lambda d: ng.eye(3, device=d, dtype=ng.float32),
        lambda d: ng.zeros_like(ng.ones(2, device=d)),
        lambda d: ng.linspace(0, 1, 5, device=d),
    ):
        same(fn("cuda"), fn("cpu"))


def test_printing():
    t = ng.tensor([[1.0, 2.0]], device="cuda", requires_grad=True)
    assert repr(t) == "tensor([[1., 2.]], device='cuda:0', requires_grad=True)"


def test_unfold_windows_and_their_adjoint():
    def windows(x):
        x = x.clone().requires_grad_()
        w = x.unfold(0, 3, 1)
        (g,) = ng.autograd.grad((w * w.conj()).real.sum(), x)
        return g

    on_both(windows, rng().random(8))
    on_both(windows, rng().random(8) + 1j * rng().random(8))
