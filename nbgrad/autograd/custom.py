"""One call of a custom function: running forward, remembering what it left on ``ctx``, backward and jvp.

Tensors that forward put on ``ctx`` and that are neither inputs nor outputs are the call's *state*. They become extra
outputs of the operator (`custom_op`), so the backward of a graph node at any level finds them as values of that level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import AutogradError
from ..op.dispatch import as_tensor
from ..op.inplace import ProtectedWriteError, detach_meta
from ..op.interpreter import new_level, own
from ..state import state
from ..tensor import Level, Tensor, new_epoch
from .batched import Batched, BatchInterpreter, unwrap
from .context import FunctionCtx, Ref
from .graph import AccumulateGrad
from .taint import Taint


class Frame(NamedTuple):
    """What one run of forward left behind; `Ref` entries point to inputs, outputs or state tensors."""

    outputs: tuple  # per result: Ref("out", j) or Ref("value", constant)
    single: bool
    n_out: int
    saved: tuple
    forward_saved: tuple | None
    attrs: dict
    nondiff: frozenset
    dirty: dict  # input number -> output number
    materialize: bool
    tainted: tuple  # per state tensor
    opaque: str  # why the backward's dependence on ctx cannot be followed, or ""
    host: bool = False  # forward reads values: a trace cannot look inside
    deferred: bool = False  # ctx is not set up yet (a custom vmap computed the outputs)


class Values(NamedTuple):
    """Tensors of one level that the refs of a frame point to."""

    ins: Sequence[Any]
    outs: Sequence[Any]
    state: Sequence[Any]

    def get(self, r: Any) -> Any:
        """The tensor (or constant) of a ref; containers are searched."""
        if isinstance(r, Ref):
            if r.kind == "value":
                return r.k
            return {"in": self.ins, "out": self.outs, "state": self.state}[r.kind][r.k]
        if type(r) in (list, tuple):
            return type(r)(self.get(x) for x in r)
        if type(r) is dict:
            return {k: self.get(v) for k, v in r.items()}
        return r


class Call:
    """One call of a custom function: the class, the constant arguments and where the tensors go."""

    def __init__(self, cls: Any, args: Sequence[Any]):
        self.cls = cls
        self.template = tuple(None if isinstance(a, Tensor) else Ref("value", a) for a in args)
        self.needs: tuple[bool, ...] = ()
        self.inplace = self.track = self.stored = False
        self.frame: Any = None
        self.tape: Any = None

    @property
    def name(self) -> str:
        """The user's name of the function."""
        return self.cls.__name__

    def __repr__(self) -> str:
        return self.name

    def copy(self, stored: bool) -> Call:
        """A call for another execution (``stored``: one that a tape keeps and never runs itself)."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.inplace, new.stored = False, stored
        return new

    def take(self, other: Call) -> None:
        """What a run of another copy of this call found out."""
        self.frame = other.frame

    def arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """The user's argument list from the tensors."""
        it = iter(tensors)
        return [next(it) if r is None else r.k for r in self.template]

    def per_argument(self, flags: Sequence[Any], other: Any) -> tuple:
        """One entry per user argument from one per tensor."""
        it = iter(flags)
        return tuple(next(it) if r is None else other for r in self.template)

    # -- forward -----------------------------------------------------------------------------------
    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the user's forward on tensors without history; returns outputs and state, sets `frame`."""
        args = self.arguments(tensors)
        return self._watched(tensors, lambda ctx: self.cls._run_forward(ctx, args))

    def setup(self, inputs: Sequence[Tensor], outs: Sequence[Tensor]) -> list[Tensor]:
        """Run the user's ``setup_context`` on results from elsewhere; returns the state, sets `frame`."""
        ins = [Tensor(t._data, None, 0, t._ver) for t in inputs]
        kept = [Tensor(t._data, None, 0, t._ver) for t in outs]
        frame = self.frame
        results = tuple(kept[r.k] if r.kind == "out" else r.k for r in frame.outputs)

        def fn(ctx: FunctionCtx) -> Any:
            output = results[0] if frame.single else results
            self.cls.setup_context(ctx, tuple(self.arguments(ins)), output)
            return output

        return self._watched(ins, fn)[len(kept) :]

    def _watched(self, tensors: Sequence[Tensor], fn: Callable) -> list[Tensor]:
        """Run user code that fills a context, recording nothing and following what depends on the inputs."""
        ctx = FunctionCtx(self.per_argument(self.needs, False))
        before = [t._ver[0] for t in tensors]
        birth = new_epoch() if self.track else 0
        taint = Taint(tensors) if self.track else None
        off, recorders = state.set_off(0), state.recorders
        state.recorders = () if taint is None else (taint,)
        state.refresh()
        try:
            result = fn(ctx)
        finally:
            state.recorders = recorders
            state.set_off(off)
        return self._freeze(ctx, tensors, before, result, taint, birth)

    def _freeze(
        self, ctx: FunctionCtx, tensors, before, result: Any, taint: Any, birth: int
    ) -> list:
        """Turn a filled context into a `Frame`; returns outputs and state."""
        single = not isinstance(result, tuple)
        results = (result,) if single else result
        outs = [o for o in results if isinstance(o, Tensor)]
        inputs = {id(t): i for i, t in enumerate(tensors)}
        dirty = self._dirty(ctx, tensors, before, outs, inputs)
        refs = {id(t): Ref("in", i) for i, t in enumerate(tensors)}
        for j, o in enumerate(outs):
            if id(o) not in inputs or inputs[id(o)] in dirty:
                refs[id(o)] = Ref("out", j)
        finder = _Finder(refs, taint, birth, [r.k for r in self.template if r is not None])
        saved = tuple(finder.ref(t, "ctx.saved_tensors") for t in ctx._saved)
        forward_saved = ctx._forward_saved
        if forward_saved is not None:
            forward_saved = tuple(finder.ref(t, "ctx.saved_tensors") for t in forward_saved)
        attrs = {k: finder.ref(v, f"ctx.{k}") for k, v in ctx.attributes().items()}
        numbers = iter(range(len(outs)))
        self.frame = Frame(
            outputs=tuple(
                Ref("out", next(numbers)) if isinstance(o, Tensor) else Ref("value", o)
                for o in results
            ),
            single=single,
            n_out=len(outs),
            saved=saved,
            forward_saved=forward_saved,
            attrs=attrs,
            nondiff=frozenset(j for j, o in enumerate(outs) if id(o) in ctx._nondiff),
            dirty=dirty,
            materialize=ctx._materialize,
            tainted=tuple(finder.tainted),
            opaque=finder.opaque,
        )
        return [*(_plain(o) for o in outs), *finder.state]

    def _dirty(self, ctx: FunctionCtx, tensors, before, outs, inputs: dict) -> dict[int, int]:
        """Inputs that were changed in place, and the outputs they became."""
        found: dict[int, int] = {}
        for t in ctx._dirty:
            i = inputs.get(id(t))
            j = next((j for j, o in enumerate(outs) if o is t), None)
            if i is None or j is None:
                what = "is no input of forward" if i is None else "was not returned by forward"
                raise AutogradError(
                    f"{self.name}: a tensor given to ctx.mark_dirty {what}; mark inputs that forward changed in place, "
                    "and return them."
                )
            found[i] = j
        for i, t in enumerate(tensors):
            if i not in found and t._ver[0] != before[i]:
                raise AutogradError(
                    f"{self.name}: forward changed tensor argument {i} in place without ctx.mark_dirty; mark it (and "
                    "return it), or clone() it first."
                )
        return found

    def execute(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """`run` on arrays: in the caller's memory for a direct call, else on copies if forward writes."""
        if self.inplace:
            leaves = frozenset(
                id(t._ver)
                for t in tensors
                if state.off > 0 and isinstance(_base(t)._node, AccumulateGrad)
            )
            return self._protected([Tensor(t._data, None, 0, t._ver) for t in tensors], leaves)
        shadows = [Tensor(t._data) for t in tensors]
        try:
            return self._protected(shadows, frozenset(id(s._ver) for s in shadows))
        except ProtectedWriteError:
            return self.run([Tensor(s._data.copy()) for s in shadows])

    def _protected(self, shadows: list[Tensor], cells: frozenset) -> list[Tensor]:
        previous, state.protected = state.protected, cells
        try:
            return self.run(shadows)
        finally:
            state.protected = previous

    # -- derivatives -------------------------------------------------------------------------------
    def context(
        self, frame: Frame, values: Values, needs: Sequence[bool], forward: bool
    ) -> FunctionCtx:
        """The ``ctx`` of backward or jvp over values of some level."""
        ctx = FunctionCtx(self.per_argument(needs, False))
        saved = frame.forward_saved if forward and frame.forward_saved is not None else frame.saved
        ctx._saved = tuple(values.get(r) for r in saved)
        ctx._materialize = frame.materialize
        for k, r in frame.attrs.items():
            setattr(ctx, k, values.get(r))
        return ctx

    def pullback(
        self, frame: Frame, values: Values, gs: Sequence[Any], needs: Sequence[bool], level: int
    ) -> tuple[list[Any], bool]:
        """Cotangents of the tensor inputs by the user's backward, and whether it was once_differentiable."""
        ctx = self.context(frame, values, needs, False)
        ctx._level = level
        given = [gs[r.k] if r.kind == "out" else None for r in frame.outputs]
        got = self.cls._run_backward(ctx, given, self.template)
        return got, ctx._once

    def push(self, frame: Frame, values: Values, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the tensor outputs by the user's jvp."""
        ctx = self.context(frame, values, [t is not None for t in tangents], True)
        if frame.materialize:
            tangents = [
                x.zeros_like_() if t is None and x._data.dtype.kind in "fc" else t
                for x, t in zip(values.ins, tangents, strict=True)
            ]
        return self.cls._run_jvp(ctx, self.per_argument(tangents, None), frame)


class _Finder:
    """Replaces tensors on a context by refs and notes what depends on the inputs in unknown ways."""

    def __init__(self, refs: dict[int, Ref], taint: Any, birth: int, known: Sequence[Any]):
        self.refs, self.taint, self.birth, self.known = refs, taint, birth, known
        self.state: list[Tensor] = []
        self.tainted: list[bool] = []
        self.opaque = ""

    def ref(self, value: Any, where: str) -> Any:
        """The ref of a value (containers are walked)."""
        if isinstance(value, Tensor):
            return self._tensor(value, where)
        if type(value) in (list, tuple):
            return type(value)(self.ref(v, where) for v in value)
        if type(value) is dict:
            return {k: self.ref(v, where) for k, v in value.items()}
        if self.taint is not None and self.taint.suspicious(value, self.known):
            self.opaque = self.opaque or where
        return Ref("value", value)

    def _tensor(self, t: Tensor, where: str) -> Ref:
        found = self.refs.get(id(t))
        if found is None:
            bad = self.taint is not None and self._depends(t)
            if bad and t._node is not None:
                self.opaque = self.opaque or where
            found = self.refs[id(t)] = Ref("state", len(self.state))
            self.state.append(t)
            self.tainted.append(bad)
        return found

    def _depends(self, t: Tensor) -> bool:
        if self.taint.depends(t):
            return True
        young = t._ver[0] >= self.birth
        return bool(self.taint.leaked) and young and t._data.dtype.kind in "fc"


def _base(t: Tensor) -> Tensor:
    return t._meta.base if t._meta is not None and t._meta.base is not None else t


def _plain(o: Tensor) -> Tensor:
    """An output without history; one that views other memory must not be written in place later."""
    out = Tensor(o._data, None, 0, o._ver)
    if o._meta is not None and o._meta.base is not None:
        detach_meta(
            out
        ).frozen = "the result of a custom Function that returned a view cannot be written in place; clone() it"
    return out


class BatchedCall(Call):
    """A call at the level below a vmap: forward, backward and jvp run batched."""

    def __init__(self, base: Call, dims: Sequence[int | None], size: int, randomness: str):
        self.__dict__.update(base.__dict__)
        self.base, self.dims, self.size, self.randomness = base, tuple(dims), size, randomness
        self.inplace = self.stored = False
        self.out_dims: tuple = ()

    def copy(self, stored: bool) -> Call:
        new = super().copy(stored)
        new.base = self.base.copy(stored)
        return new

    def take(self, other: Call) -> None:
        self.frame, self.out_dims = other.frame, other.out_dims

    def _level(self) -> Any:
        return new_level("func.vmap", BatchInterpreter(self.size, self.randomness))

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        with self._level() as level:
            wrapped = [_wrap(level, t, d) for t, d in zip(tensors, self.dims, strict=True)]
            self.base.needs, self.base.track = self.needs, self.track
            flat = self.base.run(wrapped)
            self.frame = self.base.frame
            batched = [own(level, o) and o._data.dim is not None for o in flat]
            self.out_dims = tuple(0 if b else None for b in batched)
            return [
                unwrap(level, o, self.size, 0 if b else None)
                for o, b in zip(flat, batched, strict=True)
            ]

    def _wrapped(self, level: Level, frame: Frame, values: Values) -> Values:
        n = frame.n_out
        return Values(
            [_wrap(level, t, d) for t, d in zip(values.ins, self.dims, strict=True)],
            [_wrap(level, t, d) for t, d in zip(values.outs, self.out_dims[:n], strict=True)],
            [_wrap(level, t, d) for t, d in zip(values.state, self.out_dims[n:], strict=True)],
        )

    def pullback(
        self, frame: Frame, values: Values, gs: Sequence[Any], needs: Sequence[bool], level: int
    ) -> tuple[list[Any], bool]:
        with self._level() as inner:
            wrapped = self._wrapped(inner, frame, values)
            cots = [_wrap(inner, g, d) for g, d in zip(gs, self.out_dims, strict=False)]
            got, once = self.base.pullback(frame, wrapped, cots, needs, level)
            found = [
                None if g is None else _reduce(inner, as_tensor(g), self.size, d)
                for g, d in zip(got, self.dims, strict=True)
            ]
        return found, once

    def push(self, frame: Frame, values: Values, tangents: Sequence[Any]) -> list[Any]:
        with self._level() as level:
            inner = self._wrapped(level, frame, values)
            dots = [_wrap(level, t, d) for t, d in zip(tangents, self.dims, strict=True)]
            got = self.base.push(frame, inner, dots)
            return [None if t is None else unwrap(level, as_tensor(t), self.size, 0) for t in got]


def _wrap(level: Level, t: Any, dim: int | None) -> Any:
    return None if t is None else Tensor(Batched(level, t, dim))


def _reduce(level: Level, g: Tensor, size: int, dim: int | None) -> Tensor:
    """A batched cotangent for its input: at the input's batch dimension, or summed over the batch."""
    if dim is not None:
        return unwrap(level, g, size, dim)
    return unwrap(level, g, size, 0).sum(0)
