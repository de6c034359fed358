"""The gradient penalty of WGAN-GP (Gulrajani et al. 2017): a critic whose slope is about 1.

The loss contains the norm of the critic's gradient with respect to its input; training it differentiates that
gradient again, with respect to the weights. The critic then measures the Wasserstein distance of two samples, here two
Gaussians whose distance is known: that of their means.

python examples/gradient_penalty.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import nbgrad as ng

SHIFT = (1.5, 2.0)  # of the second Gaussian: the distance is 2.5


def critic(p: list[ng.Tensor], x: ng.Tensor) -> ng.Tensor:
    """One number per row of x."""
    return (ng.tanh(ng.tanh(x @ p[0] + p[1]) @ p[2] + p[3]) @ p[4])[:, 0]


def slope(p: list[ng.Tensor], real: ng.Tensor, fake: ng.Tensor, mix: ng.Tensor) -> ng.Tensor:
    """``|d critic / dx|`` at points between the samples; differentiable in the weights."""
    x = (mix * real + (1 - mix) * fake).detach().requires_grad_()
    (d,) = ng.autograd.grad(critic(p, x).sum(), x, create_graph=True)
    return ng.sqrt(ng.square(d).sum(1) + 1e-12)


def draw(rng: np.random.Generator, n: int) -> list[ng.Tensor]:
    """The two samples, and how to mix them."""
    real, fake = rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + SHIFT
    return [ng.tensor(a) for a in (real, fake, rng.uniform(size=(n, 1)))]


class Result(NamedTuple):
    """The estimated distance (the critic's gap over its slope), and the mean slope."""

    distance: float
    slope: float


def train(steps: int = 600, batch: int = 256, weight: float = 10.0, seed: int = 0) -> Result:
    """Train the critic with Adam on ``critic(fake) - critic(real) + weight * penalty``."""
    rng = np.random.default_rng(seed)
    sizes, scale = [(2, 32), (32,), (32, 32), (32,), (32, 1)], [0.5, 0.0, 0.2, 0.0, 0.2]
    p = [
        ng.tensor(rng.normal(size=s) * k, requires_grad=True)
        for s, k in zip(sizes, scale, strict=True)
    ]
    m, v = ([ng.zeros_like(w) for w in p] for _ in range(2))
    for k in range(1, steps + 1):
        real, fake, mix = draw(rng, batch)
        penalty = ng.square(slope(p, real, fake, mix) - 1).mean()
        gap = critic(p, real).mean() - critic(p, fake).mean()
        grads = ng.autograd.grad(weight * penalty - gap, p)
        with ng.no_grad():
            for w, g, a, b in zip(p, grads, m, v, strict=True):
                a.mul_(0.5).add_(0.5 * g)
                b.mul_(0.9).add_(0.1 * g * g)
                w.sub_(0.003 * (a / (1 - 0.5**k)) / (ng.sqrt(b / (1 - 0.9**k)) + 1e-8))
    real, fake, mix = draw(rng, 4000)
    steepness = slope(p, real, fake, mix).mean().item()
    gap = critic(p, real).mean() - critic(p, fake).mean()
    return Result(gap.item() / steepness, steepness)


if __name__ == "__main__":
    found = train()
    print(f"distance {found.distance:.3f} (true: {np.hypot(*SHIFT):.3f}), slope {found.slope:.3f}")
