"""``autograd.grad`` and ``autograd.backward`` with PyTorch's signatures and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import AutogradError, DTypeError, ShapeError, message
from ..op import as_tensor
from ..tensor import Tensor
from .engine import run_backward
from .graph import Node


def _list(x: Any, op: str, arg: str) -> list[Any]:
    if isinstance(x, Tensor) or is_edge(x):
        return [x]
    if isinstance(x, list | tuple):
        return list(x)
    raise DTypeError(
        message(op, f"argument '{arg}'", type(x).__name__, "a tensor or a sequence of tensors")
    )


def is_edge(x: Any) -> bool:
    """Whether something is a ``GradientEdge`` (a named tuple of node and output number)."""
    return isinstance(x, tuple) and isinstance(getattr(x, "node", None), Node)


def _seed(out: Tensor, g: Any, op: str) -> Tensor:
    """The cotangent an output starts with, checked."""
    if g is None:
        if out.size_() != 1:
            raise AutogradError(
                f"{op}: the output has shape {tuple(out.shape)}; a gradient can be created implicitly only "
                "for a scalar. Reduce it (e.g. with .sum()) or pass the cotangent as 'gradient' / "
                "'grad_outputs'."
            )
        if out.dtype.kind == "c":
            raise AutogradError(
                f"{op}: the output is complex; a gradient can be created implicitly only for real outputs. "
                "Pass the cotangent, or take .real or .abs() first."
            )
        return out.ones_like_()
    g = as_tensor(g, op, "grad_outputs")
    if tuple(g.shape) != tuple(out.shape):
        raise ShapeError(
            message(
                op,
                "a cotangent's shape",
                tuple(g.shape),
                f"{tuple(out.shape)}, the shape of its output",
            )
        )
    if g.dtype != out.dtype:
        if g.dtype.kind == "c" and out.dtype.kind != "c":
            raise DTypeError(message(op, "a cotangent's dtype", g.dtype.name, f"{out.dtype.name}"))
        g = g.to(out.dtype)
    return g


def _roots(
    outputs: Sequence[Tensor], grads: Sequence[Any], op: str
) -> list[tuple[Node, int, Tensor]]:
    roots = []
    for out, g in zip(outputs, grads, strict=True):
        if is_edge(out):
            if g is None:
                raise AutogradError(
                    f"{op}: a GradientEdge as an output needs its cotangent in 'grad_outputs'."
                )
            roots.append((out.node, out.output_nr, as_tensor(g, op, "grad_outputs")))
            continue
        if not isinstance(out, Tensor):
            raise DTypeError(message(op, "an output", type(out).__name__, "a tensor"))
        out.refresh_()
        if out._node is None:
            raise AutogradError(
                f"{op}: an output does not require grad (it has no grad_fn); set requires_grad=True on an "
                "input before computing it, and check that no_grad() or detach() did not cut the graph."
            )
        roots.append((out._node, out._nr, _seed(out, g, op)))
    return roots


def _cotangents(grads: Any, n: int, op: str) -> list[Any]:
    if grads is None:
        return [None] * n
    found = _list(grads, op, "grad_outputs")
    if len(found) != n:
        raise ShapeError(
            message(op, "argument 'grad_outputs'", f"{len(found)} tensors", f"{n}, one an output")
        )
    return found


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate d(tensors)/d(leaf) into ``.grad`` of the leaves.

    Parameters
    ----------
    tensors : the outputs to differentiate.
    grad_tensors : cotangents, needed for outputs that are not real scalars.
    retain_graph : keep the saved values for another pass (default: as ``create_graph``).
    create_graph : record the backward itself, so that the gradients can be differentiated.
    inputs : accumulate only into these tensors (non-leaves among them retain their gradient).

    Raises
    ------
    AutogradError : no graph, freed buffers, a tensor changed in place, or an implicit non-scalar cotangent.
    """
    outs = _list(tensors, "backward", "tensors")
    roots = _roots(outs, _cotangents(grad_tensors, len(outs), "backward"), "backward")
    edges = None
    if inputs is not None:
        wanted = _list(inputs, "backward", "inputs")
        if not wanted:
            raise AutogradError(
                "backward: argument 'inputs' is empty; pass tensors, or None for all leaves."
            )
        edges = [edge(t, "backward") for t in wanted]
        for t in wanted:
            if isinstance(t, Tensor):
                t.retain_grad()
    retain = create_graph if retain_graph is None else retain_graph
    run_backward(roots, retain=retain, create_graph=create_graph, inputs=edges)


def edge(t: Any, op: str) -> tuple[Node, int]:
    """The graph edge of a tensor (or `GradientEdge`) gradients are asked for."""
    if is_edge(t):
        return t.node, t.output_nr
    if not isinstance(t, Tensor):
        raise DTypeError(message(op, "an input", type(t).__name__, "a tensor"))
    t.refresh_()
    if t._node is None:
        raise AutogradError(
            f"{op}: an input does not require grad; call requires_grad_() on it before computing the outputs."
        )
    return t._node, t._nr


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """Gradients of ``sum(outputs * grad_outputs)`` with respect to ``inputs``, as a tuple.

    Same parameters and meaning as ``torch.autograd.grad``; see `backward` for the common ones.

    Parameters
    ----------
    allow_unused : return None for an input the outputs do not depend on (else an error).
    is_grads_batched : ``grad_outputs`` carry a leading batch dimension; the vjps are vectorised over it.
    materialize_grads : return zeros instead of None for unused inputs.
    """
    outs = _list(outputs, "grad", "outputs")
    ins = _list(inputs, "grad", "inputs")
    if not ins:
        raise AutogradError("grad: argument 'inputs' is empty; pass at least one tensor.")
    if materialize_grads and allow_unused is False:
        raise AutogradError(
            "grad: materialize_grads=True needs allow_unused to be True or not given."
        )
    cots = _cotangents(grad_outputs, len(outs), "grad")
    retain = create_graph if retain_graph is None else retain_graph
    options = {"retain": retain, "create_graph": create_graph}
    if is_grads_batched:
        from .batched import batched_grad

        got = batched_grad(outs, ins, cots, options)
    else:
        edges = [edge(t, "grad") for t in ins]
        roots = _roots(outs, cots, "grad")
        got = run_backward(roots, inputs=edges, accumulate=False, **options)
    return finish(ins, got, bool(allow_unused) or materialize_grads, materialize_grads)


def finish(ins: Sequence[Tensor], got: Sequence[Any], allow: bool, fill: bool) -> tuple:
    """Unused inputs: an error, None or zeros."""
    out = []
    for i, (t, g) in enumerate(zip(ins, got, strict=True)):
        if g is None and not allow:
            raise AutogradError(
                f"grad: input {i} was not used to compute the outputs; pass allow_unused=True to get None for "
                "it, or materialize_grads=True for zeros."
            )
        if g is None and fill and isinstance(t, Tensor):
            g = t.zeros_like_()
        out.append(g)
    return tuple(out)
