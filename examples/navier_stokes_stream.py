"""The residual of the Navier-Stokes equations from a stream function and a pressure, on the Taylor-Green vortex.

    python examples/navier_stokes_stream.py [--points N] [--out FILE]

With u = psi_y, v = -psi_x the flow has no divergence. The momentum equations need eleven partials of psi,
up to order three, and the gradient of p: all come from one call of `pde.derivatives` on the pair (psi, p). The
Taylor-Green vortex solves the equations exactly; a flow that decays at a wrong rate does not. The residual is linear in the
viscosity, so least squares over the points finds it from the flow.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import nbgrad as ng
from nbgrad import pde

NU = 0.05
PARTIALS = ("y", "x", "ty", "tx", "xy", "yy", "xx", "xxy", "yyy", "xxx", "xyy")


def taylor_green(nu: float, decay: float | None = None) -> Callable:
    """``(psi, p)`` of the vortex as a function of points ``(..., 3)``: t, x, y; ``decay`` (2 nu) is its rate."""
    rate = 2 * nu if decay is None else decay

    def field(z: ng.Tensor) -> tuple[ng.Tensor, ng.Tensor]:
        t, x, y = z[..., 0], z[..., 1], z[..., 2]
        psi = ng.cos(x) * ng.cos(y) * ng.exp(-rate * t)
        p = -(ng.cos(2 * x) + ng.cos(2 * y)) / 4 * ng.exp(-2 * rate * t)
        return psi, p

    return field


class Momentum(NamedTuple):
    """The two equations ``inertia - nu * viscous = 0`` at every point, and the vorticity."""

    inertia: ng.Tensor
    viscous: ng.Tensor
    vorticity: ng.Tensor


def momentum(field: Callable, z: ng.Tensor) -> Momentum:
    """``inertia = (du/dt, dv/dt) + grad p`` along the flow and ``viscous = laplacian (u, v)``, of shape ``(..., 2)``."""
    found = pde.derivatives(field, PARTIALS, coords="txy")(z)
    psi = {name: pair[0] for name, pair in zip(PARTIALS, found, strict=True)}
    p_y, p_x = found[0][1], found[1][1]
    u, v = psi["y"], -psi["x"]
    first = psi["ty"] + u * psi["xy"] + v * psi["yy"] + p_x
    second = -psi["tx"] - u * psi["xx"] - v * psi["xy"] + p_y
    viscous = [psi["xxy"] + psi["yyy"], -psi["xxx"] - psi["xyy"]]
    return Momentum(ng.stack([first, second], -1), ng.stack(viscous, -1), -(psi["xx"] + psi["yy"]))


def residual(field: Callable, z: ng.Tensor, nu: float) -> ng.Tensor:
    """Both momentum equations at every point."""
    m = momentum(field, z)
    return m.inertia - nu * m.viscous


def viscosity(field: Callable, z: ng.Tensor) -> float:
    """The viscosity that makes the residual smallest."""
    m = momentum(field, z)
    return ((m.inertia * m.viscous).sum() / m.viscous.square().sum()).item()


class Result(NamedTuple):
    """Largest residuals of the vortex and of one that decays too fast, and the viscosity found."""

    right: float
    wrong: float
    viscosity: float


def main(points: int = 2000, out: str | None = None) -> Result:
    """Check at random points of space and time."""
    rng = np.random.default_rng(0)
    z = ng.tensor(rng.uniform(0, 2 * np.pi, (points, 3)))
    good, bad = taylor_green(NU), taylor_green(NU, decay=3 * NU)
    result = Result(
        residual(good, z, NU).abs().max().item(),
        residual(bad, z, NU).abs().max().item(),
        viscosity(good, z),
    )
    print(f"largest residual  {result.right:.1e} (Taylor-Green), {result.wrong:.1e} (wrong decay)")
    print(f"viscosity         {result.viscosity:.6f} from the flow, {NU} set")
    if out:
        draw(good, out)
    return result


def draw(field: Callable, path: str) -> None:
    """Vorticity and velocities at t = 1, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    s = np.linspace(0, 2 * np.pi, 33)
    x, y = np.meshgrid(s, s, indexing="ij")
    z = ng.tensor(np.stack([np.ones_like(x), x, y], -1))
    omega = momentum(field, z).vorticity.numpy()
    (u, _), (v, _) = pde.derivatives(field, ["y", "x"], coords="txy")(z)
    fig, ax = pyplot.subplots(figsize=(5, 4.2), layout="constrained")
    fig.colorbar(
        ax.pcolormesh(x, y, omega, cmap="RdBu_r", rasterized=True), ax=ax, label="vorticity"
    )
    ax.quiver(x[::2, ::2], y[::2, ::2], u.numpy()[::2, ::2], -v.numpy()[::2, ::2])
    ax.set(title="Taylor-Green vortex, t = 1", xlabel="x", ylabel="y", aspect="equal")
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Navier-Stokes residual of a stream function.")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--out", default="vortex.png", help="the picture's file")
    args = parser.parse_args()
    if args.points < 1:
        parser.error(f"argument --points is {args.points}; expected a positive number")
    main(args.points, args.out)
