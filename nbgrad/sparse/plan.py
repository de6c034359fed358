"""What is found once per signature and used at every point: tape, pattern, colouring, sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..device import beside
from ..dtypes import promote, promote_scalar
from ..errors import ArgumentError, DTypeError, TraceError, message
from ..func.flat import check_inexact
from ..func.trees import select
from ..op import Spec, as_tensor
from ..ops.index import index
from ..state import ON, state
from ..tape.record import trace_call
from ..tensor import Tensor, Value
from ..utils import pytree
from .compress import Compression
from .propagate import Pattern, propagate, still_holds
from .sweep import Problem, Sweeps

# patterns kept per signature for different index arrays
_KEPT = 8


class Arguments:
    """A call's arguments as tensors, and the positions of the leaves that vary.

    Python numbers are weak: they take the dtype they would have beside the first varying leaf.
    """

    def __init__(self, args: tuple, argnums: int | Sequence[int], op: str):
        self.args = args
        self.which = select(args, argnums, op)
        self.wrt: list[int] = []
        leaves, self.tree = pytree.flatten(args)
        start = 0
        spans = {}
        for i, a in enumerate(args):
            n = len(pytree.flatten(a)[0])
            spans[i] = range(start, start + n)
            start += n
        for i in self.which:
            self.wrt.extend(spans[i])
        dtype = next((as_tensor(leaves[i], op).dtype for i in self.wrt), None)
        self.leaves = [
            Tensor(np.asarray(x, promote_scalar(dtype, x)))
            if dtype is not None and type(x) in (float, complex)
            else as_tensor(x, op)
            for x in leaves
        ]
        for i in self.wrt:
            check_inexact(self.leaves[i], op)

    def signature(self) -> tuple:
        """Structure, shapes and dtypes."""
        return self.tree, tuple((tuple(t.shape), t.dtype) for t in self.leaves)

    def unflattened(self) -> tuple:
        """The arguments with tensors as leaves."""
        return pytree.unflatten(self.tree, self.leaves)

    def integers(self) -> dict[int, np.ndarray]:
        """Integer leaves with known values, by position: index arrays and the like."""
        return {
            i: t._data
            for i, t in enumerate(self.leaves)
            if t.dtype.kind in "biu" and type(t._data) is np.ndarray
        }


class Plan:
    """A pattern, its compression and the traced sweeps."""

    def __init__(self, problem: Problem, pattern: Pattern, compression: Compression):
        self.problem, self.pattern, self.compression = problem, pattern, compression
        self.sweeps = Sweeps(problem, compression)
        self.source = Tensor(compression.source)
        self.checked = False

    def values(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The function's outputs and the entries of the matrix in CSR order."""
        outs, flat = self.sweeps.run(inputs)
        if flat is None or not self.compression.source.size:
            return outs, Tensor(np.zeros(len(self.compression.source), self.dtype()))
        return outs, index(flat, beside(flat, self.source), axes=(0,))

    def dtype(self) -> np.dtype:
        """The dtype of the matrix: that of outputs and varying inputs together."""
        specs = [*self.problem.rows(), *self.problem.columns()]
        dtype = specs[0].dtype if specs else np.dtype(float)
        for s in specs[1:]:
            dtype = promote(dtype, s.dtype)
        return dtype


