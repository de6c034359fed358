"""Identify the Burgers equation u_t + l1 u u_x - l2 u_xx = 0 from a measured field u(x, t).

    python examples/burgers_identify.py [DATA]

DATA is a ``.mat`` or ``.npz`` file with ``x`` (n points), ``t`` (m instants) and ``u`` or ``usol`` (n by m). Without it, the
exact solution for u(x, 0) = -sin(pi x), nu = 0.01/pi is computed. A small neural network u_theta(x, t) is fitted to
the data while l1 and l2 are found such that it satisfies the equation.

All derivatives of the residual come from one second-order Taylor expansion. Along the curve
``x(s) = x + s, t(s) = t - s^2 / (2 l2)`` the second derivative of u is ``u_xx - u_t / l2``, so with the first
derivative ``u_x`` the residual is ``l1 u u_x - l2 d2u``. ``--derivatives nested`` uses nested reverse mode
(``autograd.grad`` with ``create_graph=True``) instead: the same numbers, in about the same time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

# the matrices are narrow: threads inside BLAS cost more than they bring (set before NumPy loads it)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize

import nbgrad as ng

TRUTH = (
    1.0,
    0.01 / np.pi,
)  # of the generated field, and of the reference data of the PINN literature


class Field(NamedTuple):
    """Samples u[i, j] = u(x[i], t[j])."""

    x: np.ndarray
    t: np.ndarray
    u: np.ndarray
    source: str


class Budget(NamedTuple):
    """How long to fit, with what."""

    width: int
    depth: int
    points: int
    adam: int
    iterations: int


BUDGETS = {
    "small": Budget(width=12, depth=3, points=800, adam=50, iterations=600),
    "full": Budget(width=20, depth=4, points=3000, adam=100, iterations=3000),
}


# -- data -----------------------------------------------------------------------------------------------


def read(file: Path) -> dict[str, Any]:
    """The arrays of a file by name."""
    if file.suffix == ".mat":
        from scipy.io import loadmat

        return loadmat(file)
    with np.load(file) as arrays:
        return dict(arrays)


def load(path: str) -> Field:
    """Read x, t and u (or usol); exits with a plain message where that is not possible."""
    file = Path(path)
    if file.suffix not in (".mat", ".npz"):
        sys.exit(f"{path}: the file's ending is '{file.suffix}'; expected .mat or .npz.")
    if not file.is_file():
        sys.exit(f"{path}: no such file.")
    try:
        content = read(file)
    except Exception as e:
        sys.exit(f"{path}: cannot be read as {file.suffix}: {e}")
    names = [k for k in content if not k.startswith("__")]
    key = next((k for k in ("u", "usol") if k in names), None)
    missing = [k for k in ("x", "t") if k not in names] + ([] if key else ["u (or usol)"])
    if key is None or missing:
        sys.exit(f"{path}: has no {', '.join(missing)}; it holds {', '.join(names)}.")
    x, t = (np.asarray(content[k], float).ravel() for k in ("x", "t"))
    u = np.asarray(content[key])
    if u.shape != (x.size, t.size):
        sys.exit(
            f"{path}: '{key}' has shape {u.shape}; expected (len(x), len(t)) = {x.size, t.size}."
        )
    if np.iscomplexobj(u):
        sys.exit(f"{path}: '{key}' is complex; expected a real field.")
    if not all(np.isfinite(a).all() for a in (x, t, u)):
        sys.exit(f"{path}: contains NaN or inf; remove or interpolate these samples first.")
    return Field(x, t, u.astype(float), file.name)


def exact(n: int = 256, m: int = 100, nodes: int = 200) -> Field:
    """The exact solution for u(x, 0) = -sin(pi x), u(+-1, t) = 0, by the Cole-Hopf transform.

    ``u = -int sin(pi (x-y)) f(x-y) G dy / int f(x-y) G dy`` with ``f(y) = exp(-cos(pi y) / (2 pi nu))`` and the heat
    kernel G of width sqrt(4 nu t): Gauss-Hermite quadrature (Basdevant et al., Computers & Fluids 14, 1986).
    """
    nu = TRUTH[1]
    x, t = np.linspace(-1, 1, n), np.linspace(0, 0.99, m)
    y, w = np.polynomial.hermite.hermgauss(nodes)
    z = x[:, None, None] - np.sqrt(4 * nu * t)[None, :, None] * y
    logf = -np.cos(np.pi * z) / (2 * np.pi * nu)
    f = w * np.exp(logf - logf.max(-1, keepdims=True))
    u = -(np.sin(np.pi * z) * f).sum(-1) / f.sum(-1)
    return Field(x, t, u, "exact solution (Cole-Hopf)")


# -- model ----------------------------------------------------------------------------------------------


class Model:
    """A tanh network on inputs scaled to [-1, 1]; its weights, l1 and log(l2) are one flat vector."""

    def __init__(self, field: Field, width: int, depth: int):
        sizes = [2, *[width] * depth, 1]
        self.shapes = [s for n, m in pairwise(sizes) for s in ((n, m), (m,))]
        self.scales = [(a.min() + np.ptp(a) / 2, 2 / np.ptp(a)) for a in (field.x, field.t)]

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Xavier-normal weights, zero biases, l1 = 0, l2 = exp(-6)."""
        parts = [
            rng.normal(0, np.sqrt(2 / sum(s)), s) if len(s) == 2 else np.zeros(s)
            for s in self.shapes
        ]
        return np.concatenate([*(p.ravel() for p in parts), [0.0, -6.0]])

    def unpack(self, theta: ng.Tensor) -> tuple[list[ng.Tensor], ng.Tensor, ng.Tensor]:
        """Weights and biases, l1, l2 > 0."""
        cuts = np.cumsum([0, *(int(np.prod(s)) for s in self.shapes)])
        parts = [
            theta[lo:hi].reshape(s) for (lo, hi), s in zip(pairwise(cuts), self.shapes, strict=True)
        ]
        return parts, theta[-2], ng.exp(theta[-1])

    def __call__(self, parts: Sequence[ng.Tensor], x: ng.Tensor, t: ng.Tensor) -> ng.Tensor:
        """u at points x, t (columns)."""
        (cx, sx), (ct, st) = self.scales
        w, b = parts[0], parts[1]
        h = ng.tanh(((x - cx) * sx) @ w[0:1] + ((t - ct) * st) @ w[1:2] + b)
        for w, b in zip(parts[2:-2:2], parts[3:-2:2], strict=True):
            h = ng.tanh(h @ w + b)
        return h @ parts[-2] + parts[-1]

    def on_grid(self, theta: np.ndarray, field: Field, what: str = "u") -> np.ndarray:
        """The model (or its residual) at every sample of the field."""
        x, t = (a.reshape(-1, 1) for a in np.meshgrid(field.x, field.t, indexing="ij"))
        parts, l1, l2 = self.unpack(ng.tensor(theta))
        u, r = residual_by_jet(self, parts, ng.tensor(x), ng.tensor(t), l1, l2)
        return (u if what == "u" else r).numpy().reshape(field.u.shape)


