"""A Kalman filter for a tracked object: missing measurements and the likelihood of the rest."""

import numpy as np
from numba import njit


@njit
def transition(dt, q):
    """Constant velocity in the plane: the transition matrix and the process noise."""
    F = np.eye(4)
    F[0, 2] = F[1, 3] = dt
    Q = np.zeros((4, 4))
    for a in range(2):
        Q[a, a] = q * dt**3 / 3.0
        Q[a, a + 2] = Q[a + 2, a] = q * dt**2 / 2.0
        Q[a + 2, a + 2] = q * dt
    return F, Q


@njit
def update(x, P, z, H, R):
    """State, covariance and log likelihood after a measurement."""
    y = z - H @ x
    PHt = P @ H.T
    S = H @ PHt + R
    K = PHt @ np.linalg.inv(S)
    ll = -0.5 * (y @ np.linalg.solve(S, y) + np.log(np.linalg.det(2.0 * np.pi * S)))
    return x + K @ y, P - K @ PHt.T, ll


@njit
def filter_track(z, dt, q, r, x0, p0):
    """Filtered states of shape (n, 4), covariances and the log likelihood; rows of NaN are gaps."""
    n = z.shape[0]
    F, Q = transition(dt, q)
    H = np.zeros((2, 4))
    H[0, 0] = H[1, 1] = 1.0
    R = r * np.eye(2)
    x = x0.copy()
    P = p0 * np.eye(4)
    xs, Ps = np.empty((n, 4)), np.empty((n, 4, 4))
    total = 0.0
    for t in range(n):
        x = F @ x
        P = F @ P @ F.T + Q
        if not np.isnan(z[t, 0]):
            x, P, ll = update(x, P, z[t], H, R)
            total += ll
        xs[t] = x
        Ps[t] = P
    return xs, Ps, total


@njit
def neg_log_likelihood(theta, z, dt, x0):
    """``theta`` is the logarithms of the process and measurement noise."""
    q, r = np.exp(theta)
    return -filter_track(z, dt, q, r, x0, 10.0)[2]
