"""LLVM-level building blocks that Numba does not expose: select, bit casts, fma, FP flags.

Everything here is usable in ``@njit`` code only.  Nothing is compiled at import.

* ``select(c, a, b)`` is LLVM's ``select``: both sides are evaluated, there is no branch, and a
  loop that uses it can be vectorised.  A Python ternary becomes control flow in Numba (which also
  doubles its compile time).
* ``f64_bits / bits_f64 / f32_bits / bits_f32`` reinterpret a float as a *signed* integer of its
  width and back.  Signed, because Numba promotes ``uint64 op int64`` to ``float64``.
* ``lshr(i, k)`` is a logical shift right of a signed integer.
* ``fma(a, b, c)`` is ``a*b + c`` with one rounding; a library call where the CPU has no FMA.
* ``copysign(x, s)``, ``rint(x)`` (half to even), ``sqrt(x)``, ``fabs(x)`` keep float32 as float32.
* ``clear_fp_flags()`` clears the sticky floating-point exception flags, so that NumPy raises no
  RuntimeWarning after a kernel that legitimately met ``log(0)`` or ``0/0``.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_F32 = ir.FloatType()
_F64 = ir.DoubleType()

_SSE_FLAGS = 0x3F  # the six sticky flags of MXCSR; the other bits are masks and modes


def declare(emit: Callable) -> Any:
    """Numba's ``intrinsic``, typed so that checkers do not ask callers for the typing context."""
    return intrinsic(emit)


def _same_float(name, *args):
    """The common type of ``args``, which must be float32 or float64 without promotion."""
    first = args[0]
    if first not in (types.float32, types.float64) or any(a != first for a in args):
        raise TypingError(f"{name}: arguments must all be float64 or all be float32, got {args}")
    return first


def _llvm_call(builder, name, args):
    """Call the overloaded LLVM intrinsic ``name`` on ``args`` of one floating type."""
    llty = args[0].type
    suffix = "f32" if llty == _F32 else "f64"
    fnty = ir.FunctionType(llty, [llty] * len(args))
    fn = cgutils.get_or_insert_function(builder.module, fnty, f"llvm.{name}.{suffix}")
    return builder.call(fn, args)


@declare
def select(typingctx, cond, a, b):
    """``a`` where ``cond`` else ``b``; both evaluated, no branch.

    ``a`` and ``b`` are brought to their common Numba type (int literals adapt to it).
    """
    common = typingctx.unify_types(types.unliteral(a), types.unliteral(b))
    if common is None or not isinstance(common, (types.Number, types.Boolean)):
        raise TypingError(f"select: cannot choose between {a} and {b}; both must be numbers")
    if not isinstance(types.unliteral(cond), (types.Boolean, types.Integer)):
        raise TypingError(f"select: the condition must be a bool, got {cond}")

    def codegen(context, builder, signature, args):
        flag = context.cast(builder, args[0], signature.args[0], types.boolean)
        return builder.select(flag, args[1], args[2])

    return common(types.unliteral(cond), common, common), codegen


def _bitcast(name, source, target, llvm_target):
    """An intrinsic that reinterprets the bits of ``source`` as ``target``.

    An int64 also serves where 32 bits are wanted: Numba's integer literals make one of any
    int32 expression, so its low half is taken.
    """
    accepted = (source, types.int64) if source == types.int32 else (source,)

    def cast(typingctx, x):
        kind = types.unliteral(x)
        if kind not in accepted:
            raise TypingError(f"{name}: expected {source}, got {x}")

        def codegen(context, builder, signature, args):
            value = args[0]
            if kind != source:
                value = builder.trunc(value, _I32)
            return builder.bitcast(value, llvm_target)

        return target(kind), codegen

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The bits of a {source} as {target}."
    return declare(cast)


f64_bits = _bitcast("f64_bits", types.float64, types.int64, _I64)
bits_f64 = _bitcast("bits_f64", types.int64, types.float64, _F64)
f32_bits = _bitcast("f32_bits", types.float32, types.int32, _I32)
bits_f32 = _bitcast("bits_f32", types.int32, types.float32, _F32)


