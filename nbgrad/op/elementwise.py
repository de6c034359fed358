"""The elementwise category: one scalar body and its partial derivatives give everything else.

From ``body`` and ``partials`` follow the CPU and CUDA kernels, the fused eager vjp ``g * partial`` (one kernel for all
inputs), jvp, Taylor, batching, and fused code. Partials are lambdas ``(inputs..., out) -> derivative`` in nbgrad
operators; which of the inputs and ``out`` they read decides what the graph saves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.graph import ElementwiseNode, LevelElementwiseNode
from ..codegen.expr import Expr
from ..errors import ArgumentError, DTypeError, message
from ..state import state
from ..tensor import Tensor, level_of, shallow
from . import fastpath
from .base import Operator
from .dispatch import (
    CONSTANT,
    as_tensor,
    cast,
    check_saved,
    pack,
    plain,
    recorded,
    tag,
    top_level,
    unusual,
)
from .kernels import Plan, build_kernel, scaled
from .public import public
from .symbolic import Symbolic

ndarray = np.ndarray


class Elementwise(Operator):
    """An operator that acts on each element (after broadcasting)."""

    category = "elementwise"

    def __init__(
        self,
        body: Callable,
        *,
        name: str,
        partials: Sequence[Callable | None] | None,
        wirtinger: Sequence[Any] | None = None,
        contributions: Sequence[Callable | None] | None = None,
        diagonal: Sequence[Callable | None] | None = None,
        promotion: str = "same",
        complex_ok: bool = True,
        linear: Any = None,
        multilinear: tuple[int, ...] | None = None,
        doc: str = "",
        tests: Any = None,
        reference: Callable | None = None,
        nin: int | None = None,
    ):
        nin = nin or body.__code__.co_argcount
        # lambdas (t, inputs..., out): a real diagonal map is its own transpose, so one serves both modes
        self.diagonal = diagonal is not None
        contributions = diagonal if diagonal is not None else contributions
        differentiable = partials is not None or wirtinger is not None or contributions is not None
        super().__init__(
            name,
            None,
            nin=nin,
            linear=linear,
            multilinear=multilinear,
            differentiable=differentiable,
            doc=doc,
            tests=tests,
            reference=reference,
        )
        self.body = body
        self.partials = tuple(partials) if partials is not None else (None,) * nin
        self.wirtinger = wirtinger
        self.contributions = contributions
        self.promotion, self.complex_ok = promotion, complex_ok
        self.kernels: dict[Any, np.ufunc] = {}
        self.plans: dict[Any, Plan] = {}
        self.fast = fastpath.make(self)
        self.rewrite: Callable | None = None  # a better result for special arguments, or None
        self.defined = [
            self.partials[i] is not None
            or bool(contributions and contributions[i])
            or bool(wirtinger)
            for i in range(nin)
        ]

    # -- calling ------------------------------------------------------------------------------
    def __call__(self, *args: Any, **_: Any) -> Any:
        return self.fast(*args)

    def slow(self, *args: Any) -> Any:
        """Everything the fast path does not take: scalars, promotion, levels, views, hooks."""
        if any(type(a) is Expr for a in args):
            return self.body(*args)
        for a in args:
            if isinstance(a, Symbolic):
                return a.traced(self, args)
        if len(args) != self.nin:
            raise TypeError(f"{self.name}() takes {self.nin} positional arguments, got {len(args)}")
        found = None if self.rewrite is None else self.rewrite(args)
        return self.apply(self.coerce(args)) if found is None else found

    def coerce(self, args: Sequence[Any]) -> list[Tensor]:
        """Arguments as tensors of one compute dtype (conditions stay bool)."""
        lead = 1 if self.promotion == "select" else 0
        dtype: Any = None
        scalars: list[Any] = []
        tensors: list[Any] = []
        for i, a in enumerate(args):
            if isinstance(a, bool | int | float | complex) and not isinstance(a, np.generic):
                tensors.append(a)
                if i >= lead:
                    scalars.append(a)
                continue
            t = as_tensor(a, self.name, f"argument {i}")
            tensors.append(t)
            if i >= lead:
                dtype = t._data.dtype if dtype is None else dt.promote(dtype, t._data.dtype)
        for s in scalars:
            dtype = as_tensor(s)._data.dtype if dtype is None else dt.promote_scalar(dtype, s)
        dtype = self.compute_dtype(dtype)
        return [
            self._to(a, dt.bool_ if i < lead else dtype, i, tensors) for i, a in enumerate(tensors)
        ]

    def _to(self, a: Any, dtype: np.dtype, i: int, all_args: Sequence[Any]) -> Tensor:
        if isinstance(a, Tensor):
            return a if a._data.dtype is dtype else cast(a, dtype)
        device = next((t._data for t in all_args if isinstance(t, Tensor)), None)
        try:
            filled = np.asarray(a, dtype)
        except OverflowError:
            raise ArgumentError(
                message(
                    self.name,
                    f"argument {i}",
                    a,
                    f"a number that fits {dtype.name}",
                    "Convert the tensor to a wider dtype with .to() first.",
                )
            ) from None
        like = getattr(device, "from_scalar", None)
        return tag(Tensor(filled if like is None else like(filled)), CONSTANT)

    def compute_dtype(self, dtype: np.dtype) -> np.dtype:
        """The dtype the body runs in, from the promoted dtype of the arguments."""
        if self.promotion == "float":
            dtype = dt.to_inexact(dtype)
        elif self.promotion == "integral" and dtype.kind not in "biu":
            raise DTypeError(
                message(self.name, "the operands' dtype", dtype.name, "an integer or bool dtype")
            )
        elif self.promotion == "logical":
            return dt.bool_
        if dtype.kind == "c" and not self.complex_ok:
            raise DTypeError(
                message(
                    self.name,
                    "the operand's dtype",
                    dtype.name,
                    "a real dtype",
                    "Take .real, .imag or .abs() first.",
                )
            )
        return dtype

    def apply(self, args: list[Tensor]) -> Tensor:
        """Run on coerced tensors at the top level and record."""
        top = None if plain(args) else top_level(args)
        if top is None:
            raw = self.forward([t._data for t in args], {})
        else:
            raw = top.interpreter.process(top, self, args, {})
        out = raw if isinstance(raw, Tensor) else Tensor(raw)
        index = 0 if top is None else top.index
        if self.differentiable and state.off > index and out._data.dtype.kind in "fc":
            if top is None:
                needs = tuple([d and t._node is not None for d, t in zip(self.defined, args)])
            else:
                needs = tuple([d and recorded(t, top) for d, t in zip(self.defined, args)])
            if True in needs and (top is None or level_of(out._data) is top):
                self._record(args, out, needs, top, index)
        if state.fast < 0:
            unusual(self, args, (out,), {}, top)
        return out

    def _record(self, args: list[Tensor], out: Tensor, needs: tuple, top: Any, index: int) -> None:
        plan = self.plan(needs, tuple(t._data.dtype for t in args))
        saved = [args[i] for i in plan.saved] + ([out] if plan.save_out else [])
        # versions cannot be followed through hooks
        vers = () if state.saved_hooks else tuple(t._ver for t in saved)
        for t in saved:
            check_saved(t, self.name)
        shapes = tuple([t._data.shape for t in args])
        nrs = tuple([t._nr for t in args])
        if top is None:
            values = [t._data for t in saved]
        else:
            values = [t._data if level_of(t._data) is top else shallow(t) for t in saved]
        # plain arrays go through the fused kernels in a backward pass, everything else through the rules
        fused = type(out._data) is ndarray and not state.saved_hooks
        fused = fused and out._data.dtype is not dt.float16
        node = (ElementwiseNode if fused else LevelElementwiseNode)(
            plan,
            tuple([t._node if n else None for t, n in zip(args, needs)]),
            nrs if any(nrs) else None,
            pack(values),
            vers,
            sum([v[0] for v in vers]),
            None if shapes.count(out._data.shape) == len(shapes) else shapes,
        )
        if not fused:
            node.where = index
        out._node, out._nr = node, 0

    # -- kernels ------------------------------------------------------------------------------
    def plan(self, needs: tuple, dtypes: tuple) -> Plan:
        """How to differentiate a call with these needs and dtypes."""
        key = (needs, dtypes)
        found = self.plans.get(key)
        if found is None:
            found = self.plans[key] = Plan(self, needs, dtypes)
        return found

    def kernel(self, dtypes: tuple) -> np.ufunc:
        """The CPU ufunc for operand dtypes."""
        found = self.kernels.get(dtypes)
        if found is None:
            found = self.kernels[dtypes] = build_kernel(self, dtypes)
        return found

    def forward(self, arrays: Sequence[Any], params: dict) -> Any:
        if not all(type(a) is ndarray for a in arrays):
            from ..cuda import kernels

            return kernels.elementwise(self, arrays)
        dtypes = tuple(a.dtype for a in arrays)
        if dt.float16 in dtypes:
            wide = [a.astype(dt.float32) if a.dtype is dt.float16 else a for a in arrays]
            out = self.forward(wide, params)
            return out.astype(dt.float16) if out.dtype is dt.float32 else out
        return fastpath.run_ufunc(self.kernel(dtypes), arrays, self.name)

    # -- rules --------------------------------------------------------------------------------
    def partial(self, i: int, inputs: Sequence[Any], out: Any) -> Any:
        """The partial derivative with respect to input i, in operator vocabulary."""
        fn = self.partials[i]
        assert fn is not None
        return fn(*inputs, out)

    def run_jvp(
        self, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], params: dict
    ) -> Any:
        if self.linear:
            return super().run_jvp(tangents, out, inputs, params)
        total: Any = None
        is_complex = inputs[-1].dtype.kind == "c"
        for i, t in enumerate(tangents):
            if t is None or not self.defined[i]:
                continue
            if self.multilinear:
                term = self.in_derivatives(*[t if j == i else x for j, x in enumerate(inputs)])
            elif is_complex and self.wirtinger and self.wirtinger[i]:
                term = self._jvp_wirtinger(i, t, inputs, out)
            elif self.diagonal:
                term = self.contributions[i](t, *inputs, out)  # type: ignore[index]
            else:
                term = scaled(t, self.partial(i, inputs, out))
            total = term if total is None else total + term
        if total is not None and total._data.shape != out.shape:
            total = total.expand(out.shape)
        return total

    def in_derivatives(self, *args: Any) -> Any:
        """The operator applied to a tangent: products are those in which zero wins."""
        from ..ops.selection import zmul

        return zmul(*args) if self.name == "mul" else self(*args)

    def _jvp_wirtinger(self, i: int, t: Tensor, inputs: Sequence[Any], out: Any) -> Any:
        from ..ops.elementwise import conj, real

        dz, dzbar = self.wirtinger[i](*inputs, out)  # type: ignore[index]
        term = scaled(t, dz) + scaled(conj(t), dzbar)
        return real(term) if out.dtype.kind != "c" else term

    def run_batch(self, dims: Sequence[int | None], inputs: Sequence[Any], params: dict) -> Any:
        from .batching import align

        return self(*align(dims, inputs)), 0

    def infer_out(self, specs: Sequence[Any], params: dict) -> Any:
        from ..layout import broadcast_shapes
        from .base import Spec
        from .kernels import trace_body

        shape = broadcast_shapes(*(s.shape for s in specs), op=self.name)
        return Spec(shape, trace_body(self, tuple(s.dtype for s in specs))[1].dtype)


def elementwise(
    name: str | None = None,
    *,
    alias: Sequence[str] = (),
    method: bool = True,
    inplace: bool = True,
    hidden: bool = False,
    **options: Any,
) -> Callable[[Callable], Callable]:
    """Decorator: declare an elementwise operator from its scalar body (written with ``m`` primitives).

    Returns the call function (its operator is ``REGISTRY[name]``). Unless ``hidden`` it becomes
    ``ng.name``, the tensor method, and with ``inplace`` the method ``name_``.
    """

    def make(body: Callable) -> Callable:
        options.setdefault("partials", None)
        op = Elementwise(body, name=name or body.__name__, doc=body.__doc__ or "", **options)
        if not hidden:
            public(op.fast, name=op.name, alias=alias, method=method, inplace=inplace)
        return op.fast

    return make
