"""Activation functions. Their kinks follow one rule: relu, relu6, hardtanh and clamp have derivative 0 on a bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..codegen.expr import m
from ..errors import ArgumentError, message
from ..op import elementwise
from ..op.public import public
from .extremes import clamp_both
from .logistic import logistic_density, sigmoid
from .sampling import POSITIVE, REAL, SIDES, elements
from .selection import drop, keep, where, zmul
from .special import normal_cdf, normal_density
from .transcendental import exp, expm1

SELU_ALPHA = 1.6732632423543772848170429916717  # Klambauer et al., arXiv 1706.02515
SELU_SCALE = 1.0507009873554804934193349852946


def _erfc(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erfc, otypes=[float])(x)


@elementwise(
    complex_ok=False,
    diagonal=(lambda t, x, out: keep(x > 0, t),),
    tests=elements(SIDES),
    reference=lambda x: np.maximum(x, 0),
)
def relu(x):
    """max(x, 0); the derivative at 0 is 0."""
    return m.select(x <= 0, m.const(0, x), x)


@elementwise(
    "leaky_relu",
    hidden=True,
    complex_ok=False,
    promotion="float",
    diagonal=(
        lambda t, x, slope, out: where(x > 0, t, zmul(slope, t)),
        lambda t, x, slope, out: zmul(t, drop(x > 0, x)),
    ),
    tests=elements(SIDES, POSITIVE),
    reference=lambda x, slope: np.where(x > 0, x, slope * x),
)
def leaky(x, slope):
    """x where positive, else slope*x."""
    return m.select(x > 0, x, slope * x)


@public(inplace=True)
def leaky_relu(input: Any, negative_slope: Any = 0.01) -> Any:
    """x where positive, else ``negative_slope * x``; the slope may be a tensor (PReLU)."""
    return leaky(input, negative_slope)


@elementwise(
    "elu",
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(
        lambda x, a, out: where(x > 0, 1.0, a * exp(x)),
        lambda x, a, out: drop(x > 0, expm1(x)),
    ),
    tests=elements(SIDES, POSITIVE),
    reference=lambda x, a: np.where(x > 0, x, a * np.expm1(x)),
)
def elu_(x, a):
    """x where positive, else a*(exp(x) - 1)."""
    return m.select(x > 0, x, a * m.expm1(x))


@public(inplace=True)
def elu(input: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else ``alpha * (exp(x) - 1)``."""
    return elu_(input, alpha)


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: SELU_SCALE * where(x > 0, 1.0, SELU_ALPHA * exp(x)),),
    tests=elements(SIDES),
    reference=lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
)
def selu(x):
    """Self-normalising exponential linear unit (Klambauer et al., arXiv 1706.02515)."""
    return SELU_SCALE * m.select(x > 0, x, SELU_ALPHA * m.expm1(x))


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: sigmoid(-x),),
    tests=elements(REAL),
    reference=lambda x: -np.log1p(np.exp(-x)),
)
def logsigmoid(x):
    """log(sigmoid(x)), accurate in both tails."""
    return -m.softplus(-x)


@elementwise(
    "softplus",
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: sigmoid(x),),
    tests=elements(REAL),
    reference=lambda x: np.log1p(np.exp(x)),
)
def softplus_(x):
    """log(1 + exp(x)), accurate in both tails."""
    return m.softplus(x)


@public
def softplus(input: Any, beta: Any = 1.0, threshold: float | None = None) -> Any:
    """``log(1 + exp(beta x)) / beta``, accurate in both tails and so in every derivative.

    ``threshold`` exists for compatibility: given, the result is ``x`` itself where ``beta x > threshold``. The formula
    needs no such switch, which makes the second derivative 0 above it, so there is none unless it is asked for.
    """
    unscaled = not hasattr(beta, "shape") and beta == 1
    out = softplus_(input) if unscaled else softplus_(input * beta) / beta
    return out if threshold is None else where(input * beta > threshold, input, out)


@elementwise(
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: sigmoid(x) + zmul(logistic_density(x), x),),
    tests=elements(REAL),
    reference=lambda x: x / (1 + np.exp(-x)),
)
def silu(x):
    """x*sigmoid(x) (also called swish)."""
    s = m.sigmoid(x)
    return m.select(s == 0, s, x * s)


@elementwise(
    "gelu",
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: normal_cdf(x) + zmul(normal_density(x), x),),
    tests=elements(REAL),
    reference=lambda x: 0.5 * x * _erfc(-x / np.sqrt(2)),
)
def gelu_erf(x):
    """x times the standard normal distribution function."""
    c = 0.5 * m.erfc(x * -math.sqrt(0.5))
    return m.select(c == 0, c, x * c)


_GELU_SLOPE = math.sqrt(8 / math.pi)


def _gelu_argument(x: Any) -> Any:
    return _GELU_SLOPE * (x + 0.044715 * (x * x * x))


def _gelu_tanh_slope(x: Any) -> Any:
    u = _gelu_argument(x)
    inner = (_GELU_SLOPE * x) * (1 + (3 * 0.044715) * (x * x))
    return sigmoid(u) + zmul(logistic_density(u), inner)


@elementwise(
    hidden=True,
    complex_ok=False,
    promotion="float",
    partials=(lambda x, out: _gelu_tanh_slope(x),),
    tests=elements(REAL),
    reference=lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
)
def gelu_tanh(x):
    """The tanh approximation of gelu, ``x sigmoid(2u)``, accurate in the left tail."""
    s = m.sigmoid(_gelu_argument(x))
    return m.select(s == 0, s, x * s)


@public(inplace=True)
def gelu(input: Any, approximate: str = "none") -> Any:
    """Gaussian error linear unit ``x Phi(x)``; ``approximate='tanh'`` uses the tanh formula.

    Raises
    ------
    ArgumentError : another value of ``approximate``.
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            message("gelu", "argument 'approximate'", repr(approximate), "'none' or 'tanh'")
        )
    return gelu_erf(input) if approximate == "none" else gelu_tanh(input)


@public(inplace=True)
def relu6(input: Any) -> Any:
    """``min(max(x, 0), 6)``; derivative 0 on both bounds."""
    return clamp_both(input, 0, 6)


@public(inplace=True)
def hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """``min(max(x, min_val), max_val)``; derivative 0 on both bounds."""
    return clamp_both(input, min_val, max_val)
