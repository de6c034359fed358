"""Options: the Black-Scholes formula with implied volatility, and Heston's model by Monte Carlo with given draws."""

import math

import numpy as np
from numba import njit, prange


@njit(inline="always")
def cnd(x):
    """The cumulative normal distribution."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@njit(fastmath=True)
def black_scholes(spot, strike, t, rate, vol, call=True):
    """The price of a European option."""
    if t <= 0.0:
        return max(spot - strike, 0.0) if call else max(strike - spot, 0.0)
    sd = vol * math.sqrt(t)
    d1 = (math.log(spot / strike) + (rate + 0.5 * vol * vol) * t) / sd
    d2 = d1 - sd
    disc = strike * math.exp(-rate * t)
    if call:
        return spot * cnd(d1) - disc * cnd(d2)
    return disc * cnd(-d2) - spot * cnd(-d1)


@njit
def vega(spot, strike, t, rate, vol):
    """The derivative with respect to the volatility."""
    sq = math.sqrt(t)
    d1 = (math.log(spot / strike) + (rate + 0.5 * vol**2) * t) / (vol * sq)
    return spot * sq * math.exp(-0.5 * d1 * d1) / math.sqrt(2.0 * math.pi)


@njit
def implied_vol(price, spot, strike, t, rate):
    """Newton's iteration, guarded by bisection; -1 if there is none."""
    lo, hi = 1e-4, 4.0
    if price <= black_scholes(spot, strike, t, rate, lo) or price >= spot:
        return -1.0
    vol = 0.4
    for _ in range(60):
        diff = black_scholes(spot, strike, t, rate, vol) - price
        if abs(diff) < 1e-13:
            return vol
        if diff > 0.0:
            hi = vol
        else:
            lo = vol
        vol -= diff / vega(spot, strike, t, rate, vol)
        if vol <= lo or vol >= hi:
            vol = 0.5 * (lo + hi)
    return vol


@njit
def smile(prices, spot, strikes, t, rate):
    """Implied volatilities of a strip of calls."""
    out = np.empty_like(prices)
    for i, (p, k) in enumerate(zip(prices, strikes)):
        out[i] = implied_vol(p, spot, k, t, rate)
    return out


@njit(parallel=True)
def heston_paths(params, spot, rate, dt, z1, z2):
    """Final prices by full truncation; params: kappa, theta, xi, rho, v0."""
    kappa, theta, xi, rho, v0 = params
    paths, steps = z1.shape
    out = np.empty(paths)
    comp = np.sqrt(1.0 - rho * rho)
    root = np.sqrt(dt)
    for p in prange(paths):
        v = v0
        logs = np.log(spot)
        for t in range(steps):
            vp = max(v, 0.0)
            dw = rho * z1[p, t] + comp * z2[p, t]
            logs += (rate - 0.5 * vp) * dt + np.sqrt(vp) * root * dw
            v += kappa * (theta - vp) * dt + xi * np.sqrt(vp) * root * z1[p, t]
        out[p] = np.exp(logs)
    return out


@njit
def heston_calls(params, spot, rate, dt, strikes, z1, z2):
    """Prices of calls by Monte Carlo."""
    final = heston_paths(params, spot, rate, dt, z1, z2)
    disc = np.exp(-rate * dt * z1.shape[1])
    out = np.zeros(len(strikes))
    for i in range(len(strikes)):
        out[i] = disc * np.mean(np.maximum(final - strikes[i], 0.0))
    return out


@njit
def pricing_error(params, spot, rate, dt, strikes, z1, z2, quotes):
    """Mean squared difference to quoted prices."""
    prices = heston_calls(params, spot, rate, dt, strikes, z1, z2)
    return ((prices - quotes) ** 2).mean()
