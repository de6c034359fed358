"""A custom Function: the root of an equation, differentiated by the implicit function theorem.

Kepler's equation ``E - e sin E = M`` is solved by Newton's method in NumPy, outside the graph. Its derivative needs no loop:
``dE/dM = 1 / (1 - e cos E)`` and ``dE/de = sin E / (1 - e cos E)``. ``gradcheck`` compares with differences.

python examples/custom_function.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nbgrad as ng


class Kepler(ng.autograd.Function):
    """The eccentric anomaly E(M, e), for eccentricities 0 <= e < 1."""

    @staticmethod
    def forward(mean: ng.Tensor, e: ng.Tensor) -> ng.Tensor:
        """Newton's method from E = M + e sin M, to machine precision."""
        m, ecc = mean.detach().numpy(), e.detach().numpy()
        root = m + ecc * np.sin(m)
        for _ in range(50):
            step = (root - ecc * np.sin(root) - m) / (1 - ecc * np.cos(root))
            root = root - step
            if np.abs(step).max(initial=0) < 1e-15:
                break
        return ng.tensor(root)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: ng.Tensor) -> None:
        """Keep what the derivatives need."""
        ctx.save_for_backward(inputs[1], output)
        ctx.save_for_forward(inputs[1], output)

    @staticmethod
    def backward(ctx: Any, g: ng.Tensor) -> tuple:
        """Written with nbgrad operations, so it can be differentiated again."""
        e, root = ctx.saved_tensors
        slope = g / (1 - e * ng.cos(root))
        return slope, slope * ng.sin(root)

    @staticmethod
    def jvp(ctx: Any, mean_dot: ng.Tensor, e_dot: ng.Tensor) -> ng.Tensor:
        """Forward mode."""
        e, root = ctx.saved_tensors
        return (mean_dot + ng.sin(root) * e_dot) / (1 - e * ng.cos(root))


def main() -> bool:
    """Check both derivatives in both modes, and the second ones."""
    mean = ng.tensor([0.1, 1.0, 2.5, 4.0], requires_grad=True)
    e = ng.tensor([0.0, 0.3, 0.6, 0.9], requires_grad=True)
    ok = ng.autograd.gradcheck(Kepler.apply, (mean, e), check_forward_ad=True)
    ok = ok and ng.autograd.gradgradcheck(Kepler.apply, (mean, e))
    print("E     ", Kepler.apply(mean, e).detach())
    print("dE/dM ", ng.autograd.grad(Kepler.apply(mean, e).sum(), mean)[0])
    print("gradcheck and gradgradcheck passed" if ok else "the derivatives are wrong")
    return ok


if __name__ == "__main__":
    main()
