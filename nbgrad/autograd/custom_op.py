"""Custom functions as one operator: ``custom_function(inputs..., call) -> (outputs..., state...)``.

``Function.apply`` runs this operator, so that every interpreter treats a custom function as one opaque step: eager
execution runs the user's forward; vmap runs forward, backward and jvp batched; forward and Taylor mode use the
user's jvp; a trace records one instruction whose forward is a tape of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, TraceError, UnsupportedError, message
from ..op.base import Operator, Spec, as_saved, saved_pairs
from ..op.derive import sum_to
from ..op.dispatch import apply, as_tensor, cast, check_saved, pack, recorded, top_level, unusual
from ..op.inplace import _rebase, carry_retain, refresh_view, write
from ..state import state
from ..tensor import Level, Tensor, level_of, shallow
from .context import Ref
from .custom import BatchedCall, Call, Frame, Values
from .graph import Node, next_seq
from .taint import GuardNode, marked, unknown


class FunctionOperator(Operator):
    """The operator every custom function goes through."""

    def __init__(self) -> None:
        super().__init__("custom_function", None, nin=None, doc="A user's autograd.Function.")

    def __call__(self, *tensors: Tensor, call: Call) -> tuple:
        if call.stored:
            call = call.copy(False)
        top = top_level(tensors)
        index = 0 if top is None else top.index
        needs = tuple(
            state.off > index and t._data.dtype.kind in "fc" and recorded(t, top) for t in tensors
        )
        call.needs = call.needs or needs
        call.track = call.track or any(needs) or top is not None
        if top is None:
            flat = tuple(call.execute(tensors))
        else:
            # a tape keeps its own copy, and its replays run copies of that
            kept = call.copy(True) if hasattr(top.interpreter, "tape") else call
            raw = top.interpreter.process(top, self, tensors, {"call": kept})
            flat = tuple(o if isinstance(o, Tensor) else Tensor(o) for o in raw)
            call.take(kept)
        if any(needs):
            record(call, tensors, flat, needs, top)
        if state.fast < 0:
            unusual(self, tensors, flat, {"call": call.copy(True)}, top)
        return flat

    def infer_out(self, specs: Sequence[Spec], params: dict) -> tuple:
        from ..tape.record import trace_flat

        call = params["call"]
        call.track = True
        try:
            call.tape = trace_flat(lambda *xs: call.run(xs), specs, f"the forward of {call.name}")
            return tuple(call.tape.specs[v] for v in call.tape.outputs)
        except TraceError:
            with _concrete():
                flat = call.run([Tensor(np.ones(s.shape, s.dtype)) for s in specs])
            call.frame = call.frame._replace(host=True)
            return tuple(Spec(tuple(o.shape), o.dtype) for o in flat)

    def forward(self, arrays: Sequence[Any], params: dict) -> tuple:
        call = params["call"].copy(False)
        return tuple(o._data for o in call.execute([Tensor(a) for a in arrays]))

    def run_batch(self, dims: Sequence[int | None], inputs: Sequence[Any], params: dict) -> tuple:
        call = params["call"]
        size = next(t.shape[d] for t, d in zip(inputs, dims, strict=True) if d is not None)
        here = state.levels[-1].interpreter if state.levels else None
        how = getattr(here, "randomness", "error")
        if call.cls._has_vmap():
            return _custom_vmap(call, size, how, dims, inputs)
        inner = BatchedCall(call, dims, size, how)
        flat = self(*inputs, call=inner)
        call.frame = inner.frame
        return flat, inner.out_dims

    def run_jvp(
        self, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], params: dict
    ) -> tuple:
        call = params["call"]
        frame, outs, extra = ready(call, inputs, out)
        if frame.opaque or frame.host:
            where = frame.opaque or "values that forward read on the host"
            raise UnsupportedError(f"{where}: {unknown_text(call.name, 'forward mode')}")
        dots = call.push(frame, Values(inputs, outs, extra), tangents)
        dots = [
            None if t is None else fit(call.name, "jvp", i, t, o._data.shape, o._data.dtype)
            for i, (t, o) in enumerate(zip(dots, outs, strict=True))
        ]
        if frame.deferred:
            return tuple(dots)
        text = unknown_text(call.name, "forward mode")
        bad = [unknown(s, text) if t else None for s, t in zip(extra, frame.tainted, strict=True)]
        return (*dots, *bad)


class _concrete:
    """Run on real arrays although a trace is active."""

    def __enter__(self) -> None:
        self.saved = (state.levels, state.tracer)
        state.levels, state.tracer = (), None
        state.refresh()

    def __exit__(self, *exc: object) -> None:
        state.levels, state.tracer = self.saved
        state.refresh()


def ready(call: Call, inputs: Sequence[Tensor], flat: Sequence[Tensor]) -> tuple:
    """The frame of a call that ran, its outputs and its state; sets the context up if that was deferred."""
    frame = call.frame
    if frame.deferred:
        extra = call.setup(inputs, flat)
        return call.frame._replace(deferred=True), flat, extra
    return frame, flat[: frame.n_out], flat[frame.n_out :]


def _custom_vmap(
    call: Call, size: int, how: str, dims: Sequence[Any], inputs: Sequence[Any]
) -> tuple:
    """The user's vmap rule: outputs only; the context is set up where it is needed."""
    in_dims = call.per_argument(dims, None)
    out, out_dims = call.cls._run_vmap(size, how, in_dims, call.arguments(inputs))
    single = not isinstance(out, tuple)
    results = (out,) if single else out
    places = (
        (out_dims,) * len(results) if out_dims is None or isinstance(out_dims, int) else out_dims
    )
    numbers = iter(range(len(results)))
    refs = tuple(
        Ref("out", next(numbers)) if isinstance(o, Tensor) else Ref("value", o) for o in results
    )
    tensors = [o for o in results if isinstance(o, Tensor)]
    flat_dims = tuple(d for o, d in zip(results, places, strict=True) if isinstance(o, Tensor))
    empty: frozenset = frozenset()
    call.frame = Frame(
        refs, single, len(tensors), (), None, {}, empty, {}, True, (), "", deferred=True
    )
    return tuple(tensors), flat_dims


