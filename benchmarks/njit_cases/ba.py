"""Bundle adjustment of ADBench: all entries of the sparse Jacobian, 2 x 15 an observation, one a weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from . import adbench
from .base import Lazy, NjitCase, Thunk
from .programs import cpp_ways

INSTANCE = "ba1_n49_m7776_p31843.txt"
TORCH_PART = 0.1


# -- the program, with arrays ----------------------------------------------------------------------------
@njit
def rotate(rot: Any, x: Any, out: Any) -> None:
    """Rodrigues' rotation."""
    square = rot[0] ** 2 + rot[1] ** 2 + rot[2] ** 2
    if square == 0.0:
        out[0] = x[0] + rot[1] * x[2] - rot[2] * x[1]
        out[1] = x[1] + rot[2] * x[0] - rot[0] * x[2]
        out[2] = x[2] + rot[0] * x[1] - rot[1] * x[0]
        return
    theta = np.sqrt(square)
    c, s = np.cos(theta), np.sin(theta)
    w = np.empty(3)
    for k in range(3):
        w[k] = rot[k] / theta
    along = (w[0] * x[0] + w[1] * x[1] + w[2] * x[2]) * (1.0 - c)
    out[0] = x[0] * c + (w[1] * x[2] - w[2] * x[1]) * s + w[0] * along
    out[1] = x[1] * c + (w[2] * x[0] - w[0] * x[2]) * s + w[1] * along
    out[2] = x[2] * c + (w[0] * x[1] - w[1] * x[0]) * s + w[2] * along


@njit
def reprojection(cam: Any, x: Any, w: float, feat: Any) -> Any:
    """The weighted error of a point's image; cam: rotation, center, focal length, principal point, distortion."""
    moved, seen = np.empty(3), np.empty(3)
    for k in range(3):
        moved[k] = x[k] - cam[3 + k]
    rotate(cam, moved, seen)
    u, v = seen[0] / seen[2], seen[1] / seen[2]
    r2 = u * u + v * v
    distortion = 1.0 + cam[9] * r2 + cam[10] * r2 * r2
    error = np.empty(2)
    error[0] = w * (u * distortion * cam[6] + cam[7] - feat[0])
    error[1] = w * (v * distortion * cam[6] + cam[8] - feat[1])
    return error


@njit
def weight_error(w: float) -> float:
    return 1.0 - w * w


@njit
def objective(cams: Any, points: Any, weights: Any, seen: Any, feats: Any) -> tuple:
    p = weights.shape[0]
    errors, weight_errors = np.empty((p, 2)), np.empty(p)
    for k in range(p):
        errors[k] = reprojection(cams[seen[k, 0]], points[seen[k, 1]], weights[k], feats[k])
        weight_errors[k] = weight_error(weights[k])
    return errors, weight_errors


# -- the program, with scalars ---------------------------------------------------------------------------
@njit
def error(cam: Any, x: Any, w: float, feat: Any, component: int) -> float:
    """One component of `reprojection`."""
    a, b, c = cam[0], cam[1], cam[2]
    px, py, pz = x[0] - cam[3], x[1] - cam[4], x[2] - cam[5]
    square = a * a + b * b + c * c
    if square != 0.0:
        theta = np.sqrt(square)
        co, si = np.cos(theta), np.sin(theta)
        a, b, c = a / theta, b / theta, c / theta
        along = (a * px + b * py + c * pz) * (1.0 - co)
        qx = px * co + (b * pz - c * py) * si + a * along
        qy = py * co + (c * px - a * pz) * si + b * along
        qz = pz * co + (a * py - b * px) * si + c * along
    else:
        qx, qy, qz = px + b * pz - c * py, py + c * px - a * pz, pz + a * py - b * px
    u, v = qx / qz, qy / qz
    r2 = u * u + v * v
    scale = (1.0 + cam[9] * r2 + cam[10] * r2 * r2) * cam[6]
    if component == 0:
        return w * (u * scale + cam[7] - feat[0])
    return w * (v * scale + cam[8] - feat[1])


@njit
def total_error(cams: Any, points: Any, weights: Any, feats: Any, component: int) -> float:
    """The sum of a component's errors; a row of each array for every observation."""
    total = 0.0
    for k in range(weights.shape[0]):
        total += error(cams[k], points[k], weights[k], feats[k], component)
    return total


