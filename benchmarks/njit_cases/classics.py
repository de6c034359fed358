"""Rosenbrock, the Lorenz system, Gauss-Seidel, a layer and Burgers' residual, as one writes them without thinking of AD."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .base import Thunk, gradient_case


# -- Rosenbrock ------------------------------------------------------------------------------------------
@njit
def rosenbrock(x: Any) -> float:
    total = 0.0
    for i in range(x.shape[0] - 1):
        total += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


@njit
def rosenbrock_by_hand(x: Any) -> tuple:
    n = x.shape[0]
    g = np.empty(n)
    total = carried = 0.0
    for i in range(n - 1):
        a, b = x[i + 1] - x[i] * x[i], 1.0 - x[i]
        total += 100.0 * a * a + b * b
        g[i] = carried - 400.0 * a * x[i] - 2.0 * b
        carried = 200.0 * a
    g[n - 1] = carried
    return total, g


def rosenbrock_data(small: bool) -> tuple:
    return (np.random.default_rng(0).uniform(-1, 1, 100 if small else 1_000_000),)


def rosenbrock_numpy(args: tuple) -> dict[str, Thunk]:
    (x,) = args

    def gradient() -> tuple:
        a, b = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
        g = np.zeros_like(x)
        g[:-1] = -400.0 * a * x[:-1] - 2.0 * b
        g[1:] += 200.0 * a
        return (100.0 * a * a + b * b).sum(), g

    primal = lambda: (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
    return {"primal": primal, "by hand": gradient}


def rosenbrock_jax(args: tuple) -> dict[str, Thunk]:
    f = lambda x: (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
    return jax_ways(f, (0,), args)


# -- the Lorenz system -----------------------------------------------------------------------------------
@njit
def lorenz_rate(s: Any, p: Any, out: Any) -> None:
    out[0] = p[0] * (s[1] - s[0])
    out[1] = s[0] * (p[1] - s[2]) - s[1]
    out[2] = s[0] * s[1] - p[2] * s[2]


@njit
def lorenz(start: Any, p: Any, dt: float, steps: int) -> float:
    """The squared distance from the origin after RK4 steps."""
    s = start.copy()
    k1, k2, k3, k4 = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    y = np.empty(3)
    for _ in range(steps):
        lorenz_rate(s, p, k1)
        for j in range(3):
            y[j] = s[j] + 0.5 * dt * k1[j]
        lorenz_rate(y, p, k2)
        for j in range(3):
            y[j] = s[j] + 0.5 * dt * k2[j]
        lorenz_rate(y, p, k3)
        for j in range(3):
            y[j] = s[j] + dt * k3[j]
        lorenz_rate(y, p, k4)
        for j in range(3):
            s[j] += dt / 6.0 * (k1[j] + 2.0 * k2[j] + 2.0 * k3[j] + k4[j])
    return s[0] ** 2 + s[1] ** 2 + s[2] ** 2


@njit
def rate(x: float, y: float, z: float, a: float, b: float, c: float) -> tuple:
    return a * (y - x), x * (b - z) - y, x * y - c * z


@njit
def rate_adjoint(
    x: float, y: float, z: float, a: float, b: float, c: float, u: float, v: float, w: float
) -> tuple:
    """The transposed Jacobian of `rate` times (u, v, w), for the state and the parameters."""
    state = (-a * u + (b - z) * v + y * w, a * u - v + x * w, -x * v - c * w)
    return state, (u * (y - x), v * x, -w * z)


@njit
def lorenz_by_hand(start: Any, p: Any, dt: float, steps: int) -> tuple:
    a, b, c = p[0], p[1], p[2]
    kept = np.empty((steps, 3))
    x, y, z = start[0], start[1], start[2]
    h, sixth = 0.5 * dt, dt / 6.0
    for t in range(steps):
        kept[t, 0], kept[t, 1], kept[t, 2] = x, y, z
        k, e, m = rate(x, y, z, a, b, c)
        k2, l2, m2 = rate(x + h * k, y + h * e, z + h * m, a, b, c)
        k3, l3, m3 = rate(x + h * k2, y + h * l2, z + h * m2, a, b, c)
        k4, l4, m4 = rate(x + dt * k3, y + dt * l3, z + dt * m3, a, b, c)
        x += sixth * (k + 2.0 * k2 + 2.0 * k3 + k4)
        y += sixth * (e + 2.0 * l2 + 2.0 * l3 + l4)
        z += sixth * (m + 2.0 * m2 + 2.0 * m3 + m4)
    value = x * x + y * y + z * z
    bx, by, bz = 2.0 * x, 2.0 * y, 2.0 * z
    ga = gb = gc = 0.0
    for t in range(steps - 1, -1, -1):
        x, y, z = kept[t, 0], kept[t, 1], kept[t, 2]
        k, e, m = rate(x, y, z, a, b, c)
        x2, y2, z2 = x + h * k, y + h * e, z + h * m
        k, e, m = rate(x2, y2, z2, a, b, c)
        x3, y3, z3 = x + h * k, y + h * e, z + h * m
        k, e, m = rate(x3, y3, z3, a, b, c)
        x4, y4, z4 = x + dt * k, y + dt * e, z + dt * m
        u, v, w = sixth * bx, sixth * by, sixth * bz
        s4, p4 = rate_adjoint(x4, y4, z4, a, b, c, u, v, w)
        e, f, g = 2.0 * u + dt * s4[0], 2.0 * v + dt * s4[1], 2.0 * w + dt * s4[2]
        s3, p3 = rate_adjoint(x3, y3, z3, a, b, c, e, f, g)
        e, f, g = 2.0 * u + h * s3[0], 2.0 * v + h * s3[1], 2.0 * w + h * s3[2]
        s2, p2 = rate_adjoint(x2, y2, z2, a, b, c, e, f, g)
        s1, p1 = rate_adjoint(x, y, z, a, b, c, u + h * s2[0], v + h * s2[1], w + h * s2[2])
        bx += s1[0] + s2[0] + s3[0] + s4[0]
        by += s1[1] + s2[1] + s3[1] + s4[1]
        bz += s1[2] + s2[2] + s3[2] + s4[2]
        ga += p1[0] + p2[0] + p3[0] + p4[0]
        gb += p1[1] + p2[1] + p3[1] + p4[1]
        gc += p1[2] + p2[2] + p3[2] + p4[2]
    return value, np.array([bx, by, bz]), np.array([ga, gb, gc])


def lorenz_data(small: bool) -> tuple:
    """Up to t = 5: chaos makes the gradient large, not yet meaningless."""
    steps = 1000 if small else 100_000
    return np.array([1.0, 2.0, 20.0]), np.array([10.0, 28.0, 8.0 / 3.0]), 5.0 / 100_000, steps


# -- Gauss-Seidel ----------------------------------------------------------------------------------------
@njit
def gauss_seidel(u: Any, f: Any, sweeps: int) -> float:
    """Sweeps of Poisson's equation in place, then the sum of squares."""
    n, m = u.shape
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    total = 0.0
    for i in range(n):
        for j in range(m):
            total += u[i, j] * u[i, j]
    return total


