"""Hand tracking of ADBench: a skinned hand's distances from measured points, and their Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from . import adbench
from .base import Lazy, NjitCase, Thunk
from .programs import cpp_ways


# -- the program -----------------------------------------------------------------------------------------
@njit
def multiply(a: Any, b: Any, out: Any) -> None:
    """The product of two 4 x 4 matrices."""
    for i in range(4):
        for j in range(4):
            total = 0.0
            for k in range(4):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@njit
def pose_of(theta: Any, bones: int) -> Any:
    """Angles of every bone; rows 0 to 2: global rotation, scale, translation."""
    pose = np.zeros((bones + 3, 3))
    for k in range(3):
        pose[0, k] = theta[k]
        pose[1, k] = 1.0
        pose[2, k] = theta[3 + k]
    k, row = 6, 5
    for _ in range(5):
        for joint in range(3):
            pose[row, 0] = theta[k]
            k += 1
            if joint == 0:
                pose[row, 1] = theta[k]
                k += 1
            row += 1
        row += 1
    return pose


@njit
def turn(angles: Any, out: Any) -> None:
    """The rotation by Euler angles (x, z, y) as a 4 x 4 matrix."""
    cx, sx = np.cos(angles[0]), np.sin(angles[0])
    cz, sz = np.cos(angles[1]), np.sin(angles[1])
    cy, sy = np.cos(angles[2]), np.sin(angles[2])
    out[0, 0] = cz * cy
    out[0, 1] = cz * sy * sx - sz * cx
    out[0, 2] = cz * sy * cx + sz * sx
    out[1, 0] = sz * cy
    out[1, 1] = sz * sy * sx + cz * cx
    out[1, 2] = sz * sy * cx - cz * sx
    out[2, 0] = -sy
    out[2, 1] = cy * sx
    out[2, 2] = cy * cx
    out[3, 3] = 1.0


@njit
def rotation(axis: Any) -> Any:
    """The matrix of a rotation given by axis and angle."""
    r = np.zeros((3, 3))
    norm = np.sqrt(axis[0] ** 2 + axis[1] ** 2 + axis[2] ** 2)
    if norm < 1e-4:
        for i in range(3):
            r[i, i] = 1.0
        return r
    x, y, z = axis[0] / norm, axis[1] / norm, axis[2] / norm
    s, c = np.sin(norm), np.cos(norm)
    r[0, 0] = x * x + (1 - x * x) * c
    r[0, 1] = x * y * (1 - c) - z * s
    r[0, 2] = x * z * (1 - c) + y * s
    r[1, 0] = x * y * (1 - c) + z * s
    r[1, 1] = y * y + (1 - y * y) * c
    r[1, 2] = y * z * (1 - c) - x * s
    r[2, 0] = x * z * (1 - c) - y * s
    r[2, 1] = z * y * (1 - c) + x * s
    r[2, 2] = z * z + (1 - z * z) * c
    return r


@njit
def skin(
    theta: Any, parents: Any, relatives: Any, inverses: Any, positions: Any, weights: Any
) -> Any:
    """Where the vertices are for these parameters."""
    bones, vertices = parents.shape[0], positions.shape[0]
    pose = pose_of(theta, bones)
    absolutes = np.empty((bones, 4, 4))
    relative, transform = np.empty((4, 4)), np.empty((4, 4))
    moved = np.zeros((vertices, 3))
    for b in range(bones):
        turned = np.zeros((4, 4))
        turn(pose[b + 3], turned)
        multiply(relatives[b], turned, relative)
        if parents[b] < 0:
            absolutes[b] = relative
        else:
            multiply(absolutes[parents[b]], relative, absolutes[b])
    for b in range(bones):
        multiply(absolutes[b], inverses[b], transform)
        for v in range(vertices):
            for i in range(3):
                total = 0.0
                for k in range(4):
                    total += transform[i, k] * positions[v, k]
                moved[v, i] += total * weights[v, b]
    r = rotation(pose[0])
    out = np.empty((vertices, 3))
    for v in range(vertices):
        for i in range(3):
            total = pose[2, i]
            for k in range(3):
                total += r[i, k] * pose[1, k] * moved[v, k]
            out[v, i] = total
    return out


@njit
def simple(
    theta: Any,
    parents: Any,
    relatives: Any,
    inverses: Any,
    positions: Any,
    weights: Any,
    corresponding: Any,
    points: Any,
) -> Any:
    """Measured points less the vertices they belong to."""
    vertices = skin(theta, parents, relatives, inverses, positions, weights)
    n = points.shape[0]
    error = np.empty((n, 3))
    for k in range(n):
        for i in range(3):
            error[k, i] = points[k, i] - vertices[corresponding[k], i]
    return error


@njit
def complicated(
    theta: Any,
    us: Any,
    parents: Any,
    relatives: Any,
    inverses: Any,
    positions: Any,
    weights: Any,
    triangles: Any,
    corresponding: Any,
    points: Any,
) -> Any:
    """Measured points less points in triangles, given by two barycentric coordinates."""
    vertices = skin(theta, parents, relatives, inverses, positions, weights)
    n = points.shape[0]
    error = np.empty((n, 3))
    for k in range(n):
        a, b = us[k, 0], us[k, 1]
        corner = triangles[corresponding[k]]
        for i in range(3):
            place = a * vertices[corner[0], i] + b * vertices[corner[1], i]
            place += (1.0 - a - b) * vertices[corner[2], i]
            error[k, i] = points[k, i] - place
    return error


# -- Jacobians -------------------------------------------------------------------------------------------
def simple_ways(args: tuple) -> dict[str, Thunk]:
    def forward() -> Thunk:
        import nbgrad as ng

        jacobian = ng.njit.jacfwd(simple)
        return lambda: jacobian(*args).reshape(-1, args[0].size)

    return {
        "primal": lambda: simple(*args),
        "jacfwd": Lazy(forward),
        "jvps": Lazy(lambda: jvps(args)),
    }


def jvps(args: tuple) -> Thunk:
    """The Jacobian of the simple problem, one product a column."""
    import nbgrad as ng

    j = ng.njit.jvp(simple)

    @njit
    def columns(args: tuple) -> Any:
        n = args[0].shape[0]
        out = np.empty((3 * args[-1].shape[0], n))
        along = np.zeros(n)
        for k in range(n):
            along[k] = 1.0
            out[:, k] = j(args, along)[1].ravel()
            along[k] = 0.0
        return out

    return lambda: columns(args)


def complicated_ways(args: tuple) -> dict[str, Thunk]:
    """The columns of the two coordinates come first, one entry an error in each."""

    def products() -> Thunk:
        import nbgrad as ng

        j = ng.njit.jvp(complicated, (0, 1))

        @njit
        def columns(args: tuple) -> Any:
            theta, us = args[0], args[1]
            out = np.empty((3 * us.shape[0], theta.shape[0] + 2))
            along, beside = np.zeros(theta.shape[0]), np.zeros(us.shape)
            for k in range(2):
                beside[:, k] = 1.0
                out[:, k] = j(args, (along, beside))[1].ravel()
                beside[:, k] = 0.0
            for k in range(theta.shape[0]):
                along[k] = 1.0
                out[:, 2 + k] = j(args, (along, beside))[1].ravel()
                along[k] = 0.0
            return out

        return lambda: columns(args)

    return {"primal": lambda: complicated(*args), "jvps": Lazy(products)}


SIMPLE = ["parents", "relatives", "inverses", "positions", "weights", "corresponding", "points"]
COMPLICATED = [
    "parents",
    "relatives",
    "inverses",
    "positions",
    "weights",
    "triangles",
    "corresponding",
    "points",
]


def data(kind: str) -> Callable[[bool], tuple]:
    def make(small: bool) -> tuple:
        if small:
            name = "test.txt" if kind == "simple" else "hand_complicated.txt"
            found = adbench.hand(name, "model", kind == "complicated")
        else:
            place = f"{kind}_small"
            found = adbench.hand(
                f"{place}/hand5_t26_c800.txt", f"{place}/model", kind == "complicated"
            )
        names = ["theta", *SIMPLE] if kind == "simple" else ["theta", "us", *COMPLICATED]
        return tuple(found[name] for name in names)

    return make


def check(program: Callable, name: str) -> Callable[[Any, list[np.ndarray]], float]:
    """The largest error against the values that ADBench's tests expect."""

    def error(args: tuple, got: list[np.ndarray]) -> float:
        want = adbench.expected(name)
        wanted = np.array(want["jacobian"]).reshape(got[0].shape[::-1]).T  # by columns
        objective = np.abs(program(*args).ravel() - want["objective"]).max()
        return max(objective, np.abs(got[0] - wanted).max())

    return error


