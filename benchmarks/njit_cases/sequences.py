"""The LSTM and the Gaussian mixture of ADBench, as loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from . import adbench, sequences_by_hand
from .base import Lazy, NjitCase, Thunk
from .programs import cpp_ways


# -- LSTM ------------------------------------------------------------------------------------------------
@njit
def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@njit
def lstm(main: Any, extra: Any, start: Any, text: Any) -> float:
    """The loss; rows of ``main`` are weights and biases of a layer: forget, enter, leave, change."""
    layers, bits, chars = main.shape[0] // 2, extra.shape[1], text.shape[0]
    state = start.copy()
    x = np.empty(bits)
    total = 0.0
    for t in range(chars - 1):
        for i in range(bits):
            x[i] = text[t, i] * extra[0, i]
        for k in range(layers):
            w, b = main[2 * k], main[2 * k + 1]
            for i in range(bits):
                hidden = state[2 * k, i]
                forget = sigmoid(x[i] * w[i] + b[i])
                enter = sigmoid(hidden * w[bits + i] + b[bits + i])
                leave = sigmoid(x[i] * w[2 * bits + i] + b[2 * bits + i])
                change = math.tanh(hidden * w[3 * bits + i] + b[3 * bits + i])
                cell = state[2 * k + 1, i] * forget + enter * change
                state[2 * k + 1, i] = cell
                state[2 * k, i] = leave * math.tanh(cell)
                x[i] = state[2 * k, i]
        total_exp = 2.0
        for i in range(bits):
            x[i] = x[i] * extra[1, i] + extra[2, i]
            total_exp += math.exp(x[i])
        log_sum = math.log(total_exp)
        for i in range(bits):
            total += text[t + 1, i] * (x[i] - log_sum)
    return -total / ((chars - 1) * bits)


def lstm_given(args: tuple) -> dict:
    return dict(zip(("main_params", "extra_params", "state", "sequence"), args, strict=True))


# -- Gaussian mixture ------------------------------------------------------------------------------------
@njit
def log_sum_exp(x: Any) -> float:
    top = x[0]
    for i in range(1, x.shape[0]):
        if x[i] > top:
            top = x[i]
    total = 0.0
    for i in range(x.shape[0]):
        total += math.exp(x[i] - top)
    return math.log(total) + top


@njit
def gmm(
    alpha: Any, means: Any, icf: Any, x: Any, gamma: float, m: int, constant: float, sign: float
) -> float:
    """The log posterior; a row of ``icf``: logarithms of the diagonal, then the strict triangle by columns.

    The sign of the prior is 1 in ADBench and -1 in GradBench.
    """
    n, d = x.shape
    k = alpha.shape[0]
    diagonal, sums = np.empty((k, d)), np.zeros(k)
    prior = constant
    for c in range(k):
        for i in range(d):
            sums[c] += icf[c, i]
            diagonal[c, i] = math.exp(icf[c, i])
            prior += 0.5 * gamma * gamma * diagonal[c, i] ** 2
        for i in range(d, icf.shape[1]):
            prior += 0.5 * gamma * gamma * icf[c, i] ** 2
        prior -= m * sums[c]
    centered, scaled, terms = np.empty(d), np.empty(d), np.empty(k)
    total = 0.0
    for s in range(n):
        for c in range(k):
            for i in range(d):
                centered[i] = x[s, i] - means[c, i]
                scaled[i] = diagonal[c, i] * centered[i]
            at = d
            for i in range(d):
                for j in range(i + 1, d):
                    scaled[j] += icf[c, at] * centered[i]
                    at += 1
            square = 0.0
            for i in range(d):
                square += scaled[i] * scaled[i]
            terms[c] = alpha[c] + sums[c] - 0.5 * square
        total += log_sum_exp(terms)
    total -= 0.5 * n * d * math.log(2.0 * math.pi)
    return total - n * log_sum_exp(alpha) + sign * prior


def constant_of(d: int, k: int, gamma: float, m: int) -> float:
    """The part of the prior that does not depend on the parameters."""
    f = d + m + 1
    gammas = 0.25 * d * (d - 1) * math.log(math.pi)
    gammas += sum(math.lgamma(0.5 * f - 0.5 * j) for j in range(d))
    wishart = f * d * (math.log(gamma) - 0.5 * math.log(2)) - gammas
    return -k * wishart


def gmm_data(name: str) -> Callable[[bool], tuple]:
    def make(small: bool) -> tuple:
        alpha, means, icf, x, gamma, m = adbench.gmm("test.txt" if small else f"1k/{name}.txt")
        constant = constant_of(x.shape[1], len(alpha), gamma, m)
        return alpha, means, icf, x, gamma, m, constant, 1.0 if small else -1.0

    return make


def gmm_given(args: tuple) -> dict:
    alpha, means, icf, x, gamma, m, *_ = args
    (k, d), n = means.shape, len(x)
    arrays = {"alpha": alpha, "mu": means, "q": icf[:, :d], "l": icf[:, d:], "x": x}
    return {"d": d, "k": k, "n": n, "m": m, "gamma": gamma, **arrays}


def gmm_view(values: list[np.ndarray]) -> list[np.ndarray]:
    """The gradient in the parts that the C++ programs print."""
    _, alpha, means, icf = values
    d = means.shape[1]
    return [alpha, means, icf[:, :d], icf[:, d:]]


# -- both ------------------------------------------------------------------------------------------------
def ways(
    program: Callable, argnums: tuple[int, ...], by_hand: Callable
) -> Callable[[tuple], dict[str, Thunk]]:
    def make(args: tuple) -> dict[str, Thunk]:
        def ours() -> Thunk:
            import nbgrad as ng

            gradient = ng.njit.value_and_grad(program, argnums)
            return lambda: gradient(*args)

        made = {"primal": lambda: program(*args), "by hand": lambda: by_hand(*args)}
        return {**made, "gradient": Lazy(ours)}

    return make


def check(instance: str) -> Callable[[Any, list[np.ndarray]], float]:
    """The largest error against the values that ADBench's tests expect."""

    def error(args: tuple, got: list[np.ndarray]) -> float:
        want = adbench.expected(instance)
        flat = np.concatenate([g.ravel() for g in got[1:]])
        off = np.abs(flat - want["gradient"]).max()
        return max(abs(float(got[0]) - want["objective"]), off)

    return error


def gmm_case(name: str, title: str) -> NjitCase:
    outputs = lambda out: [out[k] for k in ("alpha", "mu", "q", "l")]
    return NjitCase(
        name,
        f"ADBench Gaussian mixture, {title}, n = 1000",
        gmm_data(name),
        ways(gmm, (0, 1, 2), sequences_by_hand.gmm),
        goal=3.0,
        goals={"tapenade": 1.2, "manual": 0.8},
        peers=cpp_ways("gmm", gmm_given, outputs),
        check=check("gmm/test.txt"),
        view=gmm_view,
    )


CASES = [
    NjitCase(
        "lstm",
        "ADBench LSTM, 2 layers, 1024 characters",
        lambda small: adbench.lstm("lstm_l2_c1024.txt"),
        ways(lstm, (0, 1), sequences_by_hand.lstm),
        goal=3.0,
        goals={"tapenade": 1.2, "manual": 0.8},
        peers=cpp_ways("lstm", lstm_given, lambda out: [out]),
        check=check("lstm/lstm_l2_c1024.txt"),
        view=lambda values: [np.concatenate([v.ravel() for v in values[1:]])],
    ),
    gmm_case("gmm_d10_K25", "d = 10, K = 25"),
    gmm_case("gmm_d20_K50", "d = 20, K = 50"),
]