@njit
def gauss_seidel_by_hand(u: Any, f: Any, sweeps: int) -> tuple:
    u = u.copy()
    n, m = u.shape
    value = gauss_seidel(u, f, sweeps)
    b, g = 2.0 * u, np.zeros((n, m))
    for _ in range(sweeps):
        for i in range(n - 2, 0, -1):
            for j in range(m - 2, 0, -1):
                c = 0.25 * b[i, j]
                b[i, j] = 0.0
                b[i - 1, j] += c
                b[i + 1, j] += c
                b[i, j - 1] += c
                b[i, j + 1] += c
                g[i, j] -= c
    return value, b, g


def gauss_seidel_data(small: bool) -> tuple:
    rng = np.random.default_rng(2)
    n = 12 if small else 300
    return rng.standard_normal((n, n)), rng.standard_normal((n, n)), 3 if small else 20


# -- a layer ---------------------------------------------------------------------------------------------
@njit
def layer(a: Any, b: Any) -> float:
    """The sum of squares of tanh(a @ b)."""
    h = np.tanh(a @ b)
    return np.sum(h * h)


@njit
def layer_by_hand(a: Any, b: Any) -> tuple:
    h = np.tanh(a @ b)
    d = 2.0 * h * (1.0 - h * h)
    return np.sum(h * h), d @ b.T, a.T @ d


def layer_data(small: bool) -> tuple:
    rng = np.random.default_rng(3)
    n = 12 if small else 256
    return rng.standard_normal((n, n)) / 16, rng.standard_normal((n, n))


def layer_numpy(args: tuple) -> dict[str, Thunk]:
    a, b = args
    primal = lambda: (np.tanh(a @ b) ** 2).sum()
    return {"primal": primal, "by hand": lambda: layer_by_hand.py_func(a, b)}


def layer_jax(args: tuple) -> dict[str, Thunk]:
    import jax.numpy as jnp

    return jax_ways(lambda a, b: (jnp.tanh(a @ b) ** 2).sum(), (0, 1), args)


