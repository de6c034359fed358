"""Mixed partial derivatives as combinations of derivatives along lines, with exact rational coefficients.

Along ``x + s v`` the k-th derivative is ``(v . grad)^k u = sum_{|a|=k} k!/a! v^a d^a u``. Writing a partial of order k in
such powers is writing the monomial ``xi^a`` as a sum of k-th powers of linear forms. Two families of directions:

* polarisation (R. Kan, From moments of sum to moments of product, J. Multivariate Anal. 99, 2008)::

      xi^a = 1/(2^k k!) sum_{0<=j<=a} (-1)^{|j|} prod_i C(a_i, j_i) (sum_i (a_i - 2 j_i) xi_i)^k

  half of whose terms suffice by symmetry: few directions for one partial;
* interpolation on all ``j`` with ``|j| = k`` (Griewank, Utke, Walther, Math. Comp. 69, 2000): C(n+k-1, k)
  directions serve all partials of order k in n variables.

`plan` takes whichever needs fewer directions; the coefficients are fractions, so nothing is lost here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, gcd, prod
from typing import NamedTuple

import numpy as np

Vector = tuple[int, ...]
Rule = Callable[[Vector], dict[Vector, Fraction]]
Index = tuple[int, ...]  # sorted coordinate numbers: (0, 1, 1) is d^3 / dx0 dx1^2


class Plan(NamedTuple):
    """Directions (those of highest order first), their orders, and per multi-index its combination.

    ``d^a u = sum_r combination[a][r] * D_r^k u`` with ``k = |a|`` and ``D_r`` the derivative along direction r.
    """

    vectors: tuple[Vector, ...]
    orders: tuple[int, ...]
    combination: dict[Index, dict[int, Fraction]]
    matrix: np.ndarray  # the vectors as rows


def exponents(index: Index, d: int) -> Vector:
    """How often each of the d coordinates occurs in a multi-index."""
    return tuple(index.count(i) for i in range(d))


def primitive(v: Vector) -> tuple[Vector, int]:
    """``v = factor * w`` with coprime entries of w, the first nonzero one positive."""
    factor = gcd(*v)
    if next(x for x in v if x) < 0:
        factor = -factor
    return tuple(x // factor for x in v), factor


@functools.cache
def polarised(alpha: Vector) -> dict[Vector, Fraction]:
    """``d^alpha`` as a combination of k-th directional derivatives, k = |alpha| >= 1 (Kan's identity)."""
    k = sum(alpha)
    found: dict[Vector, Fraction] = {}
    for j in itertools.product(*(range(a + 1) for a in alpha)):
        v = tuple(a - 2 * i for a, i in zip(alpha, j, strict=True))
        if not any(v):
            continue
        w, factor = primitive(v)
        weight = (-1) ** sum(j) * prod(comb(a, i) for a, i in zip(alpha, j, strict=True))
        found[w] = found.get(w, Fraction(0)) + Fraction(weight * factor**k, 2**k * factorial(k))
    return {w: c for w, c in found.items() if c}


@functools.cache
def lattice(n: int, k: int) -> tuple[Vector, ...]:
    """All vectors of n non-negative integers with sum k."""
    if n == 1:
        return ((k,),)
    return tuple((i, *rest) for i in range(k, -1, -1) for rest in lattice(n - 1, k - i))


def _binomial(a: Fraction, b: int) -> Fraction:
    """``a (a-1) ... (a-b+1) / b!`` for rational a."""
    return prod((a - i for i in range(b)), start=Fraction(1)) / factorial(b)


@functools.cache
def interpolated(alpha: Vector) -> dict[Vector, Fraction]:
    """``d^alpha`` from the directions of `lattice` (the formula of Griewank, Utke and Walther)."""
    k = sum(alpha)
    found: dict[Vector, Fraction] = {}
    inner = [i for i in itertools.product(*(range(a + 1) for a in alpha)) if any(i)]
    for j in lattice(len(alpha), k):
        total = Fraction(0)
        for i in inner:
            s = sum(i)
            term = Fraction((-1) ** (k - s)) * Fraction(s, k) ** k
            for a, b, c in zip(alpha, i, j, strict=True):
                term *= comb(a, b) * _binomial(Fraction(k * b, s), c)
            total += term
        if total:
            w, factor = primitive(j)
            # the formula is for Taylor coefficients along j: D^k / k!
            found[w] = found.get(w, Fraction(0)) + total * factor**k / factorial(k)
    return {w: c for w, c in found.items() if c}


def _spread(local: Vector, support: Index, d: int) -> Vector:
    """A vector over the coordinates in ``support`` as one over all d."""
    full = [0] * d
    for i, x in zip(support, local, strict=True):
        full[i] = x
    return tuple(full)


def _combine(index: Index, d: int, rule: Rule) -> dict[Vector, Fraction]:
    """A combination over all d coordinates. Both rules need only those that occur in the multi-index."""
    support = tuple(sorted(set(index)))
    local = tuple(index.count(i) for i in support)
    return {_spread(w, support, d): c for w, c in rule(local).items()}


def _one_order(indices: list[Index], d: int) -> dict[Index, dict[Vector, Fraction]]:
    """Combinations for partials that all have the same order, by the family with fewer directions."""
    found, sizes = [], []
    for rule in (polarised, interpolated):
        found.append({a: _combine(a, d, rule) for a in indices})
        sizes.append(len({w for c in found[-1].values() for w in c}))
    return found[sizes[1] < sizes[0]]


@functools.lru_cache(maxsize=256)
def plan(indices: tuple[Index, ...], d: int) -> Plan:
    """Directions and combinations for several partials of a field of d coordinates (orders may differ)."""
    chosen: dict[Index, dict[Vector, Fraction]] = {}
    for k in sorted({len(a) for a in indices if a}):
        chosen.update(_one_order([a for a in indices if len(a) == k], d))
    orders: dict[Vector, int] = {}
    for a, combination in chosen.items():
        for w in combination:
            orders[w] = max(orders.get(w, 0), len(a))
    vectors = tuple(sorted(orders, key=lambda w: -orders[w]))
    place = {w: r for r, w in enumerate(vectors)}
    return Plan(
        vectors,
        tuple(orders[w] for w in vectors),
        {a: {place[w]: c for w, c in combination.items()} for a, combination in chosen.items()},
        np.array(vectors, float).reshape(len(vectors), d),
    )
