"""What generated programs call for arrays: new ones, parts of stacks, copies.

They do what NumPy's functions and loops of their own would do there, but take Numba a fraction of the time to compile: there is
one function for all places, and none per literal size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, impl_ret_new_ref
from numba.core.typing.npydecl import parse_dtype
from numba.extending import intrinsic
from numba.np.arrayobj import _empty_nd_impl, _parse_shape, make_array, populate_array

from .runtime import grow


def _sizes(shape: Any) -> Any:
    """The type of a shape, without literal sizes; None if it is no shape."""
    if isinstance(shape, types.Integer):
        return types.intp
    if isinstance(shape, types.UniTuple | types.Tuple):
        if all(isinstance(t, types.Integer) for t in shape.types):
            return types.UniTuple(types.intp, len(shape.types))
    return None


def _rank(sizes: Any) -> int:
    return len(sizes) if isinstance(sizes, types.BaseTuple) else 1


def _new(shape: Any, dtype: Any, zeroed: bool) -> Any:
    sizes = _sizes(shape)
    element = types.float64 if dtype is None else parse_dtype(dtype)
    if sizes is None or element is None:
        return None
    made = types.Array(element, _rank(sizes), "C")

    def codegen(context, builder, signature, args):
        array = _empty_nd_impl(
            context, builder, made, _parse_shape(context, builder, sizes, args[0])
        )
        if zeroed:
            size = builder.mul(array.itemsize, array.nitems)
            cgutils.memset(builder, builder.bitcast(array.data, cgutils.voidptr_t), size, 0)
        return impl_ret_new_ref(context, builder, made, array._getvalue())

    return made(sizes, types.Omitted(None) if dtype is None else dtype), codegen


@intrinsic
def empty(typingctx, shape, dtype=None):
    """``np.empty(shape, dtype)``."""
    return _new(shape, dtype, False)


@intrinsic
def zeros(typingctx, shape, dtype=None):
    """``np.zeros(shape, dtype)``."""
    return _new(shape, dtype, True)


@intrinsic
def window(typingctx, tape, start, shape):
    """The places of a stack from ``start`` on, as an array of this shape."""
    sizes = _sizes(shape)
    if not isinstance(tape, types.Array) or sizes is None:
        return None
    made = types.Array(tape.dtype, _rank(sizes), "C")

    def codegen(context, builder, signature, args):
        stack = make_array(tape)(context, builder, args[0])
        pair = isinstance(sizes, types.BaseTuple)
        shape = cgutils.unpack_tuple(builder, args[2]) if pair else [args[2]]
        strides = [stack.itemsize] * bool(shape)
        for n in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], n))
        array = make_array(made)(context, builder)
        populate_array(
            array,
            data=builder.gep(stack.data, [args[1]]),
            shape=shape,
            strides=strides,
            itemsize=stack.itemsize,
            meminfo=stack.meminfo,
        )
        return impl_ret_borrowed(context, builder, made, array._getvalue())

    return made(tape, types.intp, sizes), codegen


def _order(typingctx: Any, x: Any, y: Any, sign: str) -> Any:
    if not (isinstance(x, types.Integer) and isinstance(y, types.Integer)):
        return None
    t = typingctx.unify_types(types.unliteral(x), types.unliteral(y))

    def codegen(context, builder, signature, args):
        compare = builder.icmp_signed if t.signed else builder.icmp_unsigned
        return builder.select(compare(sign, args[0], args[1]), args[0], args[1])

    return t(t, t), codegen


@intrinsic
def larger(typingctx, x, y):
    """The larger one of two integers."""
    return _order(typingctx, x, y, ">=")


@intrinsic
def smaller(typingctx, x, y):
    """The smaller one of two integers."""
    return _order(typingctx, x, y, "<=")


@lru_cache(maxsize=16)
def nest(rank: int, sign: str) -> Any:
    """``x[...] = y`` (or ``+=``) for arrays of one shape, as an @njit function of both."""
    name = ("copy" if sign == "=" else "add") + f"_{rank}"
    index = ", ".join(f"k{k}" for k in range(rank)) or "()"
    lines = [f"{'    ' * (k + 1)}for k{k} in range(x.shape[{k}]):" for k in range(rank)]
    lines.append(f"{'    ' * (rank + 1)}x[{index}] {sign} y[{index}]")
    return _helper(name, "x, y", lines, {})


@lru_cache(maxsize=16)
def hold(rank: int) -> Any:
    """``hold(tape, used, x)``: an array put on a stack that has this much in use; gives the stack, which may be a longer one."""
    lines = [
        "    n = used + x.size",
        "    if n > tape.size:",
        "        tape = grow(tape, n)",
        "    put(window(tape, used, x.shape), x)",
        "    return tape",
    ]
    names = {"grow": grow, "window": window, "put": nest(rank, "=")}
    return _helper(f"hold_{rank}", "tape, used, x", lines, names)


def _helper(name: str, params: str, lines: list[str], names: dict[str, Any]) -> Any:
    text = "\n".join([f"def {name}({params}):", *lines]) + "\n"
    space: dict[str, Any] = {**names, "__name__": __name__}
    exec(compile(text, f"<nbgrad.njit {name}>", "exec"), space)
    options: Any = {"error_model": "numpy", "nogil": True}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(**options)(space[name])
