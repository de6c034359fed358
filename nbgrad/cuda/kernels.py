"""The CUDA kernels of nbgrad's operators: registered when the first device tensor is made."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cuda import elementwise as loops
from kernels_cuda import matmul as products
from kernels_cuda import reduce as reductions
from kernels_cuda import scalar
from kernels_cuda._compat import View

from .. import dtypes as dt
from .. import layout as lay
from ..codegen.expr import Expr, emit
from ..device import Device
from ..errors import DeviceError, DTypeError, ShapeError, message
from ..layout import Layout, broadcast_shapes
from ..memory.cuda import Buffer
from ..op.base import REGISTRY
from ..op.derive import sum_to_raw
from ..op.kernels import trace_body
from ..op.shapes import reduced
from .array import DeviceArray, blank, empty, from_numpy, full, guarded, launch, number
from .streams import current_key, current_stream

F16, F32 = dt.float16, dt.float32


def common_device(op: str, arrays: Sequence[Any]) -> Device:
    """The device of the operands; numbers on the host go anywhere.

    Raises
    ------
    DeviceError : operands on different devices.
    """
    devices = {a.device for a in arrays if isinstance(a, DeviceArray)}
    hosts = [a for a in arrays if type(a) is np.ndarray and not is_number(a)]
    if len(devices) == 1 and not hosts:
        return next(iter(devices))
    names = sorted(map(str, devices)) + (["cpu"] if hosts else [])
    raise DeviceError(
        message(
            op,
            "the operands' devices",
            " and ".join(names),
            "one device (only 0-d CPU tensors mix with any device)",
            "Move one of them with .to('cuda') or .cpu().",
        )
    )


def is_number(a: np.ndarray) -> bool:
    """One value on the host: 0-d, or expanded from 0-d."""
    return a.ndim == 0 or (a.size > 0 and all(s == 0 for s in a.strides))


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


# -- reductions -------------------------------------------------------------------------------------


@guarded
def reduce(name: str, x: DeviceArray, axes: tuple[int, ...], keepdim: bool) -> DeviceArray:
    """One of sum, prod, max, min, any, all over axes."""
    device = common_device(name, (x,))
    if name in ("max", "min") and x.dtype.kind == "c":
        raise DTypeError(message(name, "the operand's dtype", x.dtype.name, "a real dtype"))
    shape = reduced(x.shape, axes, False)
    if name in ("max", "min") and math.prod(x.shape) == 0 and math.prod(shape):
        raise ShapeError(message(name, "the reduced size", 0, "at least one element"))
    out = empty(shape, dt.as_dtype(reductions.result(name, x.dtype)), device)
    scratch = functools.partial(_scratch, device)
    launch(
        device,
        lambda: reductions.run(name, x.view(), axes, out.view(), scratch, current_stream()),
    )
    return out.reshape(reduced(x.shape, axes, True)) if keepdim else out


def _scratch(device: Device, nbytes: int) -> Any:
    """Memory for partial results: it returns to the pool with its last reference, in stream order."""
    buffer = Buffer(nbytes, device.index or 0, current_key())
    return buffer.memory._replace(owner=buffer)


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
    except gather.Unsupported:
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
        return matmul(a.astype(dt.uint8), b.astype(dt.uint8)).astype(dt.bool_)
    if a.dtype == F16:
        return matmul(a.astype(F32), b.astype(F32)).astype(F16)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], op="matmul")
    out = empty((*batch, a.shape[-2], b.shape[-1]), a.dtype, device)
    left, right = (x.view((*batch, *x.shape[-2:])) for x in (a, b))
    launch(device, lambda: products.run(left, right, out.view(), current_stream()))
    return out


# -- indexing ---------------------------------------------------------------------------------------


def index_views(
    op: str, idx: Sequence[Any], sizes: Sequence[int], device: Device
) -> tuple[tuple, list[View], list[DeviceArray]]:
    """Index arrays broadcast, flat and checked: their common shape, their views, what keeps them alive.

    Index arrays on the host are copied over; those on the device are checked there, for which the host waits.

    Raises
    ------
    IndexingError : an index out of range.
    """
    from ..errors import IndexingError

    shape = broadcast_shapes(*(i.shape for i in idx), op=op)
    flat = []
    for i, n in zip(idx, sizes, strict=True):
        on_device = i if isinstance(i, DeviceArray) else from_numpy(np.asarray(i), device)
        if on_device.size:
            axes = tuple(range(on_device.ndim))
            low = int(reduce("min", on_device, axes, False).to_numpy())
            high = int(reduce("max", on_device, axes, False).to_numpy())
            if low < -n or high >= n:
                bad = low if low < -n else high
                raise IndexingError(
                    message(op, "an index", bad, f"between {-n} and {n - 1} (the size is {n})")
                )
        wide_index = on_device if on_device.dtype == dt.int64 else on_device.astype(dt.int64)
        spread = wide_index.restride(lay.expand(wide_index.layout, shape))
        flat.append(spread.copy().reshape((math.prod(shape),)))
    return shape, [f.view() for f in flat], flat


def _gathered(x: Any, axes: tuple[int, ...], shape: tuple) -> tuple[tuple, int]:
    """Shape of a gather with the index dimensions as one, and where that one stands."""
    rest = [n for d, n in enumerate(x) if d not in axes]
    at = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return (*rest[:at], math.prod(shape), *rest[at:]), at


def _unfolded(flat: tuple, at: int, shape: tuple) -> tuple:
    return (*flat[:at], *shape, *flat[at + 1 :])


@guarded
def index(x: Any, *idx: Any, axes: tuple[int, ...]) -> DeviceArray:
    """Gather along ``axes``."""
    from kernels_cuda import gather

    device = _device_of_first(x, idx)
    x = x if isinstance(x, DeviceArray) else from_numpy(x, device)
    shape, views, keep = index_views("index", idx, [x.shape[a] for a in axes], device)
    flat, at = _gathered(x.shape, axes, shape)
    out = empty(flat, x.dtype, device)
    launch(
        device,
        lambda: gather.run("get", x.view(), axes, views, out.view(), at, None, current_stream()),
    )
    del keep
    return out.reshape(_unfolded(flat, at, shape))


def _device_of_first(x: Any, idx: Sequence[Any]) -> Device:
    if not isinstance(x, DeviceArray):
        common_device("index", [x, *idx])  # raises: the data are on the host, an index is not
    return x.device


@guarded
def unindex(g: Any, *idx: Any, axes: tuple[int, ...], shape: tuple) -> DeviceArray:
    """Zeros with g added at the indices."""
    from kernels_cuda import gather

    device = _device_of_first(g, idx)
    out = full(shape, g.dtype, device, 0)
    many, views, keep = index_views("index", idx, [shape[a] for a in axes], device)
    flat, at = _gathered(shape, axes, many)
    source = g.reshape(flat)
    try:
        launch(
            device,
            lambda: gather.run(
                "add", out.view(), axes, views, source.view(), at, None, current_stream()
            ),
        )
    except gather.Unsupported:
        raise DTypeError(
            message("index", "the dtype", g.dtype.name, "one with atomic additions", "Use .cpu().")
        ) from None
    del keep
    return out


def _flags(views: list[View], sizes: Sequence[int], device: Device) -> DeviceArray:
    """Per index tuple, whether no later one names the same place."""
    from kernels_cuda import gather

    mark = full((math.prod(sizes),), dt.int64, device, -1)
    flags = empty((views[0].size,), dt.uint8, device)
    launch(
        device,
        lambda: gather.winners(views, sizes, mark.view(), flags.view(), current_stream()),
    )
    return flags


@guarded
def index_put(x: Any, v: Any, *idx: Any, axes: tuple[int, ...], accumulate: bool) -> DeviceArray:
    """A copy of x with v written (of repeated indices the last one wins) or added."""
    from kernels_cuda import gather

    device = common_device("index_put", (x, v))
    out = x.copy() if isinstance(x, DeviceArray) else full(x.shape, x.dtype, device, x.flat[0])
    sizes = [out.shape[a] for a in axes]
    many, views, keep = index_views("index_put", idx, sizes, device)
    flat, at = _gathered(out.shape, axes, many)
    full_shape = _unfolded(flat, at, many)
    if isinstance(v, DeviceArray):
        source = v.restride(lay.expand(v.layout, full_shape)).copy().reshape(flat)
    else:
        source = full(flat, out.dtype, device, v.flat[0])
    flags = None if accumulate else _flags(views, sizes, device)
    mode = "add" if accumulate else "put"
    f = None if flags is None else flags.view()
    launch(
        device,
        lambda: gather.run(mode, out.view(), axes, views, source.view(), at, f, current_stream()),
    )
    del keep
    return out


@guarded
def winners(*idx: Any, axes: tuple[int, ...], shape: tuple) -> Any:
    """Which of the written values survive where indices repeat (the last one)."""
    device = common_device("index_put", [i for i in idx if isinstance(i, DeviceArray)])
    many, views, keep = index_views("index_put", idx, [shape[a] for a in axes], device)
    flat, at = _gathered(shape, axes, many)
    flags = _flags(views, [shape[a] for a in axes], device).astype(dt.bool_)
    column = flags.reshape((flat[at], *(1,) * (len(flat) - at - 1)))
    spread = column.restride(lay.expand(column.layout, flat)).copy()
    del keep
    return spread.reshape(_unfolded(flat, at, many))


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
    for fn in (
        to_dtype,
        clone,
        unview,
        strided_scatter,
        matmul,
        index,
        unindex,
        index_put,
        winners,
    ):
        REGISTRY[fn.__name__].cuda(fn)


register()
