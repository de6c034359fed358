"""Determine a satellite's orbit from ranges and angles measured at stations on the turning Earth.

The satellite moves in the field of an oblate Earth (with the J2 term), integrated by Runge-Kutta steps in plain Numba loops;
each measurement is a range, an azimuth and an elevation with noise. ``ng.njit.jacfwd`` gives the derivatives of all measurements
with respect to the six unknowns of the first state, through the integration, and Gauss-Newton finds the state (differential
correction). Its covariance says how well, and the truth must lie within it.

python examples/njit_orbit.py [--minutes 90] [--seed 0] [--steps 12] [--plot orbit.png]
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import nbgrad as ng

MU, RADIUS, J2 = 398600.4418, 6378.137, 1.08262668e-3  # km, s
SPIN = 7.292115e-5
STATIONS = np.radians(
    [[40.0, -105.0], [-31.9, 116.0], [52.0, 13.0], [-33.0, -71.0], [5.0, 0.0], [35.0, 90.0]]
)
NOISE = np.array([0.005, 1e-4, 1e-4])  # km, rad, rad
TRUTH = np.array([7800.0, 1500.0, 500.0, -1.2, 4.6, 5.4])
# unknowns are kept near one: hundreds of km, and km/s
SCALE = np.array([100.0, 100.0, 100.0, 0.1, 0.1, 0.1])


@njit
def motion(s):
    """The derivative of position and velocity."""
    x, y, z = s[0], s[1], s[2]
    r2 = x * x + y * y + z * z
    r = np.sqrt(r2)
    k = -MU / (r2 * r)
    j = 1.5 * J2 * RADIUS**2 / r2
    flat = k * (1.0 + j * (1.0 - 5.0 * z * z / r2))
    out = np.empty(6)
    out[:3] = s[3:]
    out[3] = flat * x
    out[4] = flat * y
    out[5] = (flat + 2.0 * j * k) * z
    return out


@njit
def step(s, dt):
    """One step of the classical Runge-Kutta method."""
    k1 = motion(s)
    k2 = motion(s + 0.5 * dt * k1)
    k3 = motion(s + 0.5 * dt * k2)
    k4 = motion(s + dt * k3)
    return s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


@njit
def look(s, t, lat, lon):
    """Range, azimuth and elevation seen from a station."""
    a = lon + SPIN * t
    up = np.array([np.cos(lat) * np.cos(a), np.cos(lat) * np.sin(a), np.sin(lat)])
    dx, dy, dz = s[0] - RADIUS * up[0], s[1] - RADIUS * up[1], s[2] - RADIUS * up[2]
    east = -np.sin(a) * dx + np.cos(a) * dy
    height = up[0] * dx + up[1] * dy + up[2] * dz
    north = -np.sin(lat) * (np.cos(a) * dx + np.sin(a) * dy) + np.cos(lat) * dz
    rho = np.sqrt(dx * dx + dy * dy + dz * dz)
    return rho, np.arctan2(east, north), np.arcsin(height / rho)


@njit
def measurements(start, dt, each, stations, epochs, count):
    """What the stations see, shape (count, 3): at ``epochs[k]`` (in units of ``each`` steps) from ``stations[k]``."""
    s = start.copy()
    out = np.empty((count, 3))
    k = 0
    epoch = 0
    while k < count:
        if epochs[k] == epoch:
            lat, lon = STATIONS[stations[k]]
            out[k, 0], out[k, 1], out[k, 2] = look(s, epoch * each * dt, lat, lon)
            k += 1
            continue
        for _ in range(each):
            s = step(s, dt)
        epoch += 1
    return out


class Problem(NamedTuple):
    """The measurements and when and where they were made."""

    data: np.ndarray
    dt: float
    each: int
    stations: np.ndarray
    epochs: np.ndarray


def observe(minutes: int = 90, seed: int = 0) -> Problem:
    """Measurements made up: each minute by every station that sees the satellite five degrees high or more."""
    dt, each = 20.0, 3
    epochs, stations = (
        a.ravel()
        for a in np.meshgrid(np.arange(minutes + 1), np.arange(len(STATIONS)), indexing="ij")
    )
    all_of_them = measurements(TRUTH, dt, each, stations, epochs, epochs.size)
    seen = all_of_them[:, 2] > np.radians(5.0)
    noise = NOISE * np.random.default_rng(seed).normal(size=(int(seen.sum()), 3))
    return Problem(all_of_them[seen] + noise, dt, each, stations[seen], epochs[seen])


def weighted(problem: Problem, model: np.ndarray) -> np.ndarray:
    """Differences over their noise; those of azimuth are brought to one turn."""
    difference = problem.data - model
    difference[:, 1] = (difference[:, 1] + np.pi) % (2 * np.pi) - np.pi
    return (difference / NOISE).ravel()


def progress(total: int) -> Any:
    """A bar by tqdm if that is installed; to be used by ``with``, and None inside if it is not."""
    try:
        from tqdm import tqdm
    except ImportError:
        return contextlib.nullcontext()
    return tqdm(total=total, unit="step", leave=False)


class Result(NamedTuple):
    """The state found, its covariance, root mean square weighted residuals of each step, and the error in sigmas."""

    state: np.ndarray
    covariance: np.ndarray
    residuals: list[float]
    distance: float


def determine(problem: Problem, steps: int = 12) -> Result:
    """Gauss-Newton from a state some 100 km and 0.1 km/s wrong."""
    jacobian = ng.njit.jacfwd(measurements)
    state = TRUTH + SCALE * np.array([1.0, -0.8, 0.6, 0.5, -0.7, 0.9])
    others = (problem.dt, problem.each, problem.stations, problem.epochs, len(problem.data))
    residuals, J = [], np.empty(0)
    with progress(steps) as bar:
        for _ in range(steps):
            r = weighted(problem, measurements(state, *others))
            residuals.append(float(np.sqrt(np.mean(r**2))))
            J = (jacobian(state, *others) / NOISE[:, None]).reshape(r.size, 6) * SCALE
            change = np.linalg.lstsq(J, r, rcond=None)[0]
            state = state + SCALE * change
            if bar:
                bar.update()
            if np.abs(change).max() < 1e-9:
                break
    covariance = np.linalg.inv(J.T @ J) * np.outer(SCALE, SCALE)
    error = state - TRUTH
    distance = float(np.sqrt(error @ np.linalg.solve(covariance, error)))
    return Result(state, covariance, residuals, distance)


def check(result: Result) -> None:
    """The residuals are the noise, and the truth lies where the covariance says (chi-squared, six degrees)."""
    assert result.residuals[0] > 100, result.residuals
    assert 0.8 < result.residuals[-1] < 1.2, result.residuals
    assert result.distance < 5.0, result.distance


def draw(problem: Problem, result: Result, path: str) -> None:
    """The residuals before and after, or a word on what is missing for a picture."""
    try:
        import matplotlib
    except ImportError:
        print(
            "no picture: matplotlib is not installed; install it with: pip install 'nbgrad[plot]'"
        )
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    others = (problem.dt, problem.each, problem.stations, problem.epochs, len(problem.data))
    r = weighted(problem, measurements(result.state, *others)).reshape(-1, 3)
    fig, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.semilogy(result.residuals, "o-")
    left.set(title="residuals over noise (rms)", xlabel="step of Gauss-Newton")
    for k, name in enumerate(("range", "azimuth", "elevation")):
        right.plot(problem.epochs, r[:, k], ".", label=name)
    right.set(title="residuals at the end, in sigmas", xlabel="minutes")
    right.legend()
    fig.savefig(path, dpi=130)
    pyplot.close(fig)
    print(f"picture           {path}")


def main(argv: Sequence[str] | None = None) -> Result:
    """The command line."""
    parser = argparse.ArgumentParser(description="Orbit determination from ranges and angles.")
    parser.add_argument("--minutes", type=int, default=90, help="of observation")
    parser.add_argument("--steps", type=int, default=12, help="most steps of Gauss-Newton")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--plot", help="write a picture to this file")
    args = parser.parse_args(argv)
    if args.minutes < 30 or args.steps < 1:
        parser.error(f"--minutes {args.minutes} --steps {args.steps}; expected at least 30 and 1")
    problem = observe(args.minutes, args.seed)
    result = determine(problem, args.steps)
    error, sigma = result.state - TRUTH, np.sqrt(np.diag(result.covariance))
    print(f"measurements      {problem.data.size} by {np.unique(problem.stations).size} stations")
    print(f"residuals         {result.residuals[0]:.0f} -> {result.residuals[-1]:.3f} sigma (rms)")
    print("position off by   " + ", ".join(f"{1e3 * v:.2f} m" for v in error[:3]))
    print("expected errors   " + ", ".join(f"{1e3 * v:.2f} m" for v in sigma[:3]))
    print("velocity off by   " + ", ".join(f"{1e6 * v:.2f} mm/s" for v in error[3:]))
    print("expected errors   " + ", ".join(f"{1e6 * v:.2f} mm/s" for v in sigma[3:]))
    check(result)
    if args.plot:
        draw(problem, result, args.plot)
    return result


if __name__ == "__main__":
    main()
