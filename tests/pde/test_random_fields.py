"""Random fields from many operations, random operators: all ways agree, and replays of their tapes do."""

import random

import numpy as np
import pytest
from known_fields import close

import nbgrad as ng
from nbgrad import pde
from nbgrad.nn import functional

ONE = [
    ng.sin,
    ng.exp,
    ng.square,
    ng.sigmoid,
    ng.erf,
    functional.softplus,
    functional.gelu,
    lambda h: ng.log(h * h + 1),
    lambda h: 1 / (h * h + 2),
    lambda h: (h * h + 1) ** -0.7,
    lambda h: ng.lgamma(h * h + 1),
    lambda h: ng.softmax(h, -1),
    lambda h: ng.logsumexp(h, -1, keepdim=True) + h,
    lambda h: h / h.norm(dim=-1, keepdim=True),
    lambda h: h.std(-1, keepdim=True) * h,
    lambda h: ng.cumsum(h, -1).flip(-1),
    lambda h: h[..., [2, 0, 1]],
    lambda h: ng.einsum("...i,...j->...ij", h, h).sum(-1),
]
TWO = [
    lambda a, b: a * b,
    lambda a, b: a - 2 * b,
    lambda a, b: a / (b * b + 1),
    lambda a, b: ng.atan2(a, b * b + 1),
    lambda a, b: ng.where(a > 0, a * a, b),
    lambda a, b: (a * a + 1) ** b,
]


def draw(seed):
    """A field of three components of three coordinates, and a table of terms."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    W = ng.tensor(rng.normal(size=(3, 3)) * 0.6)
    steps = [(choose.choice("otw"), choose.randrange(100), choose.randrange(100)) for _ in range(5)]

    def u(x):
        known = [x]
        for kind, i, j in steps:
            if kind == "o":
                h = ONE[i % len(ONE)](known[-1])
            elif kind == "t":
                h = TWO[i % len(TWO)](known[-1], known[j % len(known)])
            else:
                h = known[-1] @ W
            known.append(ng.tanh(0.5 * h))
        return known[-1]

    indices = {tuple(sorted(choose.choices(range(3), k=choose.randint(1, 3)))) for _ in range(3)}
    terms = {
        a: float(rng.normal()) if choose.random() < 0.6 else ng.tensor(rng.normal(size=4))
        for a in sorted(indices)
    }
    return u, terms, ng.tensor(rng.uniform(-1, 1, (4, 3)))


@pytest.mark.parametrize("seed", range(25))
def test_all_ways_agree(seed):
    u, terms, x = draw(seed)
    want = pde.linear_operator(u, terms, method="nested")(x)
    for method in ("collapsed", "taylor", "forward_over_reverse"):
        op = pde.linear_operator(u, terms, method=method)
        assert close(op(x), want, 1e-10), method
        assert close(ng.trace(op)(x).simplify().replay(x), want, 1e-10), method
