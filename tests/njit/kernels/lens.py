"""Gravitational lensing: deflection by NFW haloes and an outer shear, and images found by shooting rays back."""

from collections import namedtuple

import numpy as np
from numba import njit

Halo = namedtuple("Halo", "x y kappa scale")
Shear = namedtuple("Shear", ["g1", "g2"])


@njit
def nfw_g(x):
    """The radial function of the deflection of an NFW halo."""
    if x < 1.0 - 1e-6:
        f = np.arctanh(np.sqrt(1.0 - x * x)) / np.sqrt(1.0 - x * x)
    elif x > 1.0 + 1e-6:
        f = np.arctan(np.sqrt(x * x - 1.0)) / np.sqrt(x * x - 1.0)
    else:
        f = 1.0
    return np.log(0.5 * x) + f


@njit
def deflection(x, y, halo, shear):
    """The deflection angle at a point of the image plane."""
    dx, dy = x - halo.x, y - halo.y
    r = np.hypot(dx, dy)
    ax = shear.g1 * x + shear.g2 * y
    ay = shear.g2 * x - shear.g1 * y
    if r > 0.0:
        a = 4.0 * halo.kappa * halo.scale**2 * nfw_g(r / halo.scale) / r**2
        ax += a * dx
        ay += a * dy
    return ax, ay


@njit
def source_plane(theta, halo, shear):
    """Where rays through the image positions meet the source plane."""
    beta = np.empty_like(theta)
    for i in range(theta.shape[0]):
        ax, ay = deflection(theta[i, 0], theta[i, 1], halo, shear)
        beta[i] = theta[i, 0] - ax, theta[i, 1] - ay
    return beta


@njit
def scatter(params, theta, errors):
    """The weighted spread of the images' sources; params: x, y, kappa, scale, g1, g2."""
    halo = Halo(params[0], params[1], params[2], params[3])
    beta = source_plane(theta, halo, Shear(params[4], params[5]))
    w = 1.0 / errors**2
    centre = np.zeros(2)
    for i in range(len(w)):
        centre += w[i] * beta[i]
    centre /= w.sum()
    chi2 = 0.0
    for b, wi in zip(beta, w):
        chi2 += wi * ((b[0] - centre[0]) ** 2 + (b[1] - centre[1]) ** 2)
    return chi2


@njit
def brightness(params, sources, grid, radius):
    """Light at the pixels of a square grid by rays shot back to sources of Gaussian profile."""
    halo = Halo(params[0], params[1], params[2], params[3])
    shear = Shear(params[4], params[5])
    n = grid.size
    image = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            ax, ay = deflection(grid[i], grid[j], halo, shear)
            for s in range(sources.shape[0]):
                d2 = (grid[i] - ax - sources[s, 0]) ** 2 + (grid[j] - ay - sources[s, 1]) ** 2
                if d2 > 25.0 * radius * radius:
                    continue
                image[i, j] += np.exp(-0.5 * d2 / radius**2)
    return image
