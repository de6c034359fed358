"""The log marginal likelihood of a Gaussian process with a Matern kernel, by Cholesky factorisation."""

import numpy as np
from numba import njit

SQRT5 = np.sqrt(5.0)


@njit
def matern52(xa, xb, length, variance):
    """The Matern 5/2 covariance of two points with a length for each dimension."""
    r2 = 0.0
    for d in range(xa.shape[0]):
        r2 += ((xa[d] - xb[d]) / length[d]) ** 2
    if r2 == 0.0:
        return variance
    r = SQRT5 * np.sqrt(r2)
    return variance * (1.0 + r + r * r / 3.0) * np.exp(-r)


@njit
def covariance(x, length, variance, noise):
    """The covariance matrix of noisy observations at the rows of x."""
    n = x.shape[0]
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            K[i, j] = K[j, i] = matern52(x[i], x[j], length, variance)
        K[i, i] += noise
    return K


@njit
def solve_lower(L, b):
    """Forward substitution."""
    y = np.empty_like(b)
    for i in range(b.size):
        y[i] = (b[i] - np.dot(L[i, :i], y[:i])) / L[i, i]
    return y


@njit
def log_likelihood(theta, x, y):
    """``theta`` is log variance, log noise, and the logarithms of the lengths."""
    variance, noise = np.exp(theta[0]), np.exp(theta[1])
    length = np.exp(theta[2:])
    n = y.shape[0]
    K = covariance(x, length, variance, noise)
    L = np.linalg.cholesky(K)
    resid = y - y.mean()
    a = solve_lower(L, resid)
    return -0.5 * a @ a - np.log(np.diag(L)).sum() - 0.5 * n * np.log(2.0 * np.pi)


@njit
def predict(theta, x, y, where):
    """The posterior mean at other points."""
    length = np.exp(theta[2:])
    variance = np.exp(theta[0])
    K = covariance(x, length, variance, np.exp(theta[1]))
    alpha = np.linalg.solve(K, y - np.mean(y))
    out = np.zeros(where.shape[0])
    for i in range(where.shape[0]):
        for j in range(x.shape[0]):
            out[i] += matern52(where[i], x[j], length, variance) * alpha[j]
    return out + np.mean(y)
