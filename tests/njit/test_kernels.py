"""Kernels of numerical projects, differentiated as they are.

Derivatives are compared with central differences along random directions, extrapolated twice (their error is O(h^6));
forward with reverse mode by the dot-product test; Hessian products with differences of the gradient, and by their symmetry.

The tolerance of a difference is its own error: what the last extrapolation changed, plus rounding of the values over the step;
a difference that is not known to 1e-5 fails too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from kernels import (
    epidemic,
    gaussian_process,
    kalman,
    kmeans,
    lens,
    nbody,
    options,
    shallow_water,
    spline,
    wave,
)

import nbgrad as ng

EPS = np.finfo(float).eps


class Case(NamedTuple):
    """A kernel, its arguments, what to differentiate by, and the step of differences relative to the direction."""

    function: Any
    args: Callable[[np.random.Generator], tuple]
    argnums: int | tuple[int, ...]
    step: float = 1e-3
    # rounding of the kernel's value, in units of the last place (iterations, cancellation)
    ulps: float = 30.0


def wave_args(rng):
    vp = 1.5 + 0.5 * rng.random((14, 15))
    rec = np.array([[4, 5], [4, 9], [9, 7]])
    src = (7, 6)
    seen = 1e-5 * rng.normal(size=(18, 3))
    return vp, seen, src, rec, 8.0, 0.02, 0.1


def dam(rng):
    n = 22
    zb = 0.1 * np.exp(-(((np.arange(n) - 12.0) / 3) ** 2)) + 0.01 * rng.random(n)
    level = np.where(np.arange(n) < 9, 1.2, 0.6)
    return zb, 0.03, level, np.array([5, 10, 15]), np.array([1.1, 0.9, 0.7]), 0.5, 0.6


def flood(rng):
    zb, manning, level, *_ = dam(rng)
    return level - zb, 0.1 * rng.normal(size=zb.size), zb, 0.5, 0.5, manning


def cluster(rng):
    pos = rng.normal(size=(4, 3))
    return pos, 0.3 * rng.normal(size=(4, 3)), rng.uniform(0.2, 1, 4), 0.05, 12, np.ones(3)


def records(rng):
    pos, vel, mass, *_ = cluster(rng)
    return nbody.make_bodies(pos, vel, mass), 0.05, 6


def blobs(rng):
    centres = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
    points = np.concatenate([c + 0.5 * rng.normal(size=(8, 2)) for c in centres])
    return points, points[[0, 9, 3]] + 0.05


def regression(rng):
    x = rng.uniform(0, 3, (9, 2))
    return np.array([0.1, -2.0, 0.2, 0.4]), x, np.sin(x[:, 0]) + 0.3 * x[:, 1]


def prediction(rng):
    return *regression(rng), rng.uniform(0, 3, (3, 2))


def quotes(rng):
    strikes = np.array([60.0, 85.0, 100.0, 110.0, 130.0])
    vols = 0.2 + 0.05 * rng.random(5)
    price = [options.black_scholes(100.0, k, 0.7, 0.02, v) for k, v in zip(strikes, vols)]
    # a call below its intrinsic value has no implied volatility
    return np.array([30.0, *price[1:]]), 100.0, strikes, 0.7, 0.02


def paths(rng):
    params = np.array([1.5, 0.06, 0.5, -0.6, 0.05])
    draws = rng.normal(size=(2, 24, 7))
    return params, 100.0, 0.02, 1 / 7, np.array([90.0, 105.0]), draws[0], draws[1]


def calibration(rng):
    return *paths(rng), np.array([13.0, 3.0])


def outbreak(rng):
    p = np.array([0.9, 0.35, 0.25, 0.6])
    y0 = np.array([0.99, 0.005, 0.005, 0.0])
    counts = np.rint(1e5 * epidemic.daily_cases(p, 6.37, y0, 12) * rng.uniform(0.8, 1.2, 12))
    counts[4] = -1
    return p * np.array([1.1, 0.9, 1.1, 0.9]), 6.37, y0, counts, 1e5


def images(rng):
    params = np.array([0.1, -0.05, 0.4, 0.9, 0.05, -0.03])
    angles = np.array([0.3, 2.0, 3.4, 5.1])
    theta = np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.6, 1.6, (4, 1))
    return params, theta, rng.uniform(0.01, 0.05, 4)


def picture(rng):
    return images(rng)[0], 0.2 * rng.normal(size=(2, 2)), np.linspace(-1.93, 2.01, 6), 0.35


def track(rng):
    t = np.arange(9) * 0.5
    z = np.stack([t, 0.1 * t**2], 1) + 0.2 * rng.normal(size=(9, 2))
    z[3:5] = np.nan
    return np.array([-1.0, -3.0]), z, 0.5, np.array([0.0, 0.0, 1.0, 0.0])


def knots(rng):
    x = np.cumsum(rng.uniform(0.5, 1.5, 7))
    return x, np.sin(x), np.array([x[0] - 0.3, 2.2, 3.1, 4.7, x[-1] + 0.2])


def data_fit(rng):
    x, y, at = knots(rng)
    return x, y, at, np.cos(at), 1e-2


CASES = {
    "wave_misfit": Case(wave.misfit, wave_args, 0, step=3e-3),
    "shallow_water_gauges": Case(shallow_water.gauge_error, dam, (0, 1), step=1e-5),
    "shallow_water_run": Case(shallow_water.run, flood, (0, 1, 2), step=1e-6),
    "nbody_miss": Case(nbody.miss_distance, cluster, (0, 1, 2), step=1e-4),
    "kmeans_separation": Case(kmeans.separation, blobs, 0),
    "gaussian_process_likelihood": Case(gaussian_process.log_likelihood, regression, (0, 1, 2)),
    "gaussian_process_prediction": Case(gaussian_process.predict, prediction, (0, 2)),
    "implied_volatilities": Case(options.smile, quotes, (0, 1, 4), step=1e-3, ulps=1e3),
    "heston_calls": Case(options.heston_calls, paths, (0, 1), step=1e-5),
    # squares of differences of about one between prices that are averages of hundreds
    "heston_error": Case(options.pricing_error, calibration, (0, 1), step=1e-5, ulps=300.0),
    "epidemic_misfit": Case(epidemic.poisson_misfit, outbreak, (0, 2), step=1e-6),
    "lens_scatter": Case(lens.scatter, images, (0, 1), step=3e-3),
    "lens_brightness": Case(lens.brightness, picture, (0, 1)),
    "kalman_likelihood": Case(kalman.neg_log_likelihood, track, (0, 3)),
    "spline_interpolation": Case(spline.interpolate, knots, (0, 1, 2), step=1e-4),
    "spline_objective": Case(spline.smoothing_objective, data_fit, (0, 1, 3), step=1e-4),
}

# kernels of one number; a Kalman filter's Hessian product alone would compile for minutes
NUMBERS = [
    "wave_misfit",
    "shallow_water_gauges",
    "nbody_miss",
    "kmeans_separation",
    "gaussian_process_likelihood",
    "heston_error",
    "epidemic_misfit",
    "lens_scatter",
    "spline_objective",
]


def positions(case):
    return (case.argnums,) if isinstance(case.argnums, int) else case.argnums


def direction(case, args, rng):
    """Random tangents of the size of the arguments."""
    out = []
    for k in positions(case):
        size = max(1e-3, float(np.max(np.abs(args[k]))))
        out.append(
            size * rng.normal(size=np.shape(args[k])) if np.ndim(args[k]) else size * rng.normal()
        )
    return tuple(out)


def moved(case, args, tangents, t):
    """Copies of the arguments, moved along the tangents."""
    out = list(copied(args))
    for k, d in zip(positions(case), tangents):
        out[k] = out[k] + t * d
    return tuple(out)


def copied(args):
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def assert_same(got, value):
    """Derivatives give the kernel's value, up to another order of the same roundings."""
    for a, b in zip(got, value) if isinstance(value, tuple) else [(got, value)]:
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13 * np.max(np.abs(b)))