def record(
    call: Call,
    tensors: Sequence[Tensor],
    flat: Sequence[Tensor],
    needs: Sequence[bool],
    top: Level | None,
) -> None:
    """Attach a node to the differentiable outputs."""
    frame, outs, extra = ready(call, tensors, flat)
    live = [
        j
        for j, o in enumerate(outs)
        if j not in frame.nondiff and o._data.dtype.kind in "fc" and level_of(o._data) is top
    ]
    if live:
        node = FunctionNode(call, frame, Values(tensors, outs, extra), needs, top)
        for j in live:
            outs[j]._node, outs[j]._nr = node, j


class FunctionNode(Node):
    """Backward of a custom function."""

    __slots__ = ("call", "frame", "in_specs", "keys", "n_outputs", "out_specs", "traced", "where")

    def __init__(self, call: Call, frame: Frame, values: Values, needs: Sequence[bool], top: Any):
        self.call, self.frame = call, frame
        self.edges = tuple(t._node if n else None for t, n in zip(values.ins, needs, strict=True))
        nrs = tuple(t._nr for t in values.ins)
        self.nrs = nrs if any(nrs) else None
        self.in_specs = [(t._data.shape, t._data.dtype) for t in values.ins]
        self.out_specs = [(t._data.shape, t._data.dtype) for t in values.outs]
        self.n_outputs = len(values.outs)
        self.where = 0 if top is None else top.index
        self.traced = top is not None and hasattr(top.interpreter, "tape")
        self.keys = _used(frame, len(values.ins) if frame.host else 0)
        kept = [values.get(k) for k in self.keys]
        inner = [
            k.kind == "state" and t._node is not None for k, t in zip(self.keys, kept, strict=True)
        ]
        self.saved = pack(
            [shallow(t) if own else _raw(t, top) for t, own in zip(kept, inner, strict=True)]
        )
        self.vers = () if state.saved_hooks else tuple(t._ver for t in kept)
        for t in kept:
            check_saved(t, call.name)
        self.vnum = sum(v[0] for v in self.vers)
        self.meta = None
        self.seq = next_seq()

    @property
    def level(self) -> int:
        return self.where

    def name(self) -> str:
        return f"{self.call.name}Backward"

    def vjp(self, g: Any) -> tuple:
        gs = g if type(g) is tuple else (g,)
        recording = state.off > self.where
        guard = self._guard((), "a second derivative") if recording else None
        values = self._values(guard)
        if self.frame.materialize:
            gs = tuple(
                Tensor(np.zeros(*spec)) if c is None else c
                for c, spec in zip(gs, self.out_specs, strict=True)
            )
        needs = tuple(e is not None for e in self.edges)
        if self.frame.host and self.traced:
            return self._opaque(values, gs, needs)
        got, once = self.call.pullback(self.frame, values, gs, needs, self.where)
        out = [
            fit(self.call.name, "backward", i, c, *spec) if n and c is not None else None
            for i, (c, n, spec) in enumerate(zip(got, needs, self.in_specs, strict=True))
        ]
        if guard is not None and (once or self.frame.opaque):
            if once:
                guard = self._guard(gs, "once_differentiable")
            out = [None if c is None else marked(c, guard) for c in out]
        return tuple(out)

    def _values(self, guard: GuardNode | None) -> Values:
        """What was kept, with edges: inputs and outputs have theirs, unknown dependences the guard."""
        found: dict[Ref, Any] = dict(zip(self.keys, saved_pairs(self), strict=True))
        ins: list[Any] = [None] * len(self.edges)
        outs: list[Any] = [None] * self.n_outputs
        extra: list[Any] = [None] * len(self.frame.tainted)
        for (kind, k), (value, cell) in found.items():
            if kind == "in":
                ins[k] = as_saved(value, cell, self.edges[k], self.nrs[k] if self.nrs else 0)
            elif kind == "out":
                real = self.out_specs[k][1].kind in "fc" and k not in self.frame.nondiff
                outs[k] = as_saved(value, cell, self if real else None, k)
            else:
                t = as_saved(value, cell, None, 0)
                if guard is not None and self.frame.tainted[k] and t._node is None:
                    t = Tensor(t._data, guard, 0)
                extra[k] = t
        return Values(ins, outs, extra)

    def saved_user_tensors(self) -> tuple:
        """``ctx.saved_tensors``, for ``grad_fn.saved_tensors``."""
        values = self._values(None)
        return tuple(values.get(r) for r in self.frame.saved)

    def _guard(self, also: Sequence[Any], how: str) -> GuardNode:
        edges, nrs = list(self.edges), list(self.nrs or (0,) * len(self.edges))
        for t in also:
            if t is not None and t._node is not None:
                edges.append(t._node)
                nrs.append(t._nr)
        if how == "once_differentiable":
            text = (
                f"{self.call.name}: its backward is marked once_differentiable, so the gradient cannot be "
                "differentiated again; write backward with nbgrad operations and remove the decorator."
            )
        else:
            text = unknown_text(self.call.name, how)
        return GuardNode(edges, nrs, text, self.where)

    def _opaque(self, values: Values, gs: Sequence[Any], needs: tuple) -> tuple:
        """In a trace, a function that reads values runs its backward as one instruction, too."""
        mask = tuple(c is not None for c in gs)
        given = [c for c in gs if c is not None]
        got = iter(OPAQUE(*values.ins, *given, call=self.call.copy(True), mask=mask, needs=needs))
        return tuple(next(got) if n else None for n in needs)


