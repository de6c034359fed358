"""Forward mode and Taylor series through solvers of scalars: Newton's iteration, an ordinary differential equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .base import Lazy, NjitCase, Thunk

COUNT = 100_000


# -- Kepler's equation by Newton's iteration -------------------------------------------------------------
@njit
def kepler(mean: float, e: float) -> float:
    """The eccentric anomaly x: x - e sin(x) = mean."""
    x = mean
    while True:
        d = (x - e * math.sin(x) - mean) / (1.0 - e * math.cos(x))
        x -= d
        if abs(d) < 1e-13:
            break
    return x


@njit
def kepler_dual(mean: float, e: float) -> tuple:
    """The same with a derivative for ``mean`` beside every value."""
    x, dx = mean, 1.0
    while True:
        s, c = math.sin(x), math.cos(x)
        below = 1.0 - e * c
        d = (x - e * s - mean) / below
        dd = (dx - e * c * dx - 1.0 - d * e * s * dx) / below
        x -= d
        dx -= dd
        if abs(d) < 1e-13:
            break
    return x, dx


@njit
def kepler_sum(means: Any, e: float) -> float:
    total = 0.0
    for i in range(means.shape[0]):
        total += kepler(means[i], e)
    return total


def kepler_exact(args: tuple, order: int) -> list[float]:
    """Sums of the solutions and of their derivatives, from the equation."""
    means, e = args
    x = np.array([kepler(v, e) for v in means])
    s, q = e * np.sin(x), 1.0 / (1.0 - e * np.cos(x))
    second = -s * q**3
    third = -(e * np.cos(x)) * q**4 + 3 * s * s * q**5
    return [float(v.sum()) for v in (x, q, second, third)][: order + 1]


# -- a pendulum by Runge and Kutta -----------------------------------------------------------------------
@njit
def pendulum(angle: float, damping: float, dt: float, steps: int) -> float:
    """The angle after RK4 steps from rest."""
    a, v, h = angle, 0.0, 0.5 * dt
    for _ in range(steps):
        k1, l1 = v, -math.sin(a) - damping * v
        k2, l2 = v + h * l1, -math.sin(a + h * k1) - damping * (v + h * l1)
        k3, l3 = v + h * l2, -math.sin(a + h * k2) - damping * (v + h * l2)
        k4, l4 = v + dt * l3, -math.sin(a + dt * k3) - damping * (v + dt * l3)
        a += dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        v += dt / 6.0 * (l1 + 2.0 * l2 + 2.0 * l3 + l4)
    return a


@njit
def rate_dual(a: float, v: float, da: float, dv: float, damping: float) -> tuple:
    return v, -math.sin(a) - damping * v, dv, -math.cos(a) * da - damping * dv


@njit
def pendulum_dual(angle: float, damping: float, dt: float, steps: int) -> tuple:
    a, v, da, dv, h, s = angle, 0.0, 1.0, 0.0, 0.5 * dt, dt / 6.0
    for _ in range(steps):
        k1, l1, m1, n1 = rate_dual(a, v, da, dv, damping)
        k2, l2, m2, n2 = rate_dual(a + h * k1, v + h * l1, da + h * m1, dv + h * n1, damping)
        k3, l3, m3, n3 = rate_dual(a + h * k2, v + h * l2, da + h * m2, dv + h * n2, damping)
        k4, l4, m4, n4 = rate_dual(a + dt * k3, v + dt * l3, da + dt * m3, dv + dt * n3, damping)
        a += s * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        v += s * (l1 + 2.0 * l2 + 2.0 * l3 + l4)
        da += s * (m1 + 2.0 * m2 + 2.0 * m3 + m4)
        dv += s * (n1 + 2.0 * n2 + 2.0 * n3 + n4)
    return a, da


def pendulum_differences(args: tuple, order: int) -> list[float]:
    """Derivatives for the first angle, by a polynomial through values nearby."""
    angle, *rest = args
    h, k = 0.02, np.arange(-5, 6)
    values = np.array([pendulum(angle + h * i, *rest) for i in k])
    coefficients = np.linalg.solve(np.vander(k, increasing=True).astype(float), values)
    return [coefficients[j] * math.factorial(j) / h**j for j in range(order + 1)]


# -- cases -----------------------------------------------------------------------------------------------
def kepler_by_hand() -> Callable:
    @njit
    def total(means: Any, e: float) -> tuple:
        value = slope = 0.0
        for i in range(means.shape[0]):
            x, d = kepler_dual(means[i], e)
            value += x
            slope += d
        return value, slope

    return total


def kepler_first() -> Callable:
    import nbgrad as ng

    jvp = ng.njit.jvp(kepler)

    @njit
    def total(means: Any, e: float) -> tuple:
        value = slope = 0.0
        for i in range(means.shape[0]):
            x, d = jvp((means[i], e), 1.0)
            value += x
            slope += d
        return value, slope

    return total


def kepler_third() -> Callable:
    import nbgrad as ng

    jet = ng.njit.jet(kepler, 3)

    @njit
    def total(means: Any, e: float) -> tuple:
        s0 = s1 = s2 = s3 = 0.0
        for i in range(means.shape[0]):
            x, d1, d2, d3 = jet((means[i], e), 1.0)
            s0 += x
            s1 += d1
            s2 += d2
            s3 += d3
        return s0, s1, s2, s3

    return total


def kepler_ways(order: int) -> Callable[[tuple], dict[str, Thunk]]:
    """Sums over many means, so that what is measured is not the call from Python."""

    def ways(args: tuple) -> dict[str, Thunk]:
        def bound(make: Callable) -> Lazy:
            def build() -> Thunk:
                total = make()
                return lambda: total(*args)

            return Lazy(build)

        made: dict[str, Thunk] = {"primal": lambda: kepler_sum(*args)}
        if order == 1:
            made["by hand"] = bound(kepler_by_hand)
        made["derivative"] = bound(kepler_first if order == 1 else kepler_third)
        return made

    return ways


def pendulum_ways(order: int) -> Callable[[tuple], dict[str, Thunk]]:
    def ways(args: tuple) -> dict[str, Thunk]:
        def ours() -> Thunk:
            import nbgrad as ng

            j = ng.njit.jvp(pendulum) if order == 1 else ng.njit.jet(pendulum, order)
            return lambda: j(args, 1.0)

        made: dict[str, Thunk] = {"primal": lambda: pendulum(*args)}
        if order == 1:
            made["by hand"] = lambda: pendulum_dual(*args)
        made["derivative"] = Lazy(ours)
        return made

    return ways


def check(exact: Callable, order: int) -> Callable[[Any, list[np.ndarray]], float]:
    def error(args: tuple, got: list[np.ndarray]) -> float:
        want = exact(args, order)
        return max(abs(float(g) - w) / max(1.0, abs(w)) for g, w in zip(got, want, strict=True))

    return error


def kepler_data(small: bool) -> tuple:
    return np.linspace(0.1, 3.0, 100 if small else COUNT), 0.7


def pendulum_data(small: bool) -> tuple:
    return 2.0, 0.1, 0.01, 200 if small else 100_000


def case(name: str, title: str, order: int, goal: float) -> NjitCase:
    newton = name.startswith("kepler")
    return NjitCase(
        name,
        title,
        kepler_data if newton else pendulum_data,
        (kepler_ways if newton else pendulum_ways)(order),
        goal,
        check=check(kepler_exact if newton else pendulum_differences, order),
        check_tolerance=1e-9 if newton else 1e-5,
    )


CASES = [
    case("kepler_jvp", "Newton's iteration for 1e5 scalars, jvp", 1, 1.8),
    case("kepler_jet", "Newton's iteration for 1e5 scalars, jet of order 3", 3, 3.0),
    case("pendulum_jvp", "a pendulum, 1e5 steps of RK4, jvp", 1, 1.8),
    case("pendulum_jet", "a pendulum, 1e5 steps of RK4, jet of order 3", 3, 3.0),
]