# -- the Jacobian ----------------------------------------------------------------------------------------
@njit
def put(values: Any, start: int, cam: Any, point: Any, weight: float) -> None:
    """A row of the Jacobian."""
    values[start : start + 11] = cam
    values[start + 11 : start + 14] = point
    values[start + 14] = weight


def complete(entries: Callable, args: tuple) -> Thunk:
    """All entries in the order of CSR, given what fills in those of the observations."""
    import nbgrad as ng

    slope = ng.njit.grad(weight_error)

    @njit
    def jacobian(cams: Any, points: Any, weights: Any, seen: Any, feats: Any) -> Any:
        p = weights.shape[0]
        values = np.empty(31 * p)
        entries(values, cams, points, weights, seen, feats)
        for k in range(p):
            values[30 * p + k] = slope(weights[k])
        return values

    return lambda: jacobian(*args)


def jacrev(args: tuple) -> Thunk:
    import nbgrad as ng

    derivative = ng.njit.jacrev(reprojection, (0, 1, 2))

    @njit
    def entries(v: Any, cams: Any, points: Any, weights: Any, seen: Any, feats: Any) -> None:
        for k in range(weights.shape[0]):
            i, j = seen[k, 0], seen[k, 1]
            dc, dx, dw = derivative(cams[i], points[j], weights[k], feats[k])
            for r in range(2):
                put(v, 30 * k + 15 * r, dc[r], dx[r], dw[r])

    return complete(entries, args)


def products(args: tuple) -> Thunk:
    import nbgrad as ng

    vjp = ng.njit.vjp(reprojection, (0, 1, 2))

    @njit
    def entries(v: Any, cams: Any, points: Any, weights: Any, seen: Any, feats: Any) -> None:
        eye = np.eye(2)
        for k in range(weights.shape[0]):
            i, j = seen[k, 0], seen[k, 1]
            for r in range(2):
                _, (dc, dx, dw) = vjp((cams[i], points[j], weights[k], feats[k]), eye[r])
                put(v, 30 * k + 15 * r, dc, dx, dw)

    return complete(entries, args)


def components(args: tuple) -> Thunk:
    import nbgrad as ng

    derivative = ng.njit.grad(error, (0, 1, 2))

    @njit
    def entries(v: Any, cams: Any, points: Any, weights: Any, seen: Any, feats: Any) -> None:
        for k in range(weights.shape[0]):
            i, j = seen[k, 0], seen[k, 1]
            for r in range(2):
                dc, dx, dw = derivative(cams[i], points[j], weights[k], feats[k], r)
                put(v, 30 * k + 15 * r, dc, dx, dw)

    return complete(entries, args)


def gathered(args: tuple) -> Thunk:
    import nbgrad as ng

    derivative = ng.njit.grad(total_error, (0, 1, 2))

    @njit
    def entries(v: Any, cams: Any, points: Any, weights: Any, seen: Any, feats: Any) -> None:
        own_cams, own_points = cams[seen[:, 0]], points[seen[:, 1]]
        for r in range(2):
            dc, dx, dw = derivative(own_cams, own_points, weights, feats, r)
            for k in range(weights.shape[0]):
                put(v, 30 * k + 15 * r, dc[k], dx[k], dw[k])

    return complete(entries, args)


JACOBIANS = {
    "jacrev, arrays": jacrev,
    "two vjps, arrays": products,
    "two grads, scalars": components,
    "two grads of sums": gathered,
}


def data(small: bool) -> tuple:
    return tuple(adbench.bundle("test.txt" if small else INSTANCE).values())


def ways(args: tuple) -> dict[str, Thunk]:
    made: dict[str, Thunk] = {"primal": lambda: objective(*args)}
    made.update({name: Lazy(lambda make=make: make(args)) for name, make in JACOBIANS.items()})
    return made