class OpaqueBackward(Operator):
    """``custom_function_backward``: forward and backward of a function that works on plain arrays."""

    def __init__(self) -> None:
        super().__init__(
            "custom_function_backward",
            None,
            nin=None,
            differentiable=False,
            doc="Backward of a custom Function that uses NumPy.",
        )

    def __call__(self, *tensors: Tensor, call: Call, mask: tuple, needs: tuple) -> tuple:
        top = top_level(tensors)
        out = apply(self, tensors, {"call": call, "mask": mask, "needs": needs})
        index = 0 if top is None else top.index
        live = [t for t in tensors if state.off > index and recorded(t, top)]
        if live:
            text = unknown_text(call.name, "a second derivative")
            guard = GuardNode([t._node for t in live], [t._nr for t in live], text, index)
            out = tuple(marked(o, guard) for o in out)
        return out

    def forward(self, arrays: Sequence[Any], params: dict) -> tuple:
        call, needs = params["call"].copy(False), params["needs"]
        ins = [Tensor(a) for a in arrays[: len(needs)]]
        flat = call.execute(ins)
        given = iter([Tensor(a) for a in arrays[len(needs) :]])
        gs = [next(given) if m else None for m in params["mask"]]
        n = call.frame.n_out
        got, _ = call.pullback(call.frame, Values(ins, flat[:n], flat[n:]), gs, needs, 0)
        return tuple(
            np.zeros(x.shape, x.dtype)
            if g is None
            else fit(call.name, "backward", i, g, tuple(x.shape), x.dtype)._data
            for i, (g, x, n) in enumerate(zip(got, ins, needs, strict=True))
            if n
        )

    def infer_out(self, specs: Sequence[Spec], params: dict) -> tuple:
        return tuple(s for s, n in zip(specs, params["needs"], strict=False) if n)


