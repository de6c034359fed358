"""The hot path: call functions of unary and binary elementwise operators.

Each function tests in a few attribute reads that nothing unusual is going on (plain tensors over NumPy arrays of
one floating dtype, no view, no mode) and then makes the result and its graph node without any intermediate object.
Everything else goes to ``Elementwise.slow``.
"""

from __future__ import annotations

import functools
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes as dt
from ..autograd.graph import ElementwiseNode
from ..layout import broadcast_shapes
from ..memory import host
from ..state import state
from ..tensor import Tensor

if TYPE_CHECKING:
    from .elementwise import Elementwise

BIG = 8192  # elements above which results come from the pool and loops may be threaded

ndarray, asarray = np.ndarray, np.asarray
Node = ElementwiseNode
FLOATS = frozenset({dt.float64, dt.float32})
COMPLEX = frozenset({dt.complex128, dt.complex64})
NUMBERS = frozenset({int, float})
# keyword names of the parameters where they are not ``input`` and ``other``
PARAMETERS = {"complex": ("real", "imag"), "heaviside": ("input", "values")}


def _unary(op: Elementwise, kernels: dict, plans: _Plans, wanted: frozenset) -> Any:
    """The call function of a one-argument operator."""
    slow, differentiable = op.slow, op.differentiable

    def call_op(x):
        if type(x) is Tensor and (x._meta is None or x._meta.ordinary(x._ver[0])):
            d = x._data
            fast = state.fast
            if fast >= 0 and type(d) is ndarray:
                k = kernels.get(d.dtype)
                if k is not None:
                    y = k(d) if d.size <= BIG else call(k, (d,))
                    if type(y) is not ndarray:
                        y = asarray(y)
                    e = x._node
                    if e is None or not fast or not differentiable:
                        return Tensor(y)
                    p = plans[d.dtype]
                    out = Tensor(y)
                    if p is None:
                        return out
                    if p.save_out:
                        ver = out._ver
                        if p.saved:
                            n = Node(p, (e,), None, (d, y), (x._ver, ver), x._ver[0] + ver[0], None)
                        else:
                            n = Node(p, (e,), None, (y,), (ver,), ver[0], None)
                    elif p.saved:
                        n = Node(p, (e,), None, (d,), (x._ver,), x._ver[0], None)
                    else:
                        n = Node(p, (e,), None, (), (), 0, None)
                    if x._nr:
                        n.nrs = (x._nr,)
                    out._node = n
                    return out
                elif d.dtype in wanted:
                    kernels[d.dtype] = op.kernel((d.dtype,))
                    return call_op(x)
        return slow(x)

    return call_op


def _binary(op: Elementwise, kernels: dict, plans: _Plans, wanted: frozenset) -> Any:
    """The call function of a two-argument operator: two tensors, or a tensor and a Python number."""
    slow, differentiable = op.slow, op.differentiable

    def call_op(x, y):
        if type(x) is Tensor and (x._meta is None or x._meta.ordinary(x._ver[0])):
            a = x._data
            fast = state.fast
            if fast >= 0 and type(a) is ndarray:
                t = a.dtype
                k = kernels.get(t)
                if k is None:
                    if t in wanted:
                        kernels[t] = op.kernel((t, t))
                        return call_op(x, y)
                elif type(y) is Tensor:
                    b = y._data
                    m = y._meta
                    if type(b) is ndarray and b.dtype is t and (m is None or m.ordinary(y._ver[0])):
                        sa = a.shape
                        sb = b.shape
                        sh = None if sa == sb else (sa, sb)
                        if a.size <= BIG and (sh is None or b.size <= BIG):
                            try:
                                r = k(a, b)
                            except ValueError:
                                return slow(x, y)
                        else:
                            r = call(k, (a, b))
                        if type(r) is not ndarray:
                            r = asarray(r)
                        ea = x._node
                        eb = y._node
                        if (ea is None and eb is None) or not fast or not differentiable:
                            return Tensor(r)
                        p = plans[t][(2 if ea is not None else 0) + (eb is not None)]
                        if p is None:
                            return Tensor(r)
                        if p.save_out:
                            return slow(x, y)
                        s = p.saved
                        if not s:
                            n = Node(p, (ea, eb), None, (), (), 0, sh)
                        elif len(s) == 2:
                            va = x._ver
                            vb = y._ver
                            n = Node(p, (ea, eb), None, (a, b), (va, vb), va[0] + vb[0], sh)
                        elif s[0]:
                            n = Node(p, (ea, eb), None, (b,), (y._ver,), y._ver[0], sh)
                        else:
                            n = Node(p, (ea, eb), None, (a,), (x._ver,), x._ver[0], sh)
                        if x._nr or y._nr:
                            n.nrs = (x._nr, y._nr)
                        return Tensor(r, n)
                elif type(y) in NUMBERS and t in FLOATS:
                    b = t.type(y)
                    r = k(a, b) if a.size <= BIG else call(k, (a, b))
                    if type(r) is not ndarray:
                        r = asarray(r)
                    if x._node is None or not fast or not differentiable:
                        return Tensor(r)
                    p = plans[t][2]
                    if p is None:
                        return Tensor(r)
                    if p.save_out:
                        return slow(x, y)
                    s = p.saved
                    if not s:
                        n = Node(p, (x._node, None), None, (), (), 0, None)
                    elif len(s) == 2:
                        n = Node(p, (x._node, None), None, (a, b), (x._ver,), x._ver[0], None)
                    elif s[0]:
                        n = Node(p, (x._node, None), None, (b,), (), 0, None)
                    else:
                        n = Node(p, (x._node, None), None, (a,), (x._ver,), x._ver[0], None)
                    if x._nr:
                        n.nrs = (x._nr, 0)
                    return Tensor(r, n)
        elif type(y) is Tensor and type(x) in NUMBERS and y._meta is None:
            return number_first(x, y)
        return slow(x, y)

    def number_first(x, y):
        """A Python number and a tensor, as in ``1 - y``."""
        b = y._data
        t = b.dtype
        fast = state.fast
        if fast < 0 or t not in FLOATS or type(b) is not ndarray:
            return slow(x, y)
        k = kernels.get(t)
        if k is None:
            k = kernels[t] = op.kernel((t, t))
        a = t.type(x)
        r = k(a, b) if b.size <= BIG else call(k, (a, b))
        if type(r) is not ndarray:
            r = asarray(r)
        e = y._node
        if e is None or not fast or not differentiable:
            return Tensor(r)
        p = plans[t][1]
        if p is None:
            return Tensor(r)
        if p.save_out:
            return slow(x, y)
        vers = (y._ver,) if 1 in p.saved else ()
        saved = tuple([b if i else a for i in p.saved])
        n = Node(p, (None, e), None, saved, vers, y._ver[0] if vers else 0, None)
        if y._nr:
            n.nrs = (0, y._nr)
        return Tensor(r, n)

    return call_op


