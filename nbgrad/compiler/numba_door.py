"""``program.njit``: a compiled program as an ordinary Numba function.

The machine code is called through its address, so nothing is compiled twice and a call costs what filling a table of
pointers costs. Numba does not cache callers of such functions on disk (the address is of this process).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .items import Host
from .run import Runner

STACK_BYTES = 8192  # workspaces up to this size live on the stack
ALIGN = 64


def check_native(runner: Runner, name: str) -> None:
    """Raise if a program needs Python.

    Raises
    ------
    UnsupportedError : some operators have no native code.
    """
    hosts = sorted({s.ins.op for s in runner.layout.steps if isinstance(s, Host)})
    if hosts:
        raise UnsupportedError(
            f"njit of '{name}': no native code for {', '.join(hosts)}, which the compiler runs as eager kernels; "
            "compute these outside and pass the results as arguments."
        )


def workspace_bytes(runner: Runner) -> int:
    """Bytes one running call needs besides its results."""
    layout = runner.layout
    return -(-layout.work_bytes // ALIGN) * ALIGN + layout.scratch_bytes


def accepted(name: str, i: int, t: Any, shape: tuple, dtype: np.dtype) -> Any:
    """The type argument ``i`` is passed as, for a Numba type that serves as this shape and dtype.

    Raises
    ------
    TypingError : it does not; the text is ours.
    """
    from numba import from_dtype, types
    from numba.core.errors import TypingError

    kind = from_dtype(dtype)
    t = types.unliteral(t)
    if isinstance(t, types.Array):
        ordered = t.layout == "C" or t.ndim == 0
        if t.dtype == kind and t.ndim == len(shape) and ordered:
            return t
    elif shape == () and (
        t == kind or (dtype.kind == "f" and isinstance(t, (types.Integer, types.Float)))
    ):
        return kind
    want = f"a {dtype.name} number" if shape == () else f"{dtype.name}{list(shape)}, C-contiguous"
    raise TypingError(
        f"njit of '{name}': argument {i} is {t}; expected {want}. Convert it with .astype() or "
        "np.ascontiguousarray() before the call."
    )


def make_fits(name: str, i: int, shape: tuple, dtype: np.dtype) -> Any:
    """``fits(x)``: whether argument ``i`` has the recorded shape; another type is refused when the caller is typed."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def fits(typingctx: Any, x: Any) -> Any:
        kind = accepted(name, i, x, shape, dtype)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            good = ir.Constant(ir.IntType(1), 1)
            if not isinstance(kind, types.Array):
                return good
            sizes = context.make_array(kind)(context, builder, args[0]).shape
            for d, n in enumerate(shape):
                have = builder.extract_value(sizes, d)
                good = builder.and_(good, builder.icmp_signed("==", have, have.type(n)))
            return good

        return types.boolean(x), codegen

    return intrinsic(fits)


def make_intrinsic(runner: Runner, name: str, fixed: Sequence[int]) -> Any:
    """``call(inputs, outputs, workspace) -> 0-d results``: fills the table of pointers and jumps.

    ``fixed`` are the addresses of captured arrays, which come after the inputs. 0-d inputs are scalars, 0-d
    outputs are returned; an empty tuple as workspace means the stack.
    """
    from llvmlite import ir
    from numba import from_dtype, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    in_specs = runner.in_specs[: len(runner.in_specs) - len(fixed)]
    out_specs = runner.out_specs
    scalars = [from_dtype(d) for s, d in out_specs if s == ()]

    def typed(typingctx: Any, inputs: Any, outputs: Any, workspace: Any) -> Any:
        ins = [
            accepted(name, i, t, *spec)
            for i, (t, spec) in enumerate(zip(inputs, in_specs, strict=True))
        ]
        arrays = [spec for spec in out_specs if spec[0] != ()]
        outs = [
            accepted(name, len(ins) + i, t, *spec)
            for i, (t, spec) in enumerate(zip(outputs, arrays, strict=True))
        ]
        result = types.Tuple(scalars)
        sig = result(types.Tuple(ins), types.Tuple(outs), workspace)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            i64, ptr = ir.IntType(64), ir.IntType(8).as_pointer()
            slots = [
                _address(context, builder, builder.extract_value(args[0], i), t)
                for i, t in enumerate(ins)
            ]
            known = (*fixed, *runner.extra_addresses, *runner.fixed_consts)
            slots += [ir.Constant(i64, a).inttoptr(ptr) for a in known]
            given = iter(range(len(outs)))
            spots = []
            for shape, dtype in out_specs:
                if shape == ():
                    spots.append(
                        cgutils.alloca_once(builder, context.get_data_type(from_dtype(dtype)))
                    )
                    slots.append(spots[-1])
                else:
                    k = next(given)
                    slots.append(
                        _address(context, builder, builder.extract_value(args[1], k), outs[k])
                    )
            slots.append(_space(context, builder, args[2], workspace, workspace_bytes(runner)))
            _jump(context, builder, slots, runner, name)
            return context.make_tuple(builder, result, [builder.load(s) for s in spots])

        return sig, codegen

    typed.__name__ = "call"
    return intrinsic(typed)


