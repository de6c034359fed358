"""The Operator record: everything nbgrad knows of one primitive, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import UnsupportedError
from ..tensor import Tensor

if TYPE_CHECKING:
    from ..autograd.graph import OpNode


class Registry(dict[str, "Operator"]):
    """Operators by name. ``families[prefix](n)`` declares ``prefix_n`` when it is first asked for."""

    families: dict[str, Callable[[int], Any]] = {}

    def __missing__(self, name: str) -> Operator:
        prefix, _, number = name.rpartition("_")
        if prefix not in self.families or not number.isdecimal():
            raise KeyError(name)
        self.families[prefix](int(number))
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The operator or ``default``."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None


REGISTRY = Registry()
OUT = -1  # in ``saves``: the outputs


class Spec(NamedTuple):
    """Stands for a value that was not saved: a rule may ask its shape and dtype, nothing else."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


class Operator:
    """A primitive with its kernels and derivative rules.

    Rules are written in operator vocabulary, so that every interpreter can run them:

    forward(*arrays, **params) -> array or tuple
        the CPU kernel; ``cuda`` is the same for device arrays.
    vjp(g, out, *inputs, needs, **params) -> tuple of cotangents
        a value that is not in ``saves`` arrives as a `Spec`; ``needs[i]`` tells which are wanted.
    jvp(tangents, out, *inputs, **params) -> tangent (or tuple)
        a None tangent is a symbolic zero.
    batch(dims, *inputs, **params) -> (out, out_dim)
        ``dims[i]`` is the batch dimension of input i or None.

    ``linear`` lists the arguments in which the operator is jointly linear, ``multilinear`` those in which it is linear
    one at a time: jvp, Taylor and (through transposition) vjp follow from it. If only one of vjp and jvp is
    declared, the other is derived by transposing it.
    """

    category = "custom"

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any] | None,
        *,
        nin: int | None = 1,
        saves: Sequence[int] | Callable[..., Sequence[int]] = (),
        linear: tuple[int, ...] | str | None = None,
        multilinear: tuple[int, ...] | None = None,
        differentiable: bool = True,
        nondiff: tuple[int, ...] = (),
        n_out: Callable[[dict], int] | int = 1,
        doc: str = "",
        tests: Any = None,
        reference: Callable[..., Any] | None = None,
    ):
        self.name, self.nin, self.saves = name, nin, saves
        self._forward = forward
        self._cuda: Callable[..., Any] | None = None
        self.linear, self.multilinear = linear, multilinear
        self.differentiable, self.nondiff, self._n_out = differentiable, nondiff, n_out
        self.node_name = "".join(p.capitalize() for p in name.split("_")) + "Backward"
        self.doc, self.tests, self.reference = doc, tests, reference
        self.vjp_rule: Callable[..., tuple] | None = None
        self.jvp_rule: Callable[..., Any] | None = None
        self.taylor_rule: Callable[..., Any] | None = None
        self.batch_rule: Callable[..., tuple] | None = None
        self.infer_rule: Callable[..., Any] | None = None
        if dict.__contains__(REGISTRY, name):
            raise ValueError(f"operator {name!r} is declared twice")
        REGISTRY[name] = self

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    # -- declaration ---------------------------------------------------------------------------
    def cuda(self, fn: Callable) -> Callable:
        """Declare the CUDA kernel."""
        self._cuda = fn
        return fn

    def vjp(self, fn: Callable) -> Callable:
        """Declare the vjp rule."""
        self.vjp_rule = fn
        return fn

    def jvp(self, fn: Callable) -> Callable:
        """Declare the jvp rule."""
        self.jvp_rule = fn
        return fn

    def taylor(self, fn: Callable) -> Callable:
        """Declare a Taylor rule (only where the derived one is not good enough)."""
        self.taylor_rule = fn
        return fn

    def batch(self, fn: Callable) -> Callable:
        """Declare the batching rule."""
        self.batch_rule = fn
        return fn

    def infer(self, fn: Callable) -> Callable:
        """Declare ``infer(*specs, **params) -> Spec or tuple`` (else the kernel runs on ones)."""
        self.infer_rule = fn
        return fn

    # -- use -----------------------------------------------------------------------------------
    def __call__(self, *args: Any, **params: Any) -> Any:
        from .dispatch import apply

        return apply(self, args, params)

    def n_out(self, params: dict) -> int:
        """How many outputs a call with these parameters has."""
        return self._n_out(params) if callable(self._n_out) else self._n_out

    def forward(self, arrays: Sequence[Any], params: dict) -> Any:
        """Run the kernel of the arrays' device."""
        if all(type(a) is np.ndarray for a in arrays):
            assert self._forward is not None
            return self._forward(*arrays, **params)
        if self._cuda is None:
            from ..cuda import kernels  # importing it declares the CUDA kernels there are
        if self._cuda is None:
            kernels.common_device(self.name, arrays)
            raise UnsupportedError(
                f"{self.name}: no CUDA kernel; move the tensors to the CPU with .cpu() for this operation"
            )
        return self._cuda(*arrays, **params)

    def infer_out(self, specs: Sequence[Spec], params: dict) -> Any:
        """Shapes and dtypes of the outputs without real data."""
        if self.infer_rule is not None:
            return self.infer_rule(*specs, **params)
        dummies = [np.broadcast_to(np.ones((), s.dtype), s.shape) for s in specs]
        with np.errstate(all="ignore"):
            out = self.forward([np.array(d) for d in dummies], params)
        if isinstance(out, tuple):
            return tuple(Spec(o.shape, o.dtype) for o in out)
        return Spec(out.shape, out.dtype)

    def linear_args(self, n: int) -> tuple[int, ...]:
        """The jointly linear arguments of a call with ``n`` inputs (``linear='all'`` means every one)."""
        if self.linear == "all":
            return tuple(range(n))
        return self.linear or ()  # type: ignore[return-value]

    def saved_for(self, needs: Sequence[bool], params: dict) -> Sequence[int]:
        """Which inputs (and `OUT`) the vjp rule reads."""
        return self.saves(needs, params) if callable(self.saves) else self.saves

    def run_vjp(self, node: OpNode, g: Any) -> tuple:
        """Execute the vjp rule of a recorded node on tensors."""
        from . import derive

        inputs, out = restore(node)
        needs = tuple(e is not None for e in node.edges)
        if self.vjp_rule is not None:
            got = self.vjp_rule(g, out, *inputs, needs=needs, **node.params)
        else:
            got = derive.transpose_jvp(self, g, out, inputs, needs, node.params)
        return derive.fit_cotangents(got, node.specs, needs)

    def run_jvp(
        self, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], params: dict
    ) -> Any:
        """Execute (or derive) the jvp rule on tensors."""
        from . import derive

        return derive.run_jvp(self, tangents, out, inputs, params)

    def run_batch(self, dims: Sequence[int | None], inputs: Sequence[Any], params: dict) -> Any:
        """Execute the batching rule."""
        if self.batch_rule is None:
            raise UnsupportedError(
                f"vmap: operator '{self.name}' declares no batching rule; loop over the batch in Python "
                "and stack the results"
            )
        return self.batch_rule(dims, *inputs, **params)


