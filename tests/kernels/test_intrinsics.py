"""The LLVM building blocks: values, types, and the cost and effect of clearing FP flags."""

import math
import platform
import time
import warnings

import numpy as np
import pytest
from llvmlite import binding, ir
from numba import njit
from numba.core.errors import TypingError

from kernels_cpu import intrinsics as ki


@njit(error_model="numpy")
def relu_reciprocal(x, out, clear):
    for i in range(x.size):
        out[i] = ki.select(x[i] > 0, 1 / x[i], 0.0 / x[i])
    if clear:
        ki.clear_fp_flags()


def test_select_evaluates_both_sides_and_branches_on_neither():
    x = np.linspace(-1.0, 1.0, 65)
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        relu_reciprocal(x, out, False)
    np.testing.assert_array_equal(out[x > 0], 1 / x[x > 0])
    assert np.isnan(out[32])
    assert (out[:32] == 0).all()


def test_select_keeps_float32_and_unifies_numbers():
    @njit
    def f(a, b):
        return ki.select(a > b, a, b)

    f(np.float32(1), np.float32(2))
    f(1, 2.5)
    kept = {sig: res.signature.return_type for sig, res in f.overloads.items()}
    assert [str(t) for t in kept.values()] == ["float32", "float64"]


def test_select_refuses_non_numbers():
    @njit
    def f(a):
        return ki.select(True, a, 1.0)

    with pytest.raises(TypingError, match="both must be numbers"):
        f(np.ones(3))


@pytest.mark.parametrize(
    ("dtype", "to_bits", "from_bits", "integer"),
    [
        (np.float64, ki.f64_bits, ki.bits_f64, np.int64),
        (np.float32, ki.f32_bits, ki.bits_f32, np.int32),
    ],
)
def test_bit_casts_round_trip(dtype, to_bits, from_bits, integer):
    @njit
    def cast(x, bits, back):
        for i in range(x.size):
            bits[i] = to_bits(x[i])
            back[i] = from_bits(bits[i])

    x = np.array([0.0, -0.0, 1.0, -math.pi, np.inf, np.nan, 1e-310, 1e300], np.float64)
    with np.errstate(over="ignore", under="ignore"):
        x = x.astype(dtype)
    bits = np.empty(x.size, integer)
    back = np.empty_like(x)
    cast(x, bits, back)
    np.testing.assert_array_equal(bits, x.view(integer))
    np.testing.assert_array_equal(back.view(integer), x.view(integer))


def test_integer_literals_do_not_break_the_float32_cast():
    @njit
    def power_of_two(n):
        return ki.bits_f32((n + 127) << 23)

    assert power_of_two(np.int32(-3)) == 0.125


def test_shift_fma_copysign_rint_sqrt_fabs():
    @njit
    def f(x):
        product = x * x
        return (
            ki.lshr(-1, 60),
            ki.fma(x, x, -product),
            ki.copysign(x, -0.0),
            ki.rint(2.5),
            ki.sqrt(x),
            ki.fabs(-x),
        )

    x = 1 + 2.0**-30
    assert f(x) == (15, 2.0**-60, -x, 2.0, math.sqrt(x), x)


def test_clearing_flags_silences_numpy():
    x = np.zeros(8)
    out = np.empty_like(x)
    relu_reciprocal(x, out, False)
    with np.errstate(all="raise"):
        # NumPy clears the flags before each of its loops and reads them after, so the effect
        # is seen through a ufunc that Numba builds: NumPy reads the flags its loop leaves.
        _ufunc(clear=True)(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ufunc(clear=False)(x)
    assert len(caught) == 1


def _ufunc(clear):
    from numba import guvectorize

    def kernel(x, out):
        for i in range(x.size):
            out[i] = 1.0 / x[i]
        if clear:
            ki.clear_fp_flags()

    return guvectorize(["void(float64[:], float64[:])"], "(n)->(n)", nopython=True, target="cpu")(
        kernel
    )


def test_clearing_flags_costs_nanoseconds():
    @njit
    def many(n):
        for _ in range(n):
            ki.clear_fp_flags()

    many(1)
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        many(100_000)
        best = min(best, time.perf_counter() - start)
    assert best / 100_000 < 100e-9  # about 10 ns; the bound allows for a busy machine


@pytest.mark.parametrize(
    ("triple", "instruction"),
    [("x86_64-unknown-linux-gnu", "ldmxcsr"), ("aarch64-unknown-linux-gnu", "FPSR")],
)
def test_flag_clearing_is_one_instruction_per_target(triple, instruction):
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = triple
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "clear")
    builder = ir.IRBuilder(fn.append_basic_block())
    ki.emit_clear_fp_flags(builder)
    builder.ret_void()
    try:
        target = binding.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this llvmlite has no back end for {triple} (on {platform.machine()})")
    assembly = target.create_target_machine().emit_assembly(binding.parse_assembly(str(module)))
    assert instruction.lower() in assembly.lower()