def _address(context: Any, builder: Any, value: Any, t: Any) -> Any:
    """Where an argument lies: an array's data, or a number put on the stack."""
    from numba import types
    from numba.core import cgutils

    if isinstance(t, types.Array):
        return context.make_array(t)(context, builder, value).data
    spot = cgutils.alloca_once(builder, context.get_data_type(t))
    builder.store(value, spot)
    return spot


def _space(context: Any, builder: Any, value: Any, t: Any, size: int) -> Any:
    """The workspace: an array's data, or bytes on the stack."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    byte = ir.IntType(8)
    if isinstance(t, types.Array):
        return builder.bitcast(_address(context, builder, value, t), byte.as_pointer())
    space = cgutils.alloca_once(builder, ir.ArrayType(byte, max(size, 1)))
    space.align = ALIGN
    return builder.bitcast(space, byte.as_pointer())


def _jump(context: Any, builder: Any, slots: Sequence[Any], runner: Runner, name: str) -> None:
    """Fill the table of pointers and call the program."""
    from llvmlite import ir
    from numba.core import cgutils

    i64, ptr = ir.IntType(64), ir.IntType(8).as_pointer()
    table = cgutils.alloca_once(builder, ptr, size=runner.slots)
    for i, p in enumerate(slots):
        builder.store(builder.bitcast(p, ptr), builder.gep(table, [ir.Constant(i64, i)]))
    work = -(-runner.layout.work_bytes // ALIGN) * ALIGN
    scratch = builder.gep(slots[-1], [ir.Constant(i64, work)])
    kind = ir.FunctionType(i64, [i64, ptr, i64, ptr])
    target = context.add_dynamic_addr(builder, runner.address, info=f"nbgrad {name}")
    args = [ir.Constant(i64, runner.layout.whole), builder.bitcast(table, ptr)]
    args += [ir.Constant(i64, 0), scratch]
    builder.call(builder.bitcast(target, kind.as_pointer()), args)


_STATUS = """
def into({params}, workspace):
{checks}
    {results}call({inputs}, {outputs}, workspace)
{stores}
    return 0
"""

_ARRAYS = """
def function({params}):
{checks}
{allocate}
    {results}call({inputs}, {outputs}, {workspace})
    return {returned}
"""


def _tuple(names: Sequence[str]) -> str:
    return "(" + "".join(f"{n}, " for n in names) + ")"


def build(runner: Runner, name: str, captured: Sequence[np.ndarray], into: bool) -> Any:
    """The Numba function of a program: returning results, or writing into given arrays."""
    from numba import njit

    fixed = [a.ctypes.data for a in captured]
    check_native(runner, name)
    in_specs = runner.in_specs[: len(runner.in_specs) - len(fixed)]
    xs = [f"x{i}" for i in range(len(in_specs))]
    ys = [f"y{i}" for i in range(len(runner.out_specs))]
    arrays = [y for y, (s, _) in zip(ys, runner.out_specs, strict=True) if s != ()]
    zeros = [y for y in ys if y not in arrays]
    fields = {
        "inputs": _tuple(xs),
        "outputs": _tuple(arrays),
        "results": f"{_tuple(['r_' + z for z in zeros])} = " if zeros else "",
    }
    scope: dict[str, Any] = {"call": make_intrinsic(runner, name, fixed), "np": np}
    scope["alive"] = (runner, *captured)  # machine code and memory whose addresses are built in
    # results go to arrays, 0-d ones to arrays of one element
    out_specs = [(s or (1,), d) for s, d in runner.out_specs]
    for i, (n, spec) in enumerate(zip([*xs, *ys], [*in_specs, *out_specs], strict=True)):
        scope[f"fits_{n}"] = make_fits(name, i, *spec)
    size = workspace_bytes(runner)
    if into:
        names = [*xs, *ys]
        checks = [f"    if not fits_{n}({n}): return {-1 - i}" for i, n in enumerate(names)]
        checks.append(f"    if workspace.size < {size}: return {-1 - len(names)}")
        text = _STATUS.format(
            params=", ".join(names),
            checks="\n".join(checks),
            stores="\n".join(f"    {z}[0] = r_{z}" for z in zeros),
            **fields,
        )
        entry = "into"
    else:
        what = (
            "njit of '" + name.replace("'", "") + "': argument {i} has another shape than recorded"
        )
        checks = [
            f'    if not fits_{n}({n}): raise ValueError("{what.format(i=i)}")'
            for i, n in enumerate(xs)
        ]
        allocate = [
            f"    {y} = np.empty({shape}, np.{dtype.name})"
            for y, (shape, dtype) in zip(ys, runner.out_specs, strict=True)
            if shape != ()
        ]
        big = size > STACK_BYTES
        if big:
            allocate.append(f"    workspace = np.empty({size}, np.uint8)")
        returned = [f"r_{y}" if y in zeros else y for y in ys]
        text = _ARRAYS.format(
            params=", ".join(xs),
            checks="\n".join(checks),
            allocate="\n".join(allocate),
            workspace="workspace" if big else "()",
            returned=returned[0] if len(returned) == 1 else _tuple(returned),
            **fields,
        )
        entry = "function"
    exec(compile(text, f"<nbgrad njit of {name}>", "exec"), scope)
    function = scope[entry]
    function.__doc__ = f"{name}: machine code of nbgrad for Numba code to call."
    return njit(nogil=True)(function)
