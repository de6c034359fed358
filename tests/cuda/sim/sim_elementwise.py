import numpy as np
import pytest
from common import on_both, rng, same

import nbgrad as ng
from nbgrad import dtypes as dt
from nbgrad.autograd import grad
from nbgrad.op import REGISTRY, Elementwise
from nbgrad.tensor import Tensor

OPERATORS = sorted(n for n, op in REGISTRY.items() if isinstance(op, Elementwise) and op.tests)
NARROW = {dt.float64: dt.float32, dt.complex128: dt.complex64}
COMPLEX = ["add", "mul", "div", "exp", "log", "sqrt", "sin", "tanh", "pow", "abs", "conj", "sgn"]


def samples(op, dtype):
    """One plain and one broadcast call from the operator's declaration."""
    found = op.tests(np.random.default_rng(3), dtype)
    return found[:1] + found[3:4]


def tensors(arrays, dtype, device):
    """Arguments in ``dtype``, differentiable where they can be."""
    made = []
    for a in map(np.asarray, arrays):
        t = Tensor(a.astype(dtype) if a.dtype.kind in "fc" else a.copy()).to(device)
        made.append(t.requires_grad_() if a.dtype.kind in "fc" else t)
    return made


def value_and_gradients(op, xs):
    """The result and the gradients of every argument that has one."""
    out = op(*xs)
    wanted = [x for x, d in zip(xs, op.defined, strict=True) if d and x.requires_grad]
    if not out.requires_grad or not wanted:
        return [out]
    g = Tensor(np.full(out.shape, 0.7, out.dtype)).to(out.device)
    return [out, *grad(out, wanted, grad_outputs=g)]


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name):
    """Forward and first derivatives of every operator, on its own samples; float32 against float64."""
    op = REGISTRY[name]
    dtype = dt.int64 if op.promotion in ("integral", "logical") else dt.float64
    checked = 0
    for k, sample in enumerate(samples(op, dtype)):
        want = value_and_gradients(op, tensors(sample.args, dtype, "cpu"))
        same(value_and_gradients(op, tensors(sample.args, dtype, "cuda")), want, 1e-11)
        if k == 0 and dtype == dt.float64:
            got = value_and_gradients(op, tensors(sample.args, dt.float32, "cuda"))
            for g, w in zip(got, want, strict=True):
                assert g.dtype == NARROW.get(w.dtype, w.dtype)
                a, b = g.detach().cpu().numpy(), w.detach().numpy()
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
        checked += 1
    assert checked


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_operator(name):
    op = REGISTRY[name]
    sample = samples(op, dt.complex128)[0]
    want = value_and_gradients(op, tensors(sample.args, dt.complex128, "cpu"))
    same(value_and_gradients(op, tensors(sample.args, dt.complex128, "cuda")), want, 1e-11)


INTEGER = ["add", "sub", "mul", "neg", "abs", "pow", "bitwise_and", "bitwise_xor", "bitwise_not"]


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_integers_wrap_as_on_the_cpu(name, dtype):
    if name in ("neg",) and dtype == "uint8":
        values = np.array([0, 1, 255], "uint8")
    else:
        values = np.array([3, 100, 7, 0], dtype)
    other = np.array([2, 100, 3, 5], dtype)
    op = REGISTRY[name]
    on_both(op, *([values, other] if op.nin == 2 else [values]))


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64])
def test_vector_loop_and_its_tail(n):
    on_both(lambda x: x * x + 1.5, np.arange(n, dtype="float32"), rtol=1e-6)
    on_both(lambda x: x > 3, np.arange(n, dtype="float64"))


def test_misaligned_slices_take_the_scalar_loop():
    x = rng().random(64)
    on_both(lambda t: ng.exp(t[1:50]) + t[3:52], x)


LAYOUTS = {
    "transposed": lambda x: x.transpose(0, 1),
    "step": lambda x: x[::2, 1::3],
    "flipped": lambda x: x[::-1],
    "column": lambda x: x[:, 2],
    "expanded": lambda x: x[:, :1].expand(4, 5),
    "diagonal": lambda x: ng.diagonal(x),
    "scalar": lambda x: x[1, 2],
    "empty": lambda x: x[2:2],
    "three dimensions": lambda x: x[None, ::2, ::-2].transpose(0, 2),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name):
    from_numpy = rng().random((4, 6))

    def numpy_strides(x):
        # slices with a negative step are nbgrad's own views
        return ng.sin(LAYOUTS[name](x)) * 2.0

    on_both(numpy_strides, from_numpy)


def test_broadcasting():
    r = rng()
    on_both(lambda a, b: a * b + a, r.random((3, 1, 4)), r.random((2, 1)))
    on_both(lambda a, b: a - b, r.random((3, 4)), r.random(()))
    on_both(lambda a, b: a / b, r.random((2, 1)), r.random((1, 3)))
    on_both(lambda a, b: a + b, r.random((0, 3)), r.random((3,)))


def test_dtypes_promote_as_on_the_cpu():
    x = np.arange(4)
    on_both(lambda a, b: a + b, x.astype("int32"), x.astype("float32"))
    on_both(lambda a: a / 2, x)
    on_both(lambda a: a * 0.5, x.astype("float32"))
    on_both(lambda a, b: ng.where(a > 1, b, 0.0), x, x.astype("float32"))
    on_both(lambda a: a * (1 + 2j), x.astype("float64"))
    on_both(lambda a, b: (a < b) & (a != 2), x, x[::-1].copy())


def test_float16_is_computed_in_float32():
    x = (rng().random(20) * 8).astype("float16")
    on_both(lambda a: ng.exp(a) * a + 1, x, rtol=2e-3)


def test_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 1.0, -1.0])
    names = [
        "exp",
        "log",
        "sqrt",
        "sin",
        "tanh",
        "erf",
        "lgamma",
        "floor",
        "rsqrt",
        "expm1",
        "log1p",
        "atanh",
        "sigmoid",
        "relu",
        "sign",
    ]
    with np.errstate(all="ignore"):
        for name in names:
            on_both(getattr(ng, name), x)
        on_both(lambda a: ng.maximum(a, a.flip(0)) + ng.pow(a, 2.0), x)


def test_numbers_from_the_host():
    x = ng.tensor([1.0, 2.0], device="cuda")
    two = ng.tensor(2.0)  # 0-d on the CPU mixes with any device
    assert str((x * two).device) == "cuda:0"
    np.testing.assert_array_equal((two - x).cpu().numpy(), [1.0, 0.0])
