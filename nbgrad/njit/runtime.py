"""What generated programs call: places on tapes, sums whose order is free, helpers made from operator bodies."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

REORDER = ("reassoc", "nsz", "contract")


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index_type: Any, index: Any) -> Any:
    """The address of an element whose index is neither negative nor too large."""
    a = make_array(kind)(context, builder, array)
    if isinstance(index_type, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, index, len(index_type))
        pairs = zip(parts, index_type.types)
    else:
        pairs = iter([(index, index_type)])
    where = [context.cast(builder, i, t, types.intp) for i, t in pairs]
    return cgutils.get_item_pointer(context, builder, kind, a, where, wraparound=False)


@intrinsic
def get(typingctx, array, index):
    """``array[index]`` for an index that is not negative."""
    if not isinstance(array, types.Array):
        return None

    def codegen(context, builder, signature, args):
        kind, index_type = signature.args
        ptr = _pointer(context, builder, kind, args[0], index_type, args[1])
        return context.unpack_value(builder, kind.dtype, ptr)

    return array.dtype(array, index), codegen


@intrinsic
def put(typingctx, array, index, value):
    """``array[index] = value`` for an index that is not negative."""
    if not isinstance(array, types.Array):
        return None

    def codegen(context, builder, signature, args):
        kind, index_type, value_type = signature.args
        ptr = _pointer(context, builder, kind, args[0], index_type, args[1])
        context.pack_value(
            builder, kind.dtype, context.cast(builder, args[2], value_type, kind.dtype), ptr
        )
        return context.get_dummy_value()

    return types.void(array, index, value), codegen


@intrinsic
def add_to(typingctx, array, index, value):
    """``array[index] += value`` for an index that is not negative."""
    if not isinstance(array, types.Array):
        return None

    def codegen(context, builder, signature, args):
        kind, index_type, value_type = signature.args
        ptr = _pointer(context, builder, kind, args[0], index_type, args[1])
        old = context.unpack_value(builder, kind.dtype, ptr)
        more = context.cast(builder, args[2], value_type, kind.dtype)
        add = context.get_function(operator.add, kind.dtype(kind.dtype, kind.dtype))
        context.pack_value(builder, kind.dtype, add(builder, (old, more)), ptr)
        return context.get_dummy_value()

    return types.void(array, index, value), codegen


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


@intrinsic
def chosen(typingctx, condition, x, y):
    """``x if condition else y``, both computed: without a jump, so that loops of it vectorise."""
    t = typingctx.unify_types(x, y)
    if not isinstance(t, types.Number | types.Boolean):
        return None

    def codegen(context, builder, signature, args):
        u = context.cast(builder, args[1], signature.args[1], t)
        v = context.cast(builder, args[2], signature.args[2], t)
        return builder.select(args[0], u, v)

    return t(types.boolean, x, y), codegen


@njit(error_model="numpy")
def zdiv(g, y):
    """``g / y``, and 0 where ``g`` is 0: the cotangent of a quotient's numerator."""
    return chosen(g != 0, g / y, g)  # type: ignore[call-arg]


@njit(error_model="python")
def checked_floordiv(x, y):
    """``x // y`` of integers; raises for 0."""
    return x // y


@njit(error_model="python")
def checked_mod(x, y):
    """``x % y`` of integers; raises for 0."""
    return x % y


WHOLE = {"floordiv": checked_floordiv, "mod": checked_mod}


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
def _extent(array) -> Any:
    """The addresses an array's elements lie between."""
    first = _address(array)  # type: ignore[call-arg]
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
    from .functions import RULES_OF

    xs = inputs([np.dtype(k) for k in kinds])
    out = REGISTRY[RULES_OF.get(name, name)].body(*xs)
    lines, results = emit(
        [out], lambda e, a: scalar.template(e.op, e.dtype, [x.dtype for x in e.args], list(a))
    )
    body = "".join(f"    {line}\n" for line in lines)
    text = f"def {name}({', '.join(e.value for e in xs)}):\n{body}    return {results[0]}\n"
    space: dict[str, Any] = {**NAMESPACE, "__name__": __name__}
    exec(compile(text, f"<nbgrad {name}>", "exec"), space)
    return njit(space[name])