def residual_by_jet(model: Model, parts: Sequence, x: Any, t: Any, l1: Any, l2: Any) -> tuple:
    """u and u_t + l1 u u_x - l2 u_xx from one second-order Taylor expansion (see the module's text)."""
    one, zero = ng.ones_like(x), ng.zeros_like(x)
    curve = ((one, zero), (zero, -one / l2))
    u, (u_x, d2u) = ng.func.jet(lambda x, t: model(parts, x, t), (x, t), curve)
    return u, l1 * u * u_x - l2 * d2u


def residual_nested(model: Model, parts: Sequence, x: Any, t: Any, l1: Any, l2: Any) -> tuple:
    """The same by nested reverse mode."""
    x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
    u = model(parts, x, t)
    u_x, u_t = ng.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = ng.autograd.grad(u_x.sum(), x, create_graph=True)
    return u, u_t + l1 * u * u_x - l2 * u_xx


RESIDUALS = {"jet": residual_by_jet, "nested": residual_nested}


# -- fit ------------------------------------------------------------------------------------------------


def choose(field: Field, points: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Samples to fit, as columns: half anywhere, half where the field is steep."""
    steep = np.abs(np.gradient(field.u, field.x, axis=0)).ravel() + 1e-12
    total = field.u.size
    anywhere = rng.choice(total, min(points // 2, total), replace=False)
    there = rng.choice(
        total, min(points - points // 2, total), replace=False, p=steep / steep.sum()
    )
    i, j = np.unravel_index(np.unique(np.concatenate([anywhere, there])), field.u.shape)
    return tuple(a[:, None] for a in (field.x[i], field.t[j], field.u[i, j]))


class Fit:
    """The loss ``mean (u - data)^2 + weight * mean residual^2`` as a function of the flat vector, with its gradient."""

    def __init__(
        self, model: Model, samples: Sequence[np.ndarray], residual: Any, weight: float = 0.02
    ):
        self.model, self.residual, self.weight = model, residual, weight
        self.x, self.t, self.u = (ng.tensor(a) for a in samples)
        self.loss, self.theta = np.inf, np.zeros(0)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient, for SciPy."""
        p = ng.tensor(theta, requires_grad=True)
        parts, l1, l2 = self.model.unpack(p)
        u, r = self.residual(self.model, parts, self.x, self.t, l1, l2)
        loss = ng.square(u - self.u).mean() + self.weight * ng.square(r).mean()
        (g,) = ng.autograd.grad(loss, p)
        self.loss, self.theta = loss.item(), theta
        return self.loss, g.numpy()

    def adam(self, theta: np.ndarray, steps: int, tick: Any, rate: float = 2e-3) -> np.ndarray:
        """A few steps of Adam (Kingma & Ba 2015), to leave the random start quickly."""
        m, v = np.zeros_like(theta), np.zeros_like(theta)
        for k in range(1, steps + 1):
            _, g = self(theta)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            theta = theta - rate * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
            tick(self)
        return theta

    def lbfgs(self, theta: np.ndarray, iterations: int, tick: Any) -> np.ndarray:
        """SciPy's L-BFGS-B."""
        options = {
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "maxcor": 50,
            "ftol": 0,
            "gtol": 1e-9,
        }
        found = minimize(
            self, theta, jac=True, method="L-BFGS-B", callback=lambda _: tick(self), options=options
        )
        return found.x


class Bar:
    """Progress by tqdm if it is installed, else on one plain line."""

    def __init__(self, total: int, quiet: bool):
        self.total, self.done, self.quiet, self.shown = total, 0, quiet, 0.0
        self.tqdm: Any = None
        try:
            from tqdm import tqdm
        except ImportError:
            return
        self.tqdm = tqdm(total=total, disable=quiet, unit="step")

    def __call__(self, fit: Fit) -> None:
        """One step done."""
        self.done += 1
        l1, l2 = fit.theta[-2], np.exp(fit.theta[-1])
        text = f"loss {fit.loss:.2e}  l1 {l1:.4f}  l2 {l2:.6f}"
        if self.tqdm is not None:
            self.tqdm.set_postfix_str(text, refresh=False)
            self.tqdm.update()
        elif not self.quiet and time.perf_counter() - self.shown > 0.2:
            self.shown = time.perf_counter()
            part = "#" * (30 * self.done // self.total)
            print(f"\r[{part:<30}] {self.done}/{self.total}  {text}", end="", file=sys.stderr)

    def close(self) -> None:
        """End the line."""
        if self.tqdm is not None:
            self.tqdm.close()
        elif not self.quiet:
            print(file=sys.stderr)


# -- report ---------------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What was found."""

    l1: float
    l2: float
    error_l1: float
    error_l2: float
    error_u: float
    seconds: float


def draw(field: Field, model: np.ndarray, residual: np.ndarray, path: str) -> None:
    """Write the picture, or say what is missing for it."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, axes = pyplot.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    bound = np.abs(field.u).max()
    worst = max(np.quantile(np.abs(residual), 0.99), 1e-12)
    for ax, values, title, top in (
        (axes[0], field.u, "data", bound),
        (axes[1], model, "model", bound),
        (axes[2], residual, "residual $u_t + l_1 u u_x - l_2 u_{xx}$", worst),
    ):
        image = ax.pcolormesh(
            field.t, field.x, values, cmap="RdBu_r", vmin=-top, vmax=top, rasterized=True
        )
        fig.colorbar(image, ax=ax)
        ax.set(title=title, xlabel="t", ylabel="x")
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def report(field: Field, result: Result) -> None:
    """Print the identified equation and the errors."""
    sign = "-" if result.l1 < 0 else "+"
    print(f"data              {field.source}: {field.x.size} x {field.t.size} samples")
    print(f"identified        u_t {sign} {abs(result.l1):.5f} u u_x - {result.l2:.7f} u_xx = 0")
    print(f"expected          u_t + {TRUTH[0]:.5f} u u_x - {TRUTH[1]:.7f} u_xx = 0")
    print(f"error of l1, l2   {100 * result.error_l1:.2f} %, {100 * result.error_l2:.2f} %")
    print(f"error of u        {result.error_u:.2e} (relative L2 norm, all samples)")
    print(f"time              {result.seconds:.0f} s")


def identify(
    field: Field,
    budget: Budget,
    seed: int = 0,
    derivatives: str = "jet",
    quiet: bool = False,
    out: str | None = None,
) -> Result:
    """Fit and report; draw the picture if ``out`` names a file."""
    begin = time.perf_counter()
    rng = np.random.default_rng(seed)
    model = Model(field, budget.width, budget.depth)
    fit = Fit(model, choose(field, budget.points, rng), RESIDUALS[derivatives])
    bar = Bar(budget.adam + budget.iterations, quiet)
    theta = fit.lbfgs(fit.adam(model.start(rng), budget.adam, bar), budget.iterations, bar)
    bar.close()
    l1, l2 = float(theta[-2]), float(np.exp(theta[-1]))
    u = model.on_grid(theta, field)
    result = Result(
        l1,
        l2,
        abs(l1 - TRUTH[0]) / TRUTH[0],
        abs(l2 - TRUTH[1]) / TRUTH[1],
        float(np.linalg.norm(u - field.u) / np.linalg.norm(field.u)),
        time.perf_counter() - begin,
    )
    report(field, result)
    if out:
        draw(field, u, model.on_grid(theta, field, "residual"), out)
    return result


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Identify Burgers' equation from a field u(x, t).")
    parser.add_argument(
        "data",
        nargs="?",
        help=".mat or .npz with x, t and u (or usol); default: the exact solution",
    )
    parser.add_argument(
        "--budget", choices=BUDGETS, default="full", help="how long to fit (default: full)"
    )
    parser.add_argument("--points", type=int, help="samples to fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--derivatives", choices=RESIDUALS, default="jet")
    parser.add_argument(
        "--out", default="burgers.png", help="the picture's file (default: burgers.png)"
    )
    args = parser.parse_args(argv)
    budget = BUDGETS[args.budget]
    if args.points is not None:
        if args.points < 10:
            parser.error(f"argument --points is {args.points}; expected at least 10")
        budget = budget._replace(points=args.points)
    field = load(args.data) if args.data else exact()
    return identify(field, budget, args.seed, args.derivatives, out=args.out)


if __name__ == "__main__":
    main()