# -- peers -----------------------------------------------------------------------------------------------
def given(kind: str) -> Callable[[tuple], dict]:
    """The input of the C++ programs."""

    def make(args: tuple) -> dict:
        names = ["theta", *SIMPLE] if kind == "simple" else ["theta", "us", *COMPLICATED]
        found = dict(zip(names, args, strict=True))
        bones = len(found["parents"])
        model = {
            "bone_names": [f"bone {k}" for k in range(bones)],
            "parents": found["parents"],
            "is_mirrored": False,
            "base_positions": found["positions"],
            "weights": found["weights"],
            "triangles": found.get("triangles", np.zeros((1, 3), int)),
            "base_relatives": found["relatives"],
            "inverse_base_absolutes": found["inverses"],
        }
        points = {"correspondences": found["corresponding"], "points": found["points"]}
        return {
            "theta": found["theta"],
            "us": found.get("us", []),
            "data": {"model": model, **points},
        }

    return make


def torch_euler(a: Any) -> Any:
    """The rotations of `turn` for angles (..., 3)."""
    import torch

    (cx, cz, cy), (sx, sz, sy) = torch.cos(a).unbind(-1), torch.sin(a).unbind(-1)
    zero, one = torch.zeros_like(cx), torch.ones_like(cx)
    entries = [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero]
    entries += [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero]
    entries += [-sy, cy * sx, cy * cx, zero, zero, zero, zero, one]
    return torch.stack(entries, -1).reshape(*a.shape[:-1], 4, 4)


