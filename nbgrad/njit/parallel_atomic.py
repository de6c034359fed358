"""Atomic additions to array elements, for parallel loops whose iterations add to the same elements."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


def _add(builder: Any, kind: Any, pointer: Any, value: Any) -> None:
    builder.atomic_rmw(
        "fadd" if isinstance(kind, types.Float) else "add", pointer, value, "monotonic"
    )


@intrinsic
def atomic_add(typingctx, array, index, value):
    """``array[index] += value`` that no other thread comes between; ``index`` is a tuple of integers."""
    if not (isinstance(array, types.Array) and isinstance(index, types.BaseTuple)):
        return None
    if not isinstance(array.dtype, types.Float | types.Complex | types.Integer):
        return None
    where = types.UniTuple(types.intp, array.ndim)

    def codegen(context, builder, signature, args):
        kind = signature.args[0].dtype
        a = make_array(signature.args[0])(context, builder, args[0])
        at = cgutils.unpack_tuple(builder, args[1], count=array.ndim)
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], a, at, wraparound=True
        )
        if isinstance(kind, types.Complex):
            v = context.make_complex(builder, kind, args[2])
            for k, part in enumerate((v.real, v.imag)):
                _add(
                    builder,
                    kind.underlying_float,
                    cgutils.gep_inbounds(builder, pointer, 0, k),
                    part,
                )
        else:
            _add(builder, kind, pointer, args[2])
        return context.get_dummy_value()

    return types.void(array, where, array.dtype), codegen
