"""Numba functions, their derivatives and batches of them as calls of one operator of the engine, ``njit_call``.

Its parameter ``routine`` says what runs: the user's function, or a derivative of a routine (a routine again, so derivatives of
any order follow), or a routine over a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import typeof, types
from numba.core.errors import NumbaError

from kernels_cpu import objcache

from ..errors import DTypeError, message
from ..op import Operator, Spec
from ..ops.view import permute
from . import derive, ir, numba_types
from .api import _named
from .door import Transformation, dispatcher
from .fingerprint import fingerprint
from .front.build import Interpreter
from .front.objects import Py, Tup, leaves
from .operands import Constants, Results, argument, owned

Arrays = Sequence[np.ndarray]


class Routine:
    """A compiled function of tensors and constants, as the kernel of an operator call.

    ``template[k]`` of a compiled one tells whether argument k is a tensor; the others are its ``statics``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: dict[tuple, Any] = {}

    def __repr__(self) -> str:
        return self.name

    def run(self, arrays: Arrays, statics: Constants) -> list[np.ndarray]:
        """The outputs."""
        raise NotImplementedError

    def infer(self, specs: Sequence[Spec], statics: Constants) -> list[Spec]:
        """Shapes and dtypes of the outputs."""
        raise NotImplementedError

    def pull(
        self, inputs: Sequence[Any], statics: Constants, cots: Sequence[Any], needs: tuple
    ) -> list[Any]:
        """Cotangents of the inputs that need one."""
        given = tuple(k for k, c in enumerate(cots) if c is not None)
        wrt = tuple(k for k, n in enumerate(needs) if n)
        routine = self.derived("vjp", wrt, given)
        found = call(routine, [*inputs, *(cots[k] for k in given)], statics)
        return [self.arranged(k, c, 0) for k, c in zip(wrt, found, strict=True)]

    def arranged(self, k: int, cotangent: Any, lead: int) -> Any:
        """A cotangent as the derived routine returns it, made one of input k (``lead`` dimensions come before)."""
        return cotangent

    def push(self, inputs: Sequence[Any], statics: Constants, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the outputs of floating dtype."""
        active = tuple(k for k, t in enumerate(tangents) if t is not None)
        routine = self.derived("jvp", active, ())
        return list(call(routine, [*inputs, *(tangents[k] for k in active)], statics))

    def derived(self, kind: str, which: tuple, given: tuple) -> Routine:
        """The routine of a derivative, made once."""
        key = (kind, which, given)
        if key not in self.made:
            self.made[key] = self._derive(kind, which, given)
        return self.made[key]

    def _derive(self, kind: str, which: tuple, given: tuple) -> Routine:
        raise NotImplementedError

    def batched(self, dims: tuple) -> Routine:
        """The routine over a batch."""
        if dims not in self.made:
            self.made[dims] = Batched(self, dims)
        return self.made[dims]


class Compiled(Routine):
    """A routine that is one call of a compiled function."""

    def __init__(self, name: str, fn: Any, template: tuple[bool, ...], cache: bool):
        super().__init__(name)
        self.fn, self.template, self.cache = fn, template, cache

    def arguments(self, arrays: Arrays, statics: Constants) -> list[Any]:
        """The function's arguments; an array without dimensions is a number to it."""
        tensors, constants = iter(arrays), iter(statics.items)
        return [argument(next(tensors)) if t else next(constants) for t in self.template]

    def output_dtypes(self, arrays: Sequence[Any], statics: Constants) -> list[np.dtype]:
        """The dtypes of the outputs."""
        raise NotImplementedError

    def writes(self, arrays: Sequence[Any], statics: Constants) -> bool:
        """Whether the user's function writes to arguments."""
        raise NotImplementedError

    def _derive(self, kind: str, which: tuple, given: tuple) -> Routine:
        return Derivative(self, kind, which, given)


class Function(Compiled):
    """The user's function: read-only for its arguments, because arrays it writes to are copied."""

    def __init__(self, fn: Any, template: tuple[bool, ...], cache: bool):
        super().__init__(fn.__name__, fn, template, cache)
        self.known: dict[tuple, tuple[Results, tuple[int, ...]]] = {}

    def results(self, arrays: Sequence[Any], statics: Constants) -> tuple[Results, tuple[int, ...]]:
        """What a call returns, and the positions of the arguments that it writes to."""
        key = (*((a.dtype, a.ndim) for a in arrays), *map(typeof, statics.items))
        found = self.known.get(key)
        if found is None:
            dummies = [np.ones((1,) * a.ndim, a.dtype) for a in arrays]
            args = self.arguments(dummies, statics)
            kinds = [typeof(a) for a in args]
            kind = numba_types.return_type(self.fn, kinds)
            if kind is None:
                raise self.refusal(kinds)
            written = self.written(kinds)
            found = Results(self.name, types.unliteral(kind), [kinds[k] for k in written]), written
            self.known[key] = found
        return found

    def refusal(self, kinds: list[Any]) -> DTypeError:
        """The error for arguments the function does not compile for, with what Numba says."""
        given = f"({', '.join(map(str, kinds))})"
        says = ""
        try:
            self.fn.compile(tuple(kinds))
        except NumbaError as e:
            says = str(e).strip()
        what = f"types that '{self.name}' compiles for"
        return DTypeError(message("njit.operator", "the types of the arguments", given, what, says))

    def written(self, kinds: list[Any]) -> tuple[int, ...]:
        """The positions of the arguments that the function writes to; kept on disk, because it has to be read for that."""
        content = fingerprint(self.fn) if self.cache else None
        key = objcache.digest("njit written", str(content), str(kinds))
        text = objcache.load_text(key) if content else None
        if text is None:
            it = Interpreter(self.name)
            objects = [it.argument(types.unliteral(t), f"arg{k}") for k, t in enumerate(kinds)]
            program = derive.read(self.fn, objects)
            writes = set(derive.Writer(it, program, "operator").written)
            parts = [leaves(o) if not isinstance(o, Py) else [] for o in program.objects]
            text = " ".join(str(k) for k, vs in enumerate(parts) if writes.intersection(vs or ()))
            if content:
                objcache.store_text(key, text)
        return tuple(map(int, text.split()))

    def run(self, arrays: Arrays, statics: Constants) -> list[np.ndarray]:
        results, written = self.results(arrays, statics)
        args = self.arguments(arrays, statics)
        for k in written:
            args[k] = args[k].copy()
        value = self.fn(*args)
        if results.none:
            value = tuple(args[k] for k in written if args[k].dtype.kind in "fc")
        return owned(results.flat(value), [a for a in args if isinstance(a, np.ndarray)])

    def infer(self, specs: Sequence[Spec], statics: Constants) -> list[Spec]:
        results, _ = self.results(specs, statics)
        if max(results.ranks) < 0:
            return [Spec((), d) for d in results.dtypes]
        ones = [np.ones(s.shape, s.dtype) for s in specs]
        return [Spec(a.shape, a.dtype) for a in self.run(ones, statics)]

    def output_dtypes(self, arrays: Sequence[Any], statics: Constants) -> list[np.dtype]:
        return self.results(arrays, statics)[0].dtypes

    def writes(self, arrays: Sequence[Any], statics: Constants) -> bool:
        return bool(self.results(arrays, statics)[1])


class Derivative(Compiled):
    """The vjp or jvp of a function: takes its arguments, then cotangents of the outputs ``given`` (tangents of ``which``).

    It returns cotangents of the tensors ``which`` (the tangents of all outputs of floating dtype) and writes to nothing.
    """

    def __init__(self, of: Compiled, kind: str, which: tuple, given: tuple):
        self.of, self.kind, self.which, self.given = of, kind, which, given
        places = [k for k, t in enumerate(of.template) if t]
        self.count = len(places)
        where = tuple(places[k] for k in which)
        names = [f"a{k}" for k in range(len(of.template))]
        names += [f"d{k}" for k in range(len(given or which))]
        handler = self._vjp if kind == "vjp" else self._jvp
        options = (kind, where, given, "operator")
        t = Transformation(
            f"{kind}_{of.fn.__name__}",
            of.fn,
            lambda it, args: handler(it, args, where),
            _named(*names),
            options,
        )
        more = (True,) * (len(names) - len(of.template))
        made = dispatcher(t, of.cache)
        super().__init__(f"{kind} of {of.name}", made, (*of.template, *more), of.cache)

    def _vjp(self, it: Any, args: list[Any], where: tuple) -> Tup:
        """Write the reverse sweep; outputs without a cotangent need no zeros."""
        n = len(self.of.template)
        program = derive.read(self.of.fn, args[:n])
        w = derive.Writer(it, program, "operator")
        w.own_copies()
        wrt = [v for k in where for v in leaves(program.objects[k]) or []]
        result = program.built.result
        if isinstance(result, Py):
            outs = [p for p in w.written if ir.is_float(p.type)]
            shadows = {outs[k]: it.copied(c) for k, c in zip(self.given, args[n:], strict=True)}
            grads = w.pull(wrt, {}, shadows)[1]
        else:
            parts = leaves(result) or []
            seeds = {
                k: c if ir.is_array(parts[k]) else it.cast(c, parts[k].type)
                for k, c in zip(self.given, args[n:], strict=True)
            }
            grads = w.pull(wrt, seeds, {})[1]
        return Tup(tuple(w.gradient(program.objects[k], grads) for k in where))

    def _jvp(self, it: Any, args: list[Any], where: tuple) -> Tup:
        """Write the forward mode."""
        n = len(self.of.template)
        tangents = Tup(tuple(args[n:]))
        pair = derive.pushforward(it, self.of.fn, args[:n], tangents, where, 1, "operator")
        values, dots = leaves(pair.items[0]) or [], leaves(pair.items[1]) or []
        return Tup(tuple(d for v, d in zip(values, dots, strict=True) if ir.is_float(v.type)))

    def run(self, arrays: Arrays, statics: Constants) -> list[np.ndarray]:
        directions = (np.ascontiguousarray(a).reshape(a.shape) for a in arrays[self.count :])
        arrays = [*arrays[: self.count], *directions]  # few memory layouts, few compilations
        if self.writes(arrays, statics):
            arrays = owned(arrays, [])  # the function's own copies are of separate arrays
        args = self.arguments(arrays, statics)
        found = zip(self.fn(*args), self.output_dtypes(arrays, statics), strict=True)
        return owned([np.asarray(v, d) for v, d in found], arrays)

    def output_dtypes(self, arrays: Sequence[Any], statics: Constants) -> list[np.dtype]:
        if self.kind == "vjp":
            return [arrays[k].dtype for k in self.which]
        found = self.of.output_dtypes(arrays[: self.count], statics)
        return [d for d in found if d.kind in "fc"]

    def writes(self, arrays: Sequence[Any], statics: Constants) -> bool:
        return self.of.writes(arrays[: self.count], statics)

    def infer(self, specs: Sequence[Spec], statics: Constants) -> list[Spec]:
        if self.kind == "vjp":
            return [specs[k] for k in self.which]
        return [s for s in self.of.infer(specs[: self.count], statics) if s.dtype.kind in "fc"]


class Batched(Routine):
    """A routine over a batch; ``dims`` says which dimension of each tensor counts, that of the outputs is the first."""

    def __init__(self, base: Routine, dims: tuple):
        super().__init__(f"{base.name} over a batch")
        self.base, self.dims = base, dims

    def run(self, arrays: Arrays, statics: Constants) -> list[np.ndarray]:
        count = self._count(arrays)
        if count == 0:
            specs = self.infer([Spec(a.shape, a.dtype) for a in arrays], statics)
            return [np.empty(s.shape, s.dtype) for s in specs]
        rows = [
            a if d is None else np.ascontiguousarray(np.moveaxis(a, d, 0))
            for a, d in zip(arrays, self.dims, strict=True)
        ]
        runs = [
            self.base.run(
                [
                    r if d is None else np.asarray(r[k])
                    for r, d in zip(rows, self.dims, strict=True)
                ],
                statics,
            )
            for k in range(count)
        ]
        return [np.stack(column) for column in zip(*runs, strict=True)]

    def _count(self, arrays: Sequence[Any]) -> int:
        pairs = zip(arrays, self.dims, strict=True)
        return next(a.shape[d] for a, d in pairs if d is not None)

    def infer(self, specs: Sequence[Spec], statics: Constants) -> list[Spec]:
        inner = [
            s if d is None else Spec((*s.shape[:d], *s.shape[d + 1 :]), s.dtype)
            for s, d in zip(specs, self.dims, strict=True)
        ]
        count = self._count(specs)
        return [Spec((count, *s.shape), s.dtype) for s in self.base.infer(inner, statics)]

    def arranged(self, k: int, cotangent: Any, lead: int) -> Any:
        c, dim = self.base.arranged(k, cotangent, lead + 1), self.dims[k]
        if dim is None:
            return c.sum(lead)
        order = [i for i in range(c.ndim) if i != lead]
        order.insert(lead + dim, lead)
        return permute(c, dims=tuple(order))

    def _derive(self, kind: str, which: tuple, given: tuple) -> Routine:
        more = (0,) * len(given) if kind == "vjp" else tuple(self.dims[k] for k in which)
        return self.base.derived(kind, which, given).batched((*self.dims, *more))


# -- the operator --------------------------------------------------------------------------------


def _kernel(*arrays: np.ndarray, routine: Routine, statics: Constants) -> Any:
    outs = routine.run(arrays, statics)
    return tuple(outs) if len(outs) != 1 else outs[0]


CALL = Operator(
    "njit_call",
    _kernel,
    nin=None,
    saves=lambda needs, params: range(len(needs)),
    doc="A call of a Numba function, or of a derivative of one.",
)


def call(routine: Routine, tensors: Sequence[Any], statics: Constants) -> tuple:
    """One call of the operator."""
    out = CALL(*tensors, routine=routine, statics=statics)
    return out if isinstance(out, tuple) else (out,)


@CALL.infer
def _(*specs, routine, statics):
    outs = tuple(routine.infer(specs, statics))
    return outs if len(outs) != 1 else outs[0]


@CALL.vjp
def _(g, out, *inputs, needs, routine, statics):
    cots = g if isinstance(g, tuple) else (g,)
    found = iter(routine.pull(inputs, statics, cots, needs))
    return tuple(next(found) if n else None for n in needs)


@CALL.jvp
def _(tangents, out, *inputs, routine, statics):
    outs = out if isinstance(out, tuple) else (out,)
    found = iter(routine.push(inputs, statics, tangents))
    dots = tuple(next(found) if o.dtype.kind in "fc" else None for o in outs)
    return dots if isinstance(out, tuple) else dots[0]


@CALL.batch
def _(dims, *inputs, routine, statics):
    outs = call(routine.batched(tuple(dims)), inputs, statics)
    return (outs, (0,) * len(outs)) if len(outs) != 1 else (outs[0], 0)