class _Plans(dict):
    """Backward plans per dtype, made when first asked for."""

    def __init__(self, op: Elementwise):
        super().__init__()
        self.op = op

    def __missing__(self, dtype: np.dtype) -> Any:
        op = self.op
        if op.nin == 1:
            made: Any = op.plan((True,), (dtype,)) if op.defined[0] else None
        else:
            masks = [(False, False), (False, True), (True, False), (True, True)]
            made = [None]
            for mask in masks[1:]:
                needs = tuple(n and d for n, d in zip(mask, op.defined, strict=True))
                made.append(op.plan(needs, (dtype, dtype)) if any(needs) else None)
        self[dtype] = made
        return made


def make(op: Elementwise) -> Any:
    """The call function of an operator."""
    if op.nin not in (1, 2) or op.promotion in ("select", "logical", "integral"):
        fn = _general(op)
    else:
        kernels: dict[np.dtype, np.ufunc] = {}
        wanted = FLOATS | COMPLEX if op.complex_ok else FLOATS
        fn = (_unary if op.nin == 1 else _binary)(op, kernels, _Plans(op), wanted)
        names = PARAMETERS.get(op.name, ("input", "other")[: op.nin])
        fn.__code__ = _named(fn.__code__, names)
    fn.__doc__, fn.__module__ = op.doc, "nbgrad"
    fn.__name__ = fn.__qualname__ = op.name
    return fn


@functools.cache
def _named(code: CodeType, names: tuple[str, ...]) -> CodeType:
    """Code whose first local variables, the parameters, have public names: nothing changes at run time."""
    return code.replace(co_varnames=names + code.co_varnames[len(names) :])


def _general(op: Elementwise) -> Any:
    """The call function of an operator without a fast path."""

    def call_op(*args: Any) -> Any:
        return op.slow(*args)

    return call_op


def call(k: np.ufunc, arrays: tuple) -> Any:
    """Call a kernel: small results from NumPy's allocator, large ones from the pool and in threads."""
    size = 0
    for a in arrays:
        size = max(size, a.size)
    if size <= BIG:
        return k(*arrays)
    from kernels_cpu import threads

    shape = broadcast_shapes(*(a.shape for a in arrays))
    outs = tuple(host.empty(shape, d) for d in out_dtypes(k))
    threads.run(k, arrays, outs)
    return outs[0] if len(outs) == 1 else outs


_out_dtypes: dict[np.ufunc, tuple] = {}


def out_dtypes(k: np.ufunc) -> tuple:
    """Result dtypes of a kernel (it has exactly one type signature)."""
    found = _out_dtypes.get(k)
    if found is None:
        found = _out_dtypes[k] = tuple(np.dtype(c) for c in k.types[0].split("->")[1])
    return found


def run_ufunc(k: np.ufunc, arrays: Any, name: str) -> np.ndarray:
    """Forward call on arrays with a shape error of our own."""
    try:
        out = call(k, tuple(arrays))
    except ValueError:
        broadcast_shapes(*(a.shape for a in arrays), op=name)
        raise
    return out if type(out) is np.ndarray else np.asarray(out)