def restore(node: OpNode) -> tuple[list[Any], Any]:
    """Inputs and outputs of a node as tensors, or `Spec` where they were not saved."""
    values = saved_pairs(node)
    op = node.op
    saved = op.saved_for(tuple(e is not None for e in node.edges), node.params)
    inputs: list[Any] = [Spec(*s) for s in node.specs]
    for i in saved:
        if i != OUT:
            inputs[i] = as_saved(*next(values), node.edges[i], node.nrs[i] if node.nrs else 0)
    if OUT not in saved:
        return inputs, None
    outs = [as_saved(*next(values), node, k) for k in range(node.n_outputs)]
    return inputs, tuple(outs) if op.n_out(node.params) != 1 or len(outs) > 1 else outs[0]


def saved_pairs(node: Any) -> Iterator[tuple[Any, list | None]]:
    """Saved values with the version cells they were read under (Python scalars have none)."""
    cells = iter(node.vers)
    for value in node.unpack():
        yield value, None if isinstance(value, np.generic) else next(cells, None)


def as_saved(value: Any, cell: list | None, node: Any, nr: int) -> Tensor:
    """A saved raw value with its edge; a saved Tensor belongs to a lower level and is used as it is."""
    if isinstance(value, Tensor):
        return value
    return Tensor(np.asarray(value) if isinstance(value, np.generic) else value, node, nr, cell)


def operator(name: str | None = None, **options: Any) -> Callable[[Callable], Operator]:
    """Decorator: declare a custom operator from its CPU kernel."""

    def make(fn: Callable) -> Operator:
        return Operator(name or fn.__name__, fn, doc=fn.__doc__ or "", **options)

    return make
