"""What generated programs call: places on tapes, sums whose order is free, helpers made from operator bodies."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

REORDER = ("reassoc", "nsz", "contract")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    a = make_array(array_type)(context, builder, array)
    return builder.gep(a.data, [position])


@intrinsic
def get(typingctx, tape, position):
    """``tape[position]`` without index checks."""
    if not isinstance(tape, types.Array):
        return None

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        where = context.cast(builder, args[1], signature.args[1], types.intp)
        ptr = _pointer(context, builder, kind, args[0], where)
        return context.unpack_value(builder, kind.dtype, ptr)

    return tape.dtype(tape, position), codegen


@intrinsic
def put(typingctx, tape, position, value):
    """``tape[position] = value`` without index checks."""
    if not isinstance(tape, types.Array):
        return None

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        where = context.cast(builder, args[1], signature.args[1], types.intp)
        ptr = _pointer(context, builder, kind, args[0], where)
        v = context.cast(builder, args[2], signature.args[2], kind.dtype)
        context.pack_value(builder, kind.dtype, v, ptr)
        return context.get_dummy_value()

    return types.void(tape, position, value), codegen


def _free_sum(context: Any, builder: Any, t: Any, x: Any, y: Any) -> Any:
    if isinstance(t, types.Complex):
        a = context.make_complex(builder, t, x)
        b = context.make_complex(builder, t, y)
        out = context.make_complex(builder, t)
        out.real = builder.fadd(a.real, b.real, flags=REORDER)
        out.imag = builder.fadd(a.imag, b.imag, flags=REORDER)
        return out._getvalue()
    return builder.fadd(x, y, flags=REORDER)


@intrinsic
def radd(typingctx, x, y):
    """``x + y`` whose order among other sums is free, so that loops of it vectorise."""
    t = typingctx.unify_types(x, y)
    if not isinstance(t, types.Float | types.Complex):
        return None

    def codegen(context, builder, signature, args):
        u = context.cast(builder, args[0], signature.args[0], t)
        v = context.cast(builder, args[1], signature.args[1], t)
        return _free_sum(context, builder, t, u, v)

    return t(x, y), codegen


@njit(inline="never")
def grow(tape, need):
    """A longer copy of a tape."""
    out = np.empty(max(need, 2 * tape.size, 256), tape.dtype)
    for i in range(tape.size):
        out[i] = tape[i]
    return out


@intrinsic
def _address(typingctx, array):
    """The address of an array's first element."""

    def codegen(context, builder, signature, args):
        a = make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(a.data, cgutils.intp_t)

    return types.intp(array), codegen


@njit
def _extent(array):
    """The addresses an array's elements lie between."""
    first = _address(array)
    last = first + array.itemsize
    for k in range(array.ndim):
        step = array.strides[k] * (array.shape[k] - 1)
        if step > 0:
            last += step
        else:
            first += step
    return first, last


@njit
def disjoint(a, b):
    """Whether two arrays share no memory, judged by the ranges of their addresses."""
    if a.size == 0 or b.size == 0:
        return True
    first_a, last_a = _extent(a)
    first_b, last_b = _extent(b)
    return last_a <= first_b or last_b <= first_a


@lru_cache(maxsize=256)
def scalar_helper(name: str, kinds: tuple) -> Any:
    """An operator of the engine as an @njit function of scalars."""
    from kernels_cpu import scalar
    from kernels_cpu.namespace import NAMESPACE

    from ..codegen.expr import emit, inputs
    from ..op.base import REGISTRY

    from .scalars import RULES_OF

    xs = inputs([np.dtype(k) for k in kinds])
    out = REGISTRY[RULES_OF.get(name, name)].body(*xs)
    lines, results = emit([out], lambda e, a: scalar.template(e.op, e.dtype, [x.dtype for x in e.args], list(a)))
    body = "".join(f"    {line}\n" for line in lines)
    text = f"def {name}({', '.join(e.value for e in xs)}):\n{body}    return {results[0]}\n"
    space: dict[str, Any] = {**NAMESPACE, "__name__": __name__}
    exec(compile(text, f"<nbgrad {name}>", "exec"), space)
    return njit(space[name])


__all__ = ["cgutils", "get", "grow", "put", "radd", "scalar_helper"]