class Traced:
    """One signature's tape and its plans (several if the pattern depends on index arrays that change)."""

    def __init__(self, fn: Callable, given: Arguments, op: str):
        self.op = op
        previous = state.set_off(ON)  # a caller's no_grad is not part of the function
        try:
            tape = trace_call(fn, given.unflattened())
        finally:
            state.set_off(previous)
        self.problem = Problem(tape.simplify(), tuple(given.wrt))
        check_results(self.problem.rows(), op)
        self.plans: list[Plan] = []
        self.varying: set[int] = set()

    def detect(self, given: Arguments) -> Pattern:
        """The pattern from the tape."""
        inputs = self.problem.tape.inputs
        known = {inputs[i]: a for i, a in given.integers().items()}
        return propagate(self.problem.tape, self.problem.wrt, known, self.varying)

    def find(self, given: Arguments) -> Plan | None:
        """A plan that fits the present values of the constants it relies on.

        A captured floating tensor that has changed is not relied on again, so that a parameter in training costs one
        new pattern and not one a step.
        """
        tape = self.problem.tape
        inputs = dict(zip(tape.inputs, given.leaves, strict=True))
        for plan in self.plans:
            changed = still_holds(plan.pattern, tape, inputs)
            if not changed:
                return plan
            self.varying.update(
                v for v in changed if v in tape.captured and tape.specs[v].dtype.kind in "fc"
            )
        return None

    def add(self, plan: Plan) -> Plan:
        """Keep a plan (of the last few)."""
        self.plans = [plan, *self.plans[: _KEPT - 1]]
        return plan


def as_pattern(sparsity: Any, shape: tuple[int, int], op: str) -> Pattern:
    """The user's pattern (a SciPy sparse matrix or a 2-d array) as boolean CSR.

    Raises
    ------
    ArgumentError : a shape that is not that of the Jacobian.
    """
    from scipy.sparse import csr_array, issparse

    given = sparsity if issparse(sparsity) else np.asarray(sparsity)
    if tuple(given.shape) != shape:
        raise ArgumentError(
            message(
                op,
                "argument 'sparsity' of shape",
                tuple(given.shape),
                f"{shape}, one row an output element and one column an input element",
            )
        )
    # stored zeros of a sparse matrix belong to its pattern
    data = given.tocoo() if issparse(sparsity) else None
    if data is None:
        matrix = csr_array(given.astype(bool))
    else:
        matrix = csr_array((np.ones(data.nnz, bool), (data.row, data.col)), shape=shape)
        matrix.sum_duplicates()
    matrix.sort_indices()
    return Pattern(matrix, {}, ())


def refuse_history(tensors: Iterable[Tensor], op: str) -> None:
    """A SciPy matrix has no derivatives: raise where one would be lost.

    Raises
    ------
    TraceError : a tensor that has no numbers here, inside a trace, vmap or forward mode.
    ArgumentError : a tensor with history, while gradients are recorded.
    """
    fix = (
        "Use data(x), whose entries are a differentiable tensor, or products with the Jacobian (ng.func.jvp, "
        "ng.func.vjp)."
    )
    wanted = "one with values and without history, as the result is a SciPy matrix"
    for t in tensors:
        if isinstance(t._data, Value):
            what = "a traced or transformed tensor"
            raise TraceError(message(op, "an argument or captured tensor", what, wanted, fix))
        if t._node is not None and state.off > 0:
            what = "a tensor that requires grad (or is differentiated by func.grad)"
            how = "If no derivative is wanted, pass x.detach() or work under ng.no_grad()."
            raise ArgumentError(
                message(op, "an argument or captured tensor", what, wanted, f"{fix} {how}")
            )


def check_results(specs: Iterable[Spec], op: str) -> None:
    """Raise DTypeError for a result that has no derivative."""
    for s in specs:
        if s.dtype.kind not in "fc":
            raise DTypeError(
                message(op, "the function's result", s.dtype.name, "a floating or complex one")
            )


def refuse_complex(specs: Iterable[Spec], op: str) -> None:
    """Raise DTypeError for complex arguments of a real function: they have no Hessian."""
    if any(s.dtype.kind == "c" for s in specs):
        fix = "Pass real and imaginary parts as real arguments."
        raise DTypeError(message(op, "the argument's dtype", "complex", "a real one", fix))


def only_forward(problem: Problem) -> str:
    """Why reverse sweeps cannot give the Jacobian, if so: they project to real inputs."""
    inputs = {s.dtype.kind for s in problem.columns()}
    outputs = {s.dtype.kind for s in problem.rows()}
    if "c" in outputs and "f" in inputs:
        return "forward: a pullback of complex results to real inputs keeps the real part only"
    return ""