def value_of(case, args):
    """The result, or the arrays a kernel without result was to change, which are its first arguments."""
    out = case.function(*args)
    return args[:2] if out is None else out


def dot(a, b):
    """The inner product of nests of numbers and arrays."""
    if isinstance(a, tuple):
        return sum(dot(x, y) for x, y in zip(a, b, strict=True))
    return float(np.sum(a * b))


def like(value, rng):
    if isinstance(value, tuple):
        return tuple(like(v, rng) for v in value)
    return rng.normal(size=value.shape) if np.ndim(value) else float(rng.normal())


def plain(case, x):
    """Tangents or gradients as the door takes and gives them: a tuple only if argnums is one."""
    return x[0] if isinstance(case.argnums, int) else x


def tupled(case, x):
    return (x,) if isinstance(case.argnums, int) else x


def slope(phi, h, noise):
    """phi'(0) by central differences, extrapolated twice, and a bound on its error.

    The bound is what the last extrapolation changed, plus the noise of phi over the smallest step.
    """
    pairs = [(phi(s), phi(-s)) for s in (h, h / 2, h / 4)]
    d = [(a - b) / (2 * s) for (a, b), s in zip(pairs, (h, h / 2, h / 4))]
    once = [(4 * d[1] - d[0]) / 3, (4 * d[2] - d[1]) / 3]
    change = once[1] - once[0]
    return once[1] + change / 15, abs(change) + noise / (h / 4)


