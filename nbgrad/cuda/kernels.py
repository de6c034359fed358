"""The CUDA kernels of nbgrad's operators: registered when the first device tensor is made."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cuda import elementwise as loops
from kernels_cuda import matmul as products
from kernels_cuda import scalar

from .. import dtypes as dt
from .. import layout as lay
from ..codegen.expr import Expr, emit
from ..errors import DTypeError, message
from ..layout import Layout, broadcast_shapes
from ..op.base import REGISTRY
from ..op.derive import sum_to_raw
from ..op.kernels import trace_body
from . import indexing
from .array import DeviceArray, blank, empty, full, guarded, launch, number
from .operands import common_device
from .reducing import reduce
from .streams import current_stream

F16, F32 = dt.float16, dt.float32


# -- elementwise ------------------------------------------------------------------------------------


def program(ins: Sequence[Expr], outs: Sequence[Expr], stored: Sequence[np.dtype]) -> loops.Program:
    """Emit expressions as a CUDA loop body; ``stored`` are the dtypes of the operands in memory.

    Raises
    ------
    NotImplementedError : a primitive has no CUDA form for its dtype.
    """

    def text(e: Expr, args: Sequence[str]) -> str:
        return scalar.template(e.op, e.dtype, [a.dtype for a in e.args], list(args))

    body, results = emit(outs, text)
    return loops.Program(
        tuple(e.value for e in ins),
        tuple(body),
        tuple(results),
        tuple(stored),
        tuple(e.dtype for e in ins),
    )


def wide(dtype: np.dtype) -> np.dtype:
    """float16 is stored, float32 is computed in."""
    return F32 if dtype == F16 else dtype


@functools.lru_cache(maxsize=4096)
def forward_program(op: Any, stored: tuple[np.dtype, ...], half: bool) -> loops.Program:
    """The loop body of an elementwise operator for operands in ``stored``; ``half`` keeps the result in float16."""
    try:
        xs, out = trace_body(op, tuple(map(wide, stored)))
        result = F16 if half and out.dtype == F32 else out.dtype
        return program(xs, [out], [*stored, result])
    except NotImplementedError as error:
        names = ", ".join(d.name for d in stored)
        raise DTypeError(
            message(
                op.name,
                "the operands' dtype",
                names,
                "one the CUDA backend has a kernel for",
                f"({error}.) Move the tensors to the CPU with .cpu() for this operation.",
            )
        ) from None


def operands(arrays: Sequence[Any], shape: tuple) -> list[Any]:
    """Views broadcast to ``shape``, and numbers."""
    return [a.view(shape) if isinstance(a, DeviceArray) else number(a) for a in arrays]


def stored_as(a: Any) -> np.dtype:
    """The dtype a kernel reads an operand in: float16 numbers are passed as float32."""
    return F32 if type(a) is np.ndarray and a.dtype == F16 else a.dtype


@guarded
def elementwise(op: Any, arrays: Sequence[Any]) -> DeviceArray:
    """Run an elementwise operator on device arrays (and host numbers)."""
    device = common_device(op.name, arrays)
    stored = tuple(map(stored_as, arrays))
    shape = broadcast_shapes(*(a.shape for a in arrays), op=op.name)
    p = forward_program(op, stored, F16 in {a.dtype for a in arrays})
    out = empty(shape, dt.as_dtype(p.dtypes[-1]), device)
    args = [*operands(arrays, shape), out.view()]
    launch(device, lambda: loops.run(p, shape, args, current_stream()))
    return out


@functools.lru_cache(maxsize=4096)
def vjp_program(plan: Any) -> loops.Program | None:
    """The fused loop body of all cotangents of an elementwise call (None if each is the cotangent itself)."""
    kept = [
        t for t, passes in zip(plan.terms, plan.passes, strict=True) if t is not None and not passes
    ]
    return program(plan.ins, kept, [e.dtype for e in (*plan.ins, *kept)]) if kept else None


def elementwise_vjp(plan: Any, g: Any, saved: tuple, shapes: tuple | None) -> tuple:
    """Cotangents of an elementwise call, one launch for all; sums over broadcast dimensions follow."""
    made = iter(fused_vjp(plan, g, saved))
    out: list[Any] = []
    for i, need in enumerate(plan.needs):
        c = None
        if need:
            c = g if plan.passes[i] else next(made)
            if shapes is not None and c.shape != shapes[i]:
                c = sum_to_raw(c, shapes[i])
        out.append(c)
    return tuple(out)


@guarded
def fused_vjp(plan: Any, g: Any, saved: tuple) -> tuple:
    """The cotangents that need a kernel."""
    arrays = (g, *(np.asarray(s) if isinstance(s, np.generic) else s for s in saved))
    p = vjp_program(plan)
    if p is None:
        return ()
    device = common_device(plan.op.name, arrays)
    shape = broadcast_shapes(*(a.shape for a in arrays), op=plan.op.name)
    outs = [empty(shape, dt.as_dtype(d), device) for d in p.dtypes[len(arrays) :]]
    args = [*operands(arrays, shape), *(o.view() for o in outs)]
    launch(device, lambda: loops.run(p, shape, args, current_stream()))
    return tuple(outs)


def can_fuse(plan: Any, g: Any) -> bool:
    """Whether the fused kernel serves a cotangent: on a device, and not in float16."""
    return isinstance(g, DeviceArray) and F16 not in {g.dtype, *plan.dtypes}


# -- copies -----------------------------------------------------------------------------------------


def to_dtype(x: DeviceArray, *, dtype: np.dtype) -> DeviceArray:
    """Convert the dtype."""
    return x.astype(dtype)


def clone(x: DeviceArray) -> DeviceArray:
    """A contiguous copy."""
    return x.copy()


@guarded
def unview(g: Any, *, layout: Layout, base_layout: Layout) -> DeviceArray:
    """Zeros with the elements of g added at the layout."""
    out = blank(base_layout, g.dtype, g.device)
    low = lay.extent(base_layout)[0]
    target = out.restride(layout._replace(offset=layout.offset - low))
    if 0 in layout.shape:
        return out
    if lay.self_overlaps(layout):
        _add(target, g)
    else:
        target[...] = g
    return out


def _add(target: DeviceArray, g: DeviceArray) -> None:
    """Atomic ``target += g`` where elements of the target may share memory."""
    from kernels_cuda import gather

    def work() -> None:
        gather.run("add", target.view(), (), (), g.view(), 0, None, current_stream())

    try:
        launch(target.device, work)
    except gather.AtomicsError:
        raise DTypeError(
            message("unview", "the dtype", g.dtype.name, "one with atomic additions", "Use .cpu().")
        ) from None


def strided_scatter(base: Any, src: Any, *, layout: Layout, base_layout: Layout) -> DeviceArray:
    """A copy of ``base`` with ``src`` written at the layout."""
    device = common_device("strided_scatter", (base, src))
    if not isinstance(base, DeviceArray):
        base = full(base.shape, base.dtype, device, base.flat[0])
    out = base.image(base_layout)
    low = lay.extent(base_layout)[0]
    target = out.restride(layout._replace(offset=layout.offset - low))
    target[...] = src if isinstance(src, DeviceArray) else src.flat[0]
    return out


# -- products ---------------------------------------------------------------------------------------


@guarded
def matmul(a: Any, b: Any) -> DeviceArray:
    """Matrix product of the last two dimensions with broadcast batch dimensions."""
    device = common_device("matmul", (a, b))
    a, b = (
        x if isinstance(x, DeviceArray) else full(x.shape, x.dtype, device, x.flat[0])
        for x in (a, b)
    )
    if a.dtype.kind == "b":
        return matmul(a.astype(dt.int32), b.astype(dt.int32)).astype(dt.bool_)
    if a.dtype == F16:
        return matmul(a.astype(F32), b.astype(F32)).astype(F16)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], op="matmul")
    out = empty((*batch, a.shape[-2], b.shape[-1]), a.dtype, device)
    left, right = (x.view((*batch, *x.shape[-2:])) for x in (a, b))
    launch(device, lambda: products.run(left, right, out.view(), current_stream()))
    return out


# -- registration -----------------------------------------------------------------------------------

_REDUCTIONS = {
    "sum": "sum",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
    "any": "any",
    "all": "all",
}


def _reduction(kind: str) -> Any:
    def kernel(x: Any, *, axes: tuple[int, ...], keepdim: bool) -> DeviceArray:
        return reduce(kind, x, axes, keepdim)

    return kernel


def register() -> None:
    """Declare the CUDA kernels of the operators there are."""
    for name, kind in _REDUCTIONS.items():
        if name in REGISTRY:
            REGISTRY[name].cuda(_reduction(kind))
    for fn in (to_dtype, clone, unview, strided_scatter, matmul):
        REGISTRY[fn.__name__].cuda(fn)
    for fn in (indexing.index, indexing.unindex, indexing.index_put, indexing.winners):
        REGISTRY[fn.__name__].cuda(fn)


register()
