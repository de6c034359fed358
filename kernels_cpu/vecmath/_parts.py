"""What the vecmath functions are built from: decorator, polynomials, error-free transformations.

No fast-math flag is set anywhere: ``contract`` would allow LLVM to fuse a product into one of the
differences of an error-free transformation.  Fusing is asked for where it is harmless instead:
``mad`` and ``poly`` emit ``llvm.fmuladd`` (one FMA where the CPU has it, multiply and add
elsewhere), ``fma`` guarantees a single rounding where an exact product is needed.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.core.errors import TypingError

from kernels_cpu.intrinsics import declare, select

# ``forceinline`` marks the LLVM function alwaysinline, which is what lets a caller's loop be
# vectorised; ``error_model`` removes the zero-division branch.
JIT_OPTIONS: Any = {"forceinline": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def scalar(function: Callable) -> Any:
    """Declare a function of this package: inlined by LLVM, IEEE arithmetic."""
    return njit(**JIT_OPTIONS)(function)


_FLOATS = (types.float64, types.float32)


def _require_float(name, *kinds):
    if kinds[0] not in _FLOATS or any(kind != kinds[0] for kind in kinds):
        raise TypingError(f"{name}: arguments must all be float64 or all be float32, got {kinds}")


def _fmuladd(builder, a, b, c):
    suffix = "f64" if a.type == ir.DoubleType() else "f32"
    fnty = ir.FunctionType(a.type, [a.type] * 3)
    fn = cgutils.get_or_insert_function(builder.module, fnty, f"llvm.fmuladd.{suffix}")
    return builder.call(fn, [a, b, c])


@declare
def mad(typingctx, a, b, c):
    """``a*b + c``, fused where that is fast."""
    kinds = [types.unliteral(kind) for kind in (a, b, c)]
    _require_float("mad", *kinds)

    def codegen(context, builder, signature, args):
        return _fmuladd(builder, *args)

    return kinds[0](*kinds), codegen


@declare
def poly(typingctx, x, coefficients):
    """Horner's rule: ``coefficients`` is a global tuple, lowest degree first.

    Unrolled here rather than in Python source: it costs Numba's front end one call.
    """
    _require_float("poly", x)
    if not isinstance(coefficients, types.UniTuple):
        raise TypingError(f"poly: expected a tuple of floats, got {coefficients}")

    def codegen(context, builder, signature, args):
        point = args[0]
        terms = cgutils.unpack_tuple(builder, args[1])
        if point.type != terms[0].type:
            terms = [builder.fptrunc(c, point.type) for c in terms]
        total = terms[-1]
        for c in reversed(terms[:-1]):
            total = _fmuladd(builder, total, point, c)
        return total

    return x(x, coefficients), codegen


def _pair_intrinsic(name, emit, doc):
    """An intrinsic ``(a, b) -> (high, low)`` with ``high + low`` equal to the exact result."""

    def pair(typingctx, a, b):
        _require_float(name, a, b)
        result = types.UniTuple(a, 2)

        def codegen(context, builder, signature, args):
            return context.make_tuple(builder, result, emit(builder, *args))

        return result(a, b), codegen

    pair.__name__ = pair.__qualname__ = name
    pair.__doc__ = doc
    return declare(pair)


def _emit_two_sum(builder, a, b):
    total = builder.fadd(a, b)
    b_part = builder.fsub(total, a)
    a_part = builder.fsub(total, b_part)
    return total, builder.fadd(builder.fsub(a, a_part), builder.fsub(b, b_part))


def _emit_fast_two_sum(builder, a, b):
    total = builder.fadd(a, b)
    return total, builder.fadd(builder.fsub(a, total), b)


def _emit_two_prod(builder, a, b):
    product = builder.fmul(a, b)
    fnty = ir.FunctionType(a.type, [a.type] * 3)
    suffix = "f64" if a.type == ir.DoubleType() else "f32"
    fn = cgutils.get_or_insert_function(builder.module, fnty, f"llvm.fma.{suffix}")
    return product, builder.call(fn, [a, b, builder.fneg(product)])


two_sum = _pair_intrinsic("two_sum", _emit_two_sum, "Knuth: ``a + b`` exactly, any order.")
fast_two_sum = _pair_intrinsic(
    "fast_two_sum", _emit_fast_two_sum, "Dekker: ``a + b`` exactly if ``|a| >= |b|`` or ``a == 0``."
)
two_prod = _pair_intrinsic("two_prod", _emit_two_prod, "``a * b`` exactly, by FMA.")


@scalar
def clamp(x, low, high):
    """``x`` within ``[low, high]``; NaN stays NaN."""
    x = select(x < low, low, x)
    return select(x > high, high, x)