def check(args: tuple, got: list[np.ndarray]) -> float:
    """The largest error against the values that ADBench's tests expect."""
    want = adbench.expected("ba/test.txt")
    errors, weight_errors = objective(*args)
    pair = np.abs(errors - want["reproj_err_pair"]).max()
    wanted = np.array(want["J_nonzeros_csr_order"])
    off = np.abs(got[0] - wanted).max() / np.abs(wanted).max()
    return max(pair, np.abs(weight_errors - want["w_err"]).max(), off)


# -- peers -----------------------------------------------------------------------------------------------
def in_library(lib: Any, cross: Callable) -> Callable:
    """`reprojection` of one observation for torch or JAX (without the branch, which vmap cannot take)."""

    def residual(cam: Any, x: Any, w: Any, feat: Any) -> Any:
        rot, moved = cam[:3], x - cam[3:6]
        theta = lib.sqrt((rot * rot).sum())
        axis = rot / theta
        c, s = lib.cos(theta), lib.sin(theta)
        turned = moved * c + cross(axis, moved) * s + axis * ((axis * moved).sum() * (1 - c))
        image = turned[:2] / turned[2]
        r2 = (image * image).sum()
        scale = (1 + cam[9] * r2 + cam[10] * r2 * r2) * cam[6]
        return w * (image * scale + cam[7:9] - feat)

    return residual


def entries_of(lib: Any, join: Callable, jac: tuple, dw: Any) -> Any:
    """The entries in the order of CSR."""
    dc, dx, dwe = jac
    return join([join([dc, dx, dwe[..., None]], -1).reshape(-1), dw], 0)


def torch_ways(args: tuple) -> dict[str, Thunk]:
    """The first tenth of the observations, scaled."""
    import torch
    from torch.func import jacrev, vmap

    cams, points, weights, seen, feats = (torch.tensor(a) for a in args)
    p = max(int(TORCH_PART * len(weights)), 1)
    cams, points = cams[seen[:p, 0]], points[seen[:p, 1]]
    given = (cams, points, weights[:p], feats[:p])
    residual = in_library(torch, torch.linalg.cross)
    jacobian = vmap(jacrev(residual, (0, 1, 2)))
    part = lambda: entries_of(torch, torch.cat, jacobian(*given), -2 * given[2])
    return {"vmap of jacrev": part, "primal": lambda: vmap(residual)(*given)}


def jax_ways(args: tuple) -> dict[str, Thunk]:
    import jax
    import jax.numpy as jnp
    from compile_cases.base import jitted

    residual = in_library(jnp, jnp.cross)

    def way(jac: Callable) -> Thunk:
        def f(cams: Any, points: Any, w: Any, seen: Any, feats: Any) -> Any:
            own = (cams[seen[:, 0]], points[seen[:, 1]], w, feats)
            return entries_of(
                jnp, jnp.concatenate, jax.vmap(jac(residual, (0, 1, 2)))(*own), -2 * w
            )

        return jitted(f, *(jnp.asarray(a) for a in args))

    primal = lambda c, x, w, s, f: jax.vmap(residual)(c[s[:, 0]], x[s[:, 1]], w, f)
    made = {f"vmap of {jac.__name__}": way(jac) for jac in (jax.jacrev, jax.jacfwd)}
    return {"primal": jitted(primal, *(jnp.asarray(a) for a in args)), **made}


def given(args: tuple) -> dict:
    """The input of the C++ programs."""
    cams, points, weights, _, feats = args
    sizes = {"n": len(cams), "m": len(points), "p": len(weights)}
    return {**sizes, "cam": cams[0], "x": points[0], "w": float(weights[0]), "feat": feats[0]}


def beginning(values: list[np.ndarray]) -> list[np.ndarray]:
    """What the C++ programs print: the entries of the first observation, and the last entry."""
    return [np.append(values[0][:30], values[0][-1])]


CASES = [
    NjitCase(
        "ba",
        "ADBench bundle adjustment, ba1 (31843 observations), Jacobian",
        data,
        ways,
        goal=4.0,
        goals={"manual": 0.7, "tapenade": 1, "jax": 1, "torch": 1},
        peers={
            **cpp_ways("ba", given, lambda out: [out["vals"]]),
            "jax": jax_ways,
            "torch": torch_ways,
        },
        check=check,
        view=beginning,
        scale={("torch", way): 1 / TORCH_PART for way in ("primal", "vmap of jacrev")},
    )
]
