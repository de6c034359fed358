"""What a case of the compiler's benchmark is, and small helpers of its formulations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Thunk = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One row of the table.

    ``data()`` gives the same arrays in every process; ``peers[name](data)`` gives that peer's formulations, functions without
    arguments that return the same arrays in the same order for all peers.
    """

    name: str
    title: str
    data: Callable[[], Any]
    peers: dict[str, Callable[[Any], dict[str, Thunk]]]
    goals: dict[str, float]  # peer's time over ours, at least
    aims: dict[str, float] = field(default_factory=dict)
    traffic: int = 0  # bytes that must go through memory, for cases bound by it
    scale: dict[tuple[str, str], float] = field(
        default_factory=dict
    )  # of one that does a part of the work
    tolerance: float = 1e-8


class Compiled:
    """An nbgrad formulation: a compiled function and its arguments."""

    def __init__(self, fn: Callable, *args: Any):
        import nbgrad as ng

        self.fn, self.args = ng.compile(fn), args

    def __call__(self) -> Any:
        return self.fn(*self.args)

    def schedule(self) -> str:
        """Steps of the program, the operators on the host named, and its memory."""
        program = self.fn.program(*self.args)
        layout = program.runner.layout
        steps = [describe(s) for s in layout.steps]
        size = len(program.prepared[0].instructions)
        memory = f"workspace {layout.work_bytes / 1e6:.3g} MB, scratch {layout.scratch_bytes / 1e3:.3g} kB"
        return f"{size} instructions, {len(steps)} steps ({memory}): " + ", ".join(steps)


def describe(step: Any) -> str:
    """A step of a schedule in a word or two."""
    ins = getattr(step, "ins", None)
    if ins is not None:
        shapes = [list(r.layout.shape) for r in step.inputs]
        return f"HOST {ins.op}{shapes}"
    chunks = getattr(step, "chunks", None)
    return type(step).__name__.lower() + (f" of {chunks} chunks" if chunks else "")


def schedule(fn: Any) -> str:
    """How a formulation runs, if it can say so."""
    return fn.schedule() if hasattr(fn, "schedule") else "not one compiled program"


def jitted(fn: Callable, *args: Any) -> Thunk:
    """A JAX formulation: compiled, and waiting for its result."""
    import jax

    compiled = jax.jit(fn)
    return lambda: jax.block_until_ready(compiled(*args))


def flat(tree: Any) -> list[np.ndarray]:
    """The arrays of nested lists, tuples and dictionaries (by sorted keys), as NumPy arrays."""
    if isinstance(tree, dict):
        return [a for k in sorted(tree) for a in flat(tree[k])]
    if isinstance(tree, list | tuple):
        return [a for t in tree for a in flat(t)]
    if hasattr(tree, "detach"):
        tree = tree.detach()
    return [np.asarray(tree)]


def mapped(fn: Callable, tree: Any) -> Any:
    """The tree with a function applied to its arrays."""
    if isinstance(tree, dict):
        return {k: mapped(fn, v) for k, v in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(fn, v) for v in tree)
    return fn(tree)


def for_nbgrad(tree: Any) -> Any:
    """Arrays as tensors."""
    import nbgrad as ng

    return mapped(ng.tensor, tree)


def for_jax(tree: Any) -> Any:
    """Arrays as JAX arrays."""
    import jax.numpy as jnp

    return mapped(jnp.asarray, tree)


def for_torch(tree: Any, requires_grad: bool = False) -> Any:
    """Arrays as torch tensors."""
    import torch

    return mapped(lambda a: torch.tensor(a, requires_grad=requires_grad), tree)


def mlp_arrays(sizes: list[int], seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of a perceptron."""
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((i, o)) / np.sqrt(i), rng.standard_normal(o) * 0.1)
        for i, o in itertools.pairwise(sizes)
    ]


def mlp(lib: Any, params: Any, h: Any) -> Any:
    """A tanh perceptron on arrays (..., d), one value a point (...); ``lib`` has ``tanh``."""
    for w, b in params[:-1]:
        h = lib.tanh(h @ w + b)
    w, b = params[-1]
    return (h @ w + b)[..., 0]