@declare
def lshr(typingctx, value, count):
    """Logical shift right of a signed integer, in the type of ``value``."""
    kind = types.unliteral(value)
    if kind not in (types.int32, types.int64) or not isinstance(count, types.Integer):
        raise TypingError(f"lshr: expected (int32 or int64, int), got ({value}, {count})")

    def codegen(context, builder, signature, args):
        return builder.lshr(args[0], args[1])

    return kind(kind, kind), codegen


@declare
def fma(typingctx, a, b, c):
    """``a*b + c`` rounded once."""
    kind = _same_float("fma", a, b, c)

    def codegen(context, builder, signature, args):
        return _llvm_call(builder, "fma", args)

    return kind(kind, kind, kind), codegen


@declare
def copysign(typingctx, x, sign):
    """The magnitude of ``x`` with the sign bit of ``sign``."""
    kind = _same_float("copysign", x, sign)

    def codegen(context, builder, signature, args):
        return _llvm_call(builder, "copysign", args)

    return kind(kind, kind), codegen


def _unary(name, llvm_name, doc):
    """An intrinsic for a unary LLVM floating-point intrinsic."""

    def call(typingctx, x):
        kind = _same_float(name, x)

        def codegen(context, builder, signature, args):
            return _llvm_call(builder, llvm_name, args)

        return kind(kind), codegen

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return declare(call)


rint = _unary("rint", "rint", "``x`` rounded to the nearest integer, ties to even.")
sqrt = _unary("sqrt", "sqrt", "Correctly rounded square root; NaN below zero.")
fabs = _unary("fabs", "fabs", "``x`` with its sign bit cleared.")


def _clear_sse(builder):
    """MXCSR &= ~flags, through memory: the instructions have no register form."""
    pointer = ir.PointerType(ir.IntType(8))
    fnty = ir.FunctionType(ir.VoidType(), [pointer])
    slot = cgutils.alloca_once(builder, _I32)
    address = builder.bitcast(slot, pointer)
    store = cgutils.get_or_insert_function(builder.module, fnty, "llvm.x86.sse.stmxcsr")
    load = cgutils.get_or_insert_function(builder.module, fnty, "llvm.x86.sse.ldmxcsr")
    builder.call(store, [address])
    status = builder.load(slot)
    builder.store(builder.and_(status, ir.Constant(_I32, ~_SSE_FLAGS & 0xFFFFFFFF)), slot)
    builder.call(load, [address])


def _clear_neon(builder):
    """FPSR := 0.  It holds sticky flags only; masks and modes live in FPCR."""
    fnty = ir.FunctionType(ir.VoidType(), [_I64])
    fn = cgutils.get_or_insert_function(builder.module, fnty, "llvm.aarch64.set.fpsr")
    builder.call(fn, [ir.Constant(_I64, 0)])


def _clear_libm(builder):
    """``feclearexcept(FE_ALL_EXCEPT)``: its argument is masked by the library."""
    fnty = ir.FunctionType(_I32, [_I32])
    fn = cgutils.get_or_insert_function(builder.module, fnty, "feclearexcept")
    builder.call(fn, [ir.Constant(_I32, _SSE_FLAGS)])


def emit_clear_fp_flags(builder):
    """Emit the flag clearing that fits the target of ``builder``'s module."""
    triple = builder.module.triple
    if triple.startswith(("x86_64", "i686", "i386", "amd64")):
        _clear_sse(builder)
    elif triple.startswith(("aarch64", "arm64")):
        _clear_neon(builder)
    else:
        _clear_libm(builder)


@declare
def clear_fp_flags(typingctx):
    """Clear the sticky floating-point exception flags of this thread.

    Call it after the last store of a kernel: LLVM may sink pure arithmetic whose result lives
    in a register below the call, but it cannot move a store across it.
    """

    def codegen(context, builder, signature, args):
        emit_clear_fp_flags(builder)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def clear_all_fp_flags(typingctx):
    """As `clear_fp_flags`, and the x87 unit's too: some libm functions (fmod) compute there."""

    def codegen(context, builder, signature, args):
        _clear_libm(builder)
        return context.get_dummy_value()

    return types.void(), codegen