def _raw(t: Tensor, top: Level | None) -> Any:
    """What a node keeps of a tensor: the value at its own level, else the tensor itself."""
    return t._data if level_of(t._data) is top else shallow(t)


def _used(frame: Frame, inputs: int) -> tuple[Ref, ...]:
    """The refs a backward may ask for (each once); ``inputs`` of them in any case."""
    found: dict[Ref, None] = {Ref("in", i): None for i in range(inputs)}

    def walk(r: Any) -> None:
        if isinstance(r, Ref):
            if r.kind != "value":
                found[r] = None
        elif type(r) in (list, tuple):
            for x in r:
                walk(x)
        elif type(r) is dict:
            for x in r.values():
                walk(x)

    walk(frame.saved)
    walk(frame.attrs)
    return tuple(found)


def fit(name: str, rule: str, i: int, g: Any, shape: tuple, dtype: Any) -> Tensor:
    """What a user's rule returned, checked and brought to the shape and dtype of its argument or output.

    Raises
    ------
    DTypeError : no tensor. ShapeError : a shape that cannot be summed to the expected one.
    """
    if not isinstance(g, Tensor):
        if not (isinstance(g, bool | int | float | complex) or hasattr(g, "__array__")):
            raise DTypeError(
                message(f"{name}.{rule}", f"result {i}", type(g).__name__, "a tensor or None")
            )
        g = as_tensor(g)
    have, want = tuple(g.shape), tuple(shape)
    if have != want:
        lead = len(have) - len(want)
        if lead < 0 or any(n not in (1, h) for n, h in zip(want, have[lead:], strict=True)):
            raise ShapeError(message(f"{name}.{rule}", f"result {i}'s shape", have, f"{want}"))
        g = sum_to(g, want)
    return g if g._data.dtype == dtype else cast(g, dtype)


def finish(call: Call, tensors: Sequence[Tensor], flat: Sequence[Tensor]) -> Any:
    """What ``apply`` returns: the outputs in the user's structure; inputs changed in place are themselves."""
    frame = call.frame
    changed = {j: tensors[i] for i, j in frame.dirty.items()}
    results = []
    for r in frame.outputs:
        if r.kind == "value":
            results.append(r.k)
        elif r.k in changed:
            results.append(_adopt(call, changed[r.k], flat[r.k]))
        else:
            results.append(flat[r.k])
    return results[0] if frame.single else tuple(results)


def _adopt(call: Call, x: Tensor, out: Tensor) -> Tensor:
    """Give an input that forward changed in place its new history."""
    if not call.inplace or top_level([x, out]) is not None:
        return write(x, out, call.name)
    base = x._meta.base if x._meta is not None else None
    if base is None:
        if state.off > 0:
            x._node, x._nr = out._node, out._nr
    else:
        _rebase(base, x, out, None)
        refresh_view(x)
        carry_retain(base)
    carry_retain(x)
    return x


def unknown_text(name: str, how: str) -> str:
    """The message for a derivative that would pass through state with an unknown dependence."""
    return (
        f"{name}: {how} would have to differentiate values that forward computed from its inputs and put on ctx (with "
        "save_for_backward or as an attribute); how they depend on the inputs is not known, and taking them as constant "
        "would be silently wrong. Save inputs and outputs only and compute the rest in backward, or return such "
        "values as additional outputs."
    )


OPERATOR = FunctionOperator()
OPAQUE = OpaqueBackward()
