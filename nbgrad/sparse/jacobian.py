"""``sparse_jacobian`` and ``sparse_hessian``: SciPy CSR matrices from a few compressed sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, message
from ..func.api import grad
from ..state import state
from ..tensor import Tensor, Value
from ..utils import pytree
from .compress import Compression, choose, given, symmetric
from .plan import Arguments, Plan, Traced, as_pattern, only_forward, refuse_complex, refuse_history
from .probe import probe
from .propagate import Pattern

MODES = ("auto", "forward", "reverse", "mixed")


class SparseDerivative:
    """A matrix of derivatives as a function of the point; what the two public classes share."""

    op = ""

    def __init__(
        self, fn: Callable, argnums: int | Sequence[int], mode: str, sparsity: Any, coloring: Any
    ):
        if not callable(fn):
            raise ArgumentError(message(self.op, "the function", repr(fn), "a callable"))
        if mode not in MODES:
            raise ArgumentError(
                message(self.op, "argument 'mode'", repr(mode), f"one of {', '.join(MODES)}")
            )
        self._fn, self._argnums, self._mode = fn, argnums, mode
        self._sparsity, self._coloring = sparsity, coloring
        self._traced: dict[Any, Traced] = {}

    def __call__(self, *args: Any) -> Any:
        """The matrix at a point, a ``scipy.sparse.csr_array`` with sorted indices (a fresh one a call).

        Raises
        ------
        TraceError : inside a transform or a trace (see `data`).
        ArgumentError : an argument or captured tensor that requires grad (except under ``no_grad``), or a given pattern
            that lacks entries.
        DTypeError : integer arguments or results, a complex function that is not holomorphic.
        """
        return self._evaluate(args)[1]

    def data(self, *args: Any) -> Tensor:
        """The entries of the matrix in CSR order, a 1-d tensor that can be differentiated.

        Works on tensors that require grad and inside transforms and traces; rows and columns of the entries
        are those of `sparsity`. A given pattern is checked at the first call with numbers.
        """
        at = Arguments(args, self._argnums, self.op)
        plan = self._plan(at)
        entries = plan.values(at.leaves)[1]
        self._check(plan, at, entries)
        return entries

    def sparsity(self, *args: Any) -> Any:
        """The pattern, a boolean ``scipy.sparse.csr_array``: the entries that may be nonzero anywhere."""
        return self._plan(Arguments(args, self._argnums, self.op)).pattern.sets.copy()

    def explain(self, *args: Any) -> str:
        """Size, entries, colours and sweeps, and why these sweeps, as text."""
        plan = self._plan(Arguments(args, self._argnums, self.op))
        sets, how = plan.pattern.sets, plan.compression
        m, n = sets.shape
        filled = 100 * sets.nnz / (m * n) if m * n else 0.0
        sweeps = f"{how.forward} forward, {how.reverse} reverse"
        lines = [
            f"{self.op}: {m} x {n}, {sets.nnz} entries ({filled:.3g} %)",
            f"mode: {how.mode} ({how.reason})",
            f"sweeps: {sweeps}, one a colour (dense: {n} forward or {m} reverse)",
            f"tape: {len(plan.problem.tape)} instructions",
        ]
        if plan.pattern.dense:
            lines.append(f"taken as dense, for want of a rule: {', '.join(plan.pattern.dense)}")
        if plan.pattern.relied:
            lines.append(
                f"the pattern uses the values of {len(plan.pattern.relied)} constants; if one changes it is found anew"
            )
        return "\n".join(lines)

    def _evaluate(self, args: tuple) -> tuple[Any, Any]:
        """The traced function's value and the matrix."""
        from scipy.sparse import csr_array

        at = Arguments(args, self._argnums, self.op)
        refuse_history(at.leaves, self.op)
        plan = self._plan(at)
        refuse_history(plan.problem.tape.captured.values(), self.op)
        previous = state.set_off(0)
        try:
            outs, entries = plan.values(at.leaves)
            refuse_history([entries], self.op)  # inside a trace everything is traced
            self._check(plan, at, entries)
            values = np.asarray(entries.cpu().numpy(), plan.dtype())
        finally:
            state.set_off(previous)
        sets = plan.pattern.sets
        parts = (values, sets.indices.copy(), sets.indptr.copy())
        value = pytree.unflatten(plan.problem.tape.out_tree, outs)
        return value, csr_array(parts, shape=sets.shape)

    def _check(self, plan: Plan, at: Arguments, entries: Tensor) -> None:
        """Probe a given pattern, and whether a complex function is holomorphic, once there are numbers."""
        if plan.checked or any(isinstance(t._data, Value) for t in (entries, *at.leaves)):
            return
        if self._sparsity is not None or plan.dtype().kind == "c":
            previous = state.set_off(0)
            try:
                probe(plan, at.leaves, entries.detach().cpu().numpy(), self.op)
            finally:
                state.set_off(previous)
        plan.checked = True

    def _plan(self, at: Arguments) -> Plan:
        """The plan for a call: found, or made from the function."""
        key = at.signature()
        traced = self._traced.get(key)
        if traced is None:
            traced = self._traced[key] = Traced(self._fn, at, self.op)
        plan = traced.find(at)
        if plan is None:
            if self._sparsity is None:
                pattern = traced.detect(at)
            else:
                pattern = as_pattern(self._sparsity, traced.problem.shape(), self.op)
            pattern = self._complete(pattern)
            plan = traced.add(Plan(traced.problem, pattern, self._compress(traced, pattern)))
        return plan

    def _complete(self, pattern: Pattern) -> Pattern:
        """What the structure of the matrix adds to a pattern."""
        return pattern

    def _compress(self, traced: Traced, pattern: Pattern) -> Compression:
        forward_only = only_forward(traced.problem)
        if forward_only and self._mode in ("reverse", "mixed"):
            raise DTypeError(
                message(
                    self.op,
                    "argument 'mode'",
                    f"{self._mode!r} for complex results of real arguments",
                    "'forward' or 'auto'",
                    "A pullback to a real argument keeps the real part only.",
                )
            )
        if self._coloring is not None:
            return given(pattern.sets, self._coloring, self._mode, self.op)
        return choose(pattern.sets, self._mode, forward_only)