def torch_rotation(axis: Any) -> Any:
    """As `rotation`, for an angle that is not zero."""
    import torch

    norm = torch.sqrt((axis * axis).sum())
    x, y, z = (axis / norm).unbind()
    s, c = torch.sin(norm), torch.cos(norm)
    entries = [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s]
    entries += [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s]
    entries += [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c]
    return torch.stack(entries).reshape(3, 3)


def torch_simple(args: tuple) -> dict[str, Thunk]:
    """Whole arrays at once; the Jacobian by forward mode, in two of PyTorch's ways."""
    import torch

    theta, parents, relatives, inverses, positions, weights, corresponding, points = (
        torch.tensor(a) for a in args
    )
    up, n = [int(p) for p in parents], len(parents)
    rows = torch.tensor([5 + 4 * f + j for f in range(5) for j in (0, 1, 2)])
    first = torch.tensor([6 + 4 * f + j for f in range(5) for j in (0, 2, 3)])
    second = torch.tensor([7 + 4 * f for f in range(5)])

    def objective(theta: Any) -> Any:
        bend = torch.zeros(n + 3).index_put((rows,), theta[first])
        spread = torch.zeros(n + 3).index_put((rows[::3],), theta[second])
        turned = relatives @ torch_euler(torch.stack([bend, spread, torch.zeros(n + 3)], 1)[3:])
        absolutes: list = []
        for b, parent in enumerate(up):
            absolutes.append(turned[b] if parent < 0 else absolutes[parent] @ turned[b])
        transforms = torch.stack(absolutes) @ inverses
        placed = torch.einsum("bik,vk,vb->vi", transforms[:, :3], positions, weights)
        return points - (placed @ torch_rotation(theta[:3]).T + theta[3:6])[corresponding]

    forward, size = torch.func.jacfwd(objective), theta.numel()
    vectorized = {"strategy": "forward-mode", "vectorize": True}
    functional = lambda: torch.autograd.functional.jacobian(objective, theta, **vectorized)
    return {
        "primal": lambda: objective(theta),
        "jacfwd": lambda: forward(theta).reshape(-1, size),
        "functional.jacobian": lambda: functional().reshape(-1, size),
    }


def case(kind: str, program: Callable, ways: Callable, test: str, **more: Any) -> NjitCase:
    return NjitCase(
        f"hand_{kind}",
        f"ADBench hand tracking, {kind}, 800 points, Jacobian",
        data(kind),
        ways,
        goals={"tapenade": 1, "manual": 0.1},
        check=check(program, f"hand/{test}"),
        **more,
    )


CASES = [
    case(
        "simple",
        simple,
        simple_ways,
        "test.txt",
        goal=40,
        peers={
            **cpp_ways("ht", given("simple"), lambda out: [out]),
            "torch": torch_simple,
        },
    ),
    case(
        "complicated",
        complicated,
        complicated_ways,
        "hand_complicated.txt",
        goal=45,
        peers=cpp_ways("ht", given("complicated"), lambda out: [out]),
    ),
]
