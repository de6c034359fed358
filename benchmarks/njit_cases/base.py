"""What a case of the benchmark of `nbgrad.njit` is, and how its gradient is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Thunk = Callable[[], Any]
Ways = Callable[[Any], dict[str, Thunk]]


@dataclass(frozen=True)
class NjitCase:
    """One row of the table.

    ``data(small)`` gives the same arguments in every process. ``ways(data)`` are nbgrad's functions without arguments: "primal",
    "by hand" (where someone wrote the derivative) and derivatives by nbgrad; all but the primal return the same arrays.
    ``peers[name](data)`` are a peer's, of which one may be called "primal".
    """

    name: str
    title: str
    data: Callable[[bool], Any]
    ways: Ways
    goal: float  # the derivative's time over the primal's, at most
    peers: dict[str, Ways] = field(default_factory=dict)
    goals: dict[str, float] = field(default_factory=dict)  # a peer's time over ours, at least
    check: Callable[[Any, list[np.ndarray]], float] | None = None  # the error of a result
    view: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None  # the part peers also give
    scale: dict[tuple[str, str], float] = field(default_factory=dict)  # of one that does a part
    tolerance: float = 1e-8
    check_tolerance: float = 1e-6  # of finite differences


class Lazy:
    """A formulation that is built when first called, so that one that fails leaves the others alone."""

    def __init__(self, make: Callable[[], Thunk]):
        self.make, self.fn = make, None

    def __call__(self) -> Any:
        if self.fn is None:
            self.fn = self.make()
        return self.fn()


def copies(args: Sequence) -> list:
    """The arguments, their arrays copied: programs may write into them."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def called(fn: Callable, args: Sequence, written: Sequence[int] = ()) -> Thunk:
    """A call, with copies of the arrays that it writes into."""
    if not written:
        return lambda: fn(*args)
    return lambda: fn(*(a.copy() if i in written else a for i, a in enumerate(args)))


def differences(
    program: Callable, argnums: Sequence[int], step: float = 1e-4
) -> Callable[[Any, list[np.ndarray]], float]:
    """A check of [value, gradients ...] along two directions by central differences of fourth order."""

    def check(args: Sequence, got: list[np.ndarray]) -> float:
        rng = np.random.default_rng(5)
        errors = [relative(program(*copies(args)), got[0])]
        for _ in range(2):
            along = [rng.standard_normal(np.shape(args[k])) for k in argnums]

            def moved(h: float, along: list = along) -> float:
                new = copies(args)
                for k, v in zip(argnums, along, strict=True):
                    new[k] = new[k] + h * (v if np.ndim(v) else float(v))
                return program(*new)

            near, far = (moved(h) - moved(-h) for h in (step, 2 * step))
            slope = (8 * near - far) / (12 * step)
            got_slope = sum(float(np.sum(v * g)) for v, g in zip(along, got[1:], strict=True))
            size = np.sqrt(sum(float(np.sum(np.square(g))) for g in got[1:]))
            errors.append(abs(slope - got_slope) / max(size, abs(slope), 1e-300))
        return max(errors)

    return check


def relative(want: Any, got: Any) -> float:
    """The relative difference of two numbers."""
    return abs(float(want) - float(got)) / max(1.0, abs(float(want)))


def gradient_case(
    name: str,
    title: str,
    program: Callable,
    argnums: tuple[int, ...],
    data: Callable[[bool], tuple],
    by_hand: Callable | None = None,
    written: Sequence[int] = (),
    step: float = 1e-4,
    **more: Any,
) -> NjitCase:
    """A case of value and gradient of a program; ``by_hand`` returns (value, gradient ...)."""

    def ways(args: tuple) -> dict[str, Thunk]:
        def ours() -> Thunk:
            import nbgrad as ng

            return called(ng.njit.value_and_grad(program, argnums), args)

        made: dict[str, Thunk] = {"primal": called(program, args, written)}
        if by_hand is not None:
            made["by hand"] = called(by_hand, args)
        made["gradient"] = Lazy(ours)
        return made

    check = differences(program, argnums, step)
    return NjitCase(name, title, data, ways, check=check, **more)