class SparseJacobian(SparseDerivative):
    """What `sparse_jacobian` returns."""

    op = "sparse_jacobian"

    def value_and_jacobian(self, *args: Any) -> tuple[Any, Any]:
        """``(f(x), J(x))`` from the same sweeps; the value has the structure that f returns."""
        return self._evaluate(args)


class SparseHessian(SparseDerivative):
    """What `sparse_hessian` returns."""

    op = "sparse_hessian"

    def gradient_and_hessian(self, *args: Any) -> tuple[Any, Any]:
        """``(gradient, H(x))`` from the same sweeps; the gradient has the structure of the argument(s)."""
        return self._evaluate(args)

    def _complete(self, pattern: Pattern) -> Pattern:
        return pattern._replace(sets=with_transpose(pattern.sets))

    def _compress(self, traced: Traced, pattern: Pattern) -> Compression:
        refuse_complex(traced.problem.columns(), self.op)
        if self._coloring is None and self._mode == "auto":
            return symmetric(pattern.sets)
        return super()._compress(traced, pattern)


def sparse_jacobian(
    fn: Callable,
    argnums: int | Sequence[int] = 0,
    *,
    mode: str = "auto",
    sparsity: Any = None,
    coloring: Any = None,
) -> SparseJacobian:
    """The Jacobian of ``fn`` as a function ``J(*args) -> scipy.sparse.csr_array``.

    The pattern is found from the tape, its columns (rows) are coloured, and a few batched jvps (vjps) give all entries. Tape,
    pattern, colouring and traced sweeps are made once for each combination of shapes and dtypes.

    Rows number the elements of the result, columns those of the differentiated arguments: leaves of a pytree one after
    the other, each flattened in C order; several ``argnums`` one after the other.

    Parameters
    ----------
    fn : a function of tensors (or pytrees of them) that can be traced; arguments beside ``argnums`` are parameters. Integer
        arguments count as constants of the pattern: with another index array it is found anew.
    argnums : the argument(s) to differentiate; floating or complex (then ``fn`` must be holomorphic).
    mode : "forward" (colours the columns), "reverse" (the rows), "mixed" (dense rows in reverse, the rest forward), or "auto",
        the cheapest of them.
    sparsity : a pattern that is known, boolean (rows, columns), dense or SciPy; at the first call it is checked along a
        random direction.
    coloring : a colour for each column (for each row in mode "reverse") instead of the library's.

    Returns
    -------
    `SparseJacobian` : also has ``value_and_jacobian``, ``data`` (the entries as a differentiable tensor), ``sparsity`` and
        ``explain``.

    Raises
    ------
    ArgumentError : an unknown mode; (when called) a wrong shape of ``sparsity``, missing entries, a colouring with conflicts.
    """
    return SparseJacobian(fn, argnums, mode, sparsity, coloring)


def sparse_hessian(
    fn: Callable,
    argnums: int | Sequence[int] = 0,
    *,
    mode: str = "auto",
    sparsity: Any = None,
    coloring: Any = None,
) -> SparseHessian:
    """The Hessian of a real scalar function as ``H(*args) -> scipy.sparse.csr_array``.

    The Jacobian of the traced gradient, forward over reverse; in mode "auto" over a star colouring (Coleman and Moré 1984), which
    makes the result exactly symmetric. Otherwise as `sparse_jacobian`, with ``gradient_and_hessian`` beside it.

    Raises
    ------
    ShapeError, DTypeError : (when called) a result that is no real scalar; complex arguments.
    """
    return SparseHessian(grad(fn, argnums), argnums, mode, sparsity, coloring)


def jacobian_sparsity(fn: Callable, *args: Any, argnums: int | Sequence[int] = 0) -> Any:
    """The pattern of the Jacobian, a boolean ``scipy.sparse.csr_array``; no derivative is computed.

    A superset of the nonzeros at any point. Shapes, dtypes and integer arguments of ``args`` matter, floating values do not.
    """
    at = Arguments(args, argnums, "jacobian_sparsity")
    return Traced(fn, at, "jacobian_sparsity").detect(at).sets


def hessian_sparsity(fn: Callable, *args: Any, argnums: int | Sequence[int] = 0) -> Any:
    """The symmetric pattern of the Hessian of a scalar function (see `jacobian_sparsity`)."""
    return with_transpose(jacobian_sparsity(grad(fn, argnums), *args, argnums=argnums))


def with_transpose(sets: Any) -> Any:
    """The smallest symmetric pattern that holds a square one."""
    both = (sets + sets.T.tocsr()).tocsr()
    both.sort_indices()
    return both