def check_slope(got, phi, scale, case, what):
    """The scale is the size of the terms that phi adds up: their rounding is its noise."""
    want, error = slope(phi, case.step, case.ulps * EPS * scale)
    assert error <= 1e-5 * max(abs(want), scale), f"{what}: {want} is known to {error} only"
    assert abs(got - want) <= error, f"{what}: {got}, by differences {want} +- {error}"


def magnitude(a, b):
    """The sum of the absolute products of two nests."""
    if isinstance(a, tuple):
        return sum(magnitude(x, y) for x, y in zip(a, b, strict=True))
    return float(np.sum(np.abs(a * b)))


@pytest.mark.parametrize("name", CASES)
def test_first_derivatives(name):
    case, rng = CASES[name], np.random.default_rng(1)
    args = case.args(rng)
    kept = copied(args)
    value = value_of(case, copied(args))
    weights = like(value, rng)
    got, gradients = ng.njit.vjp(case.function, case.argnums)(args, weights)
    assert_same(got, value)
    scale = magnitude(value, weights)
    for k in range(3):
        tangents = direction(case, args, rng)

        def phi(t, tangents=tangents):
            return dot(weights, value_of(case, moved(case, args, tangents, t)))

        along = dot(tupled(case, gradients), tangents)
        check_slope(along, phi, scale, case, f"direction {k}")
        got, tangent = ng.njit.jvp(case.function, case.argnums)(args, plain(case, tangents))
        assert_same(got, value)
        terms = magnitude(tupled(case, gradients), tangents)
        assert abs(dot(weights, tangent) - along) <= 1e-10 * terms
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(args, kept))


@pytest.mark.parametrize("name", NUMBERS)
def test_second_derivatives(name):
    case, rng = CASES[name], np.random.default_rng(2)
    args = case.args(rng)
    gradient, hvp = (getattr(ng.njit, n)(case.function, case.argnums) for n in ("grad", "hvp"))
    v, w = direction(case, args, rng), direction(case, args, rng)
    hv, hw = (tupled(case, hvp(args, plain(case, d))) for d in (v, w))
    assert abs(dot(w, hv) - dot(v, hw)) <= 1e-10 * max(magnitude(w, hv), magnitude(v, hw))

    def phi(t):
        return dot(tupled(case, gradient(*moved(case, args, v, t))), w)

    scale = magnitude(tupled(case, gradient(*args)), w)
    check_slope(dot(w, hv), phi, scale, case, "along two directions")
