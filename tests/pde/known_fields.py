"""Fields with known derivatives, and a network."""

import numpy as np

import nbgrad as ng

METHODS = ("collapsed", "taylor", "nested", "forward_over_reverse")


def wave(k):
    """``exp(k . x)``: every partial is a product of wave numbers times the field."""
    k = ng.tensor(k)
    return lambda x: ng.exp((x * k).sum(-1))


def sines(x):
    """``prod_i sin(x_i)``."""
    result = ng.sin(x[..., 0])
    for i in range(1, x.shape[-1]):
        result = result * ng.sin(x[..., i])
    return result


def gaussian(x):
    """``exp(-|x|^2 / 2)``."""
    return ng.exp(-(x * x).sum(-1) / 2)


def network(d=3, m=2, width=6, seed=0, dtype=np.float64):
    """Parameters of `mlp`: d coordinates to m components."""
    rng = np.random.default_rng(seed)
    return [
        ng.tensor((rng.normal(size=s) * 0.7).astype(dtype))
        for s in ((d, width), (width,), (width, width), (width, m))
    ]


def mlp(x, p):
    """Two layers of different functions."""
    h = ng.tanh(x @ p[0] + p[1])
    return ng.sin(h @ p[2]) @ p[3]


def scalar(x, p):
    """The first component of `mlp`."""
    return mlp(x, p)[..., 0]


def points(n=5, d=3, seed=1, dtype=np.float64):
    """Random points."""
    return ng.tensor(np.random.default_rng(seed).uniform(-1, 1, (n, d)).astype(dtype))


def close(a, b, tol=1e-11):
    """Equal shapes, and values to a tolerance relative to the largest."""
    a, b = (t.detach().numpy() if isinstance(t, ng.Tensor) else np.asarray(t) for t in (a, b))
    assert a.shape == b.shape, (a.shape, b.shape)
    assert a.size == 0 or np.abs(a - b).max() <= tol * (1 + np.abs(b).max()), np.abs(a - b).max()
    return True
