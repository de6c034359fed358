"""The acoustic wave equation in two dimensions: fourth order in space, three time levels, absorbing margins."""

import numpy as np
from numba import njit

C0 = -5.0 / 2.0
C1 = 4.0 / 3.0
C2 = -1.0 / 12.0


@njit
def ricker(t, f0):
    """A Ricker wavelet with its peak at 1.2 / f0."""
    a = (np.pi * f0 * (t - 1.2 / f0)) ** 2
    return (1.0 - 2.0 * a) * np.exp(-a)


@njit
def damping_profile(nz, nx, width, strength):
    """Damping that grows quadratically towards the edges."""
    eta = np.zeros((nz, nx))
    for i in range(nz):
        for j in range(nx):
            d = min(min(i, nz - 1 - i), min(j, nx - 1 - j))
            if d < width:
                eta[i, j] = strength * ((width - d) / width) ** 2
    return eta


@njit
def step(prev, cur, nxt, vp, eta, dt, h):
    """One step in time; ``nxt`` is overwritten."""
    nz, nx = cur.shape
    r = dt / h
    for i in range(2, nz - 2):
        for j in range(2, nx - 2):
            lap = (
                2.0 * C0 * cur[i, j]
                + C1 * (cur[i + 1, j] + cur[i - 1, j] + cur[i, j + 1] + cur[i, j - 1])
                + C2 * (cur[i + 2, j] + cur[i - 2, j] + cur[i, j + 2] + cur[i, j - 2])
            )
            damp = eta[i, j] * dt
            nxt[i, j] = (
                2.0 * cur[i, j] - (1.0 - damp) * prev[i, j] + (vp[i, j] * r) ** 2 * lap
            ) / (1.0 + damp)


@njit
def forward(vp, src, rec, f0, dt, h, nt):
    """The seismogram of shape (nt, receivers) for a velocity model."""
    nz, nx = vp.shape
    eta = damping_profile(nz, nx, 4, 6.0)
    prev = np.zeros((nz, nx))
    cur = np.zeros((nz, nx))
    nxt = np.zeros((nz, nx))
    seis = np.empty((nt, rec.shape[0]))
    for it in range(nt):
        step(prev, cur, nxt, vp, eta, dt, h)
        nxt[src[0], src[1]] += dt**2 * vp[src[0], src[1]] ** 2 * ricker(it * dt, f0)
        for k in range(rec.shape[0]):
            seis[it, k] = nxt[rec[k, 0], rec[k, 1]]
        prev, cur, nxt = cur, nxt, prev
    return seis


@njit
def misfit(vp, data, src, rec, f0, dt, h):
    """Half the squared difference to measured data."""
    d = forward(vp, src, rec, f0, dt, h, data.shape[0]) - data
    return 0.5 * np.sum(d * d)
