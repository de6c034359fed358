"""Random programs of views and in-place writes: eager, transformed and traced gradients against finite differences."""

import random

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.autograd import grad


def program(seed, x, y):
    """A few steps that make views of ``x * 1`` and write to them; returns a number."""
    rng = random.Random(seed)
    views = [x * 1.0]
    for _ in range(rng.randrange(2, 9)):
        step, v, w = rng.randrange(11), rng.choice(views), rng.choice(views)
        if step == 0 and v.ndim:
            views.append(v[rng.randrange(v.shape[0])])
        elif step == 1 and v.ndim >= 2:
            views.append(v.transpose(0, 1))
        elif step == 2 and v.ndim and v.shape[0] > 1:
            views.append(v[1:])
        elif step == 3 and v.ndim:
            views.append(v[::-2])
        elif step == 4:
            v.mul_(1.5)
        elif step == 5:
            v.add_(y[0])
        elif step == 6 and v.ndim:
            v[0] = y[1] * 2
        elif step == 7:
            v.mul_(y.sum())
        elif step == 8:
            v.add_(w.sum())
        elif step == 9:
            old = v.clone()
            v.copy_(old * old * 0.5)
        elif step == 10 and v.ndim == 2 and v.shape[0] == v.shape[1]:
            views.append(v.diagonal())
    return sum((v * v * (i + 1)).sum() for i, v in enumerate(views[:6]))


def slope(f, x, i, h=1e-6):
    up, down = x.copy(), x.copy()
    up.flat[i] += h
    down.flat[i] -= h
    return (f(up) - f(down)) / (2 * h)


@pytest.mark.parametrize("seed", range(60))
def test_gradients_of_random_programs(seed):
    data = np.random.default_rng(seed)
    x, y = data.uniform(-1, 1, (3, 3)), data.uniform(-1, 1, 3)
    tx, ty = ng.tensor(x, requires_grad=True), ng.tensor(y, requires_grad=True)
    gx, gy = grad(program(seed, tx, ty), (tx, ty), materialize_grads=True)
    number = lambda a, b: float(program(seed, ng.tensor(a), ng.tensor(b)))
    want_x = [slope(lambda a: number(a, y), x, i) for i in range(9)]
    want_y = [slope(lambda b: number(x, b), y, i) for i in range(3)]
    scale = 1 + max(map(abs, want_x + want_y))
    np.testing.assert_allclose(gx.numpy().ravel(), want_x, atol=1e-6 * scale)
    np.testing.assert_allclose(gy.numpy(), want_y, atol=1e-6 * scale)
    # every interpreter gives the same
    f = lambda a, b: program(seed, a, b)
    a, b = ng.tensor(x), ng.tensor(y)
    close = lambda p, q: np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-10, atol=1e-10)
    for p, q in zip(ng.func.grad(f, (0, 1))(a, b), (gx, gy), strict=True):
        close(p, q)
    rows = ng.func.vmap(ng.func.grad(f, (0, 1)))(ng.stack([2 * a, a]), ng.stack([b, b]))
    for p, q in zip(rows, (gx, gy), strict=True):
        close(p[1], q)
    for p, q in zip(ng.trace(f)(a, b).grad((0, 1)).run([a, b]), (gx, gy), strict=True):
        close(p, q)
    direction = (ng.tensor(data.normal(size=(3, 3))), ng.tensor(data.normal(size=3)))
    _, t = ng.func.jvp(f, (a, b), direction)
    close(t, (gx * direction[0]).sum() + (gy * direction[1]).sum())