def layer_torch(args: tuple) -> dict[str, Thunk]:
    import torch

    a, b = (torch.tensor(x, requires_grad=True) for x in args)
    loss = lambda: torch.tanh(a @ b).square().sum()

    def gradient() -> list:
        value = loss()
        return [value, *torch.autograd.grad(value, (a, b))]

    def primal() -> Any:
        with torch.no_grad():
            return loss()

    return {"primal": primal, "gradient": gradient}


# -- Burgers ---------------------------------------------------------------------------------------------
@njit
def burgers(u: Any, old: Any, dt: float, dx: float, nu: float) -> float:
    """The sum of squares of the residual of an implicit upwind step."""
    total = 0.0
    for i in range(1, u.shape[0] - 1):
        if u[i] > 0.0:
            slope = (u[i] - u[i - 1]) / dx
        else:
            slope = (u[i + 1] - u[i]) / dx
        r = (u[i] - old[i]) / dt + u[i] * slope
        r -= nu * (u[i + 1] - 2.0 * u[i] + u[i - 1]) / dx**2
        total += r * r
    return total


@njit
def burgers_by_hand(u: Any, old: Any, dt: float, dx: float, nu: float) -> tuple:
    n = u.shape[0]
    g = np.zeros(n)
    total, g_nu, k = 0.0, 0.0, nu / dx**2
    for i in range(1, n - 1):
        bend = u[i + 1] - 2.0 * u[i] + u[i - 1]
        up = u[i] > 0.0
        slope = (u[i] - u[i - 1]) / dx if up else (u[i + 1] - u[i]) / dx
        r = (u[i] - old[i]) / dt + u[i] * slope - k * bend
        total += r * r
        b, c = 2.0 * r, 2.0 * r * u[i] / dx
        g_nu -= b * bend / dx**2
        g[i - 1] -= b * k + (c if up else 0.0)
        g[i] += b * (1.0 / dt + slope + 2.0 * k) + (c if up else -c)
        g[i + 1] -= b * k - (0.0 if up else c)
    return total, g, g_nu


def burgers_data(small: bool) -> tuple:
    n = 100 if small else 1_000_000
    x = np.linspace(0, 2 * np.pi, n)
    old = np.sin(3 * x) + 0.1
    return old + 0.01 * np.cos(x), old, 0.1, 0.05, 0.01


def burgers_jax(args: tuple) -> dict[str, Thunk]:
    import jax.numpy as jnp

    def f(u: Any, old: Any, dt: float, dx: float, nu: float) -> Any:
        here, left, right = u[1:-1], u[:-2], u[2:]
        slope = jnp.where(here > 0, here - left, right - here) / dx
        r = (here - old[1:-1]) / dt + here * slope - nu * (right - 2 * here + left) / dx**2
        return (r * r).sum()

    return jax_ways(f, (0, 4), args)


def jax_ways(f: Any, argnums: tuple[int, ...], args: tuple) -> dict[str, Thunk]:
    """Value, and value and gradient."""
    import jax
    from compile_cases.base import jitted, mapped

    put = mapped(lambda a: jax.numpy.asarray(a) if isinstance(a, np.ndarray) else a, list(args))
    return {"primal": jitted(f, *put), "gradient": jitted(jax.value_and_grad(f, argnums), *put)}


CASES = [
    gradient_case(
        "rosenbrock",
        "Rosenbrock, n = 1e6",
        rosenbrock,
        (0,),
        rosenbrock_data,
        rosenbrock_by_hand,
        goal=2.5,
        peers={"numpy": rosenbrock_numpy, "jax": rosenbrock_jax},
    ),
    gradient_case(
        "lorenz",
        "Lorenz, 1e5 steps of RK4; start and parameters",
        lorenz,
        (0, 1),
        lorenz_data,
        lorenz_by_hand,
        goal=2.5,
    ),
    gradient_case(
        "gauss_seidel",
        "Gauss-Seidel in place, 300 x 300, 20 sweeps",
        gauss_seidel,
        (0, 1),
        gauss_seidel_data,
        gauss_seidel_by_hand,
        written=(0,),
        goal=2.5,
    ),
    gradient_case(
        "layer",
        "sum of squares of tanh(a @ b), 256 x 256",
        layer,
        (0, 1),
        layer_data,
        layer_by_hand,
        goal=3.0,
        peers={"numpy": layer_numpy, "jax": layer_jax, "torch": layer_torch},
    ),
    gradient_case(
        "burgers",
        "upwind Burgers residual, 1e6 cells; state and viscosity",
        burgers,
        (0, 4),
        burgers_data,
        burgers_by_hand,
        step=1e-6,
        goal=2.5,
        peers={"jax": burgers_jax},
    ),
]
