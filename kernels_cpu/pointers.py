"""Raw memory access for generated loops: typed pointers from addresses, stack tiles, FP-flag clearing."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from .codes import KINDS, TILE
from .intrinsics import clear_all_fp_flags, clear_fp_flags, select


def _numba_type(name: str):
    return from_dtype(np.dtype(KINDS[name]))


def _make(name: str):
    elem = _numba_type(name)
    # Numba cannot store through a pointer to boolean: such memory is seen as bytes
    cell = types.uint8 if name == "b1" else elem
    pointer = types.CPointer(cell)

    def as_ptr(typingctx, address):
        def codegen(context, builder, sig, args):
            return builder.inttoptr(args[0], context.get_value_type(pointer))

        return pointer(types.int64), codegen

    def tile(typingctx):
        def codegen(context, builder, sig, args):
            data = context.get_data_type(cell)
            space = cgutils.alloca_once(builder, ir.ArrayType(data, TILE))
            space.align = 64
            return builder.bitcast(space, context.get_value_type(pointer))

        return pointer(), codegen

    def load(typingctx, address):
        def codegen(context, builder, sig, args):
            p = builder.inttoptr(args[0], context.get_data_type(elem).as_pointer())
            return context.data_model_manager[elem].load_from_data_pointer(builder, p)

        return elem(types.int64), codegen

    def store(typingctx, address, value):
        def codegen(context, builder, sig, args):
            value = context.cast(builder, args[1], sig.args[1], elem)
            p = builder.inttoptr(args[0], context.get_data_type(elem).as_pointer())
            data = context.data_model_manager[elem].as_data(builder, value)
            builder.store(data, p)
            return context.get_dummy_value()

        return types.void(types.int64, value), codegen

    return {
        f"ptr_{name}": intrinsic(as_ptr),
        f"tile_{name}": intrinsic(tile),
        f"load_{name}": intrinsic(load),
        f"store_{name}": intrinsic(store),
    }


NAMESPACE: dict = {
    "TILE": TILE,
    "clear_fp_flags": clear_fp_flags,
    "clear_all_fp_flags": clear_all_fp_flags,
    "select": select,
}
for _name in KINDS:
    NAMESPACE.update(_make(_name))
