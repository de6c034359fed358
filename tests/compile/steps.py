"""The steps of random programs: each function appends at most one step to a builder (`programs.Builder`).

Every family draws its operands and parameters from the builder, so a seed decides everything. Functions are smooth, or
piecewise smooth away from ties with probability one, and keep values of moderate size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nbgrad as ng

UNARY: dict[str, Callable] = {
    "tanh": ng.tanh,
    "sin": ng.sin,
    "gauss": lambda x: ng.exp(-x * x),
    "sigmoid": ng.sigmoid,
    "square": ng.square,
    "cube": lambda x: (0.5 * x) ** 3,
    "abs": ng.abs,
    "relu": ng.relu,
    "gelu": ng.gelu,
    "softsign": lambda x: x / (1.0 + ng.abs(x)),
    "sqrt": lambda x: ng.sqrt(x * x + 0.5),
    "log": lambda x: ng.log(x * x + 1.5),
    "power": lambda x: (x * x + 0.3) ** 0.75,
    "atan": ng.atan,
    "erf": ng.erf,
    "clamp": lambda x: ng.clamp(x, -0.7, 0.9),
    "neg": lambda x: -x,
    "detach": lambda x: x.detach() + x,
    "softplus": lambda x: ng.log1p(ng.exp(-ng.abs(x))),
    "reciprocal": lambda x: 1.0 / (2.0 + ng.cos(x)),
}
BINARY: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1.0),
    "max": ng.maximum,
    "min": ng.minimum,
    "where": lambda x, y: ng.where(x > y, x, 2.0 * y),
    "atan2": lambda x, y: ng.atan2(x, y * y + 1.0),
    "hypot": ng.hypot,
    "logaddexp": ng.logaddexp,
    "lerp": lambda x, y: ng.lerp(x, y, 0.3),
}


def unary(b: Any) -> None:
    """A smooth or piecewise smooth function."""
    name = b.pick(*UNARY)
    b.add(name, UNARY[name], b.value())


def binary(b: Any) -> None:
    """A function of two values that broadcast."""
    a = b.value()
    name = b.pick(*BINARY)
    b.add(name, BINARY[name], a, b.partner(a))


def ternary(b: Any) -> None:
    """Fused products, and choices by a third value."""
    a = b.value()
    name, fn = b.pick(
        ("addcmul", lambda x, y, z: ng.addcmul(x, y, z, value=0.5)),
        ("where3", lambda x, y, z: ng.where((x > 0) & (y < 0.5), y, z)),
        ("clamp3", lambda x, y, z: ng.clamp(x, -ng.abs(y), ng.abs(z))),
    )
    b.add(name, fn, a, b.partner(a), b.partner(a))


def product(b: Any) -> None:
    """Matrix products: with vectors, matrices and batches of them, and einsum."""
    a = b.value()
    shape = b.shape(a)
    if not shape:
        return
    k = shape[-1]
    scale = 1.0 / max(k, 1)
    partners = [j for j in b.floats() if b.shape(j) and b.shape(j)[-2:][0] == k]
    partners = [j for j in partners if broadcast(shape[:-2], b.shape(j)[:-2])]
    kind = b.pick("matmul", "matmul", "transposed", "gram", "outer")
    if kind == "matmul" and partners:
        b.add("matmul", lambda x, y: (x @ y) * scale, a, b.pick(*partners))
    elif kind == "transposed" and len(shape) > 1:
        others = [j for j in b.floats() if len(b.shape(j)) == 2 and b.shape(j)[-1] == k]
        b.add("x @ y.T", lambda x, y: (x @ y.transpose(0, 1)) * scale, a, b.pick(*others, a))
    elif kind == "gram" and len(shape) > 1:
        n = max(shape[-2], 1)
        b.add("x.T @ x", lambda x: (x.transpose(-1, -2) @ x) / n, a)
    elif kind == "outer" and len(shape) == 2:
        b.add("einsum ni,nj->ij", lambda x, y: ng.einsum("ni,nj->ij", x, y) * 0.1, a, b.like(a))


def reduction(b: Any) -> None:
    """Reductions over no, one or all axes."""
    a = b.value()
    rank = len(b.shape(a))
    if not rank:
        return
    dim = b.pick(None, *range(rank))
    keep = b.coin()
    name = b.pick("sum", "mean", "amax", "amin", "var", "std", "norm", "prod", "logsumexp")
    if name in ("var", "std"):
        shift = 0.1 if name == "std" else 0.0
        fn = lambda x: getattr(ng, name)(x + shift * x * x, dim, keepdim=keep, correction=0)
    elif name == "norm":
        fn = lambda x: ng.linalg.vector_norm(x + 2.0, dim=dim, keepdim=keep)
    elif name == "prod":
        if dim is None or b.shape(a)[dim] > 6:
            return
        fn = lambda x: ng.prod(x, dim, keepdim=keep)
    elif name == "logsumexp":
        if dim is None:
            return
        fn = lambda x: ng.logsumexp(x, dim, keepdim=keep)
    else:
        fn = lambda x: getattr(ng, name)(x, dim, keepdim=keep)
    b.add(f"{name}(dim={dim}, keepdim={keep})", fn, a)


def along(b: Any) -> None:
    """Functions along one axis."""
    a = b.value()
    rank = len(b.shape(a))
    if rank:
        d = b.number(rank)
        name, fn = b.pick(
            ("softmax", lambda x: ng.softmax(x, d)),
            ("log_softmax", lambda x: ng.log_softmax(x, d)),
            ("cumsum", lambda x: ng.cumsum(x, d) * 0.1),
            ("diff", lambda x: ng.diff(x, dim=d)),
            ("sort", lambda x: ng.sort(x, d)[0]),
            ("cummax", lambda x: ng.cummax(x, d)[0]),
            ("centred", lambda x: x - x.mean(d, keepdim=True)),
            ("max values", lambda x: ng.max(x, d)[0]),
        )
        b.add(f"{name} along {d}", fn, a)


def move(b: Any) -> None:
    """Views, views of views and copies in another order."""
    a = b.value()
    shape = b.shape(a)
    if not shape:
        b.add("expand", lambda x: x.expand(3), a)
        return
    d, r = b.number(len(shape)), len(shape)
    n = shape[d]
    dims = tuple(int(i) for i in b.rng.permutation(r))
    lo, step = b.number(max(n, 1)), b.pick(1, 2, 3)
    key = (slice(None),) * d
    b.add(
        *b.pick(
            (f"permute{dims}", lambda x: x.permute(dims)),
            (f"slice[{d}, {lo}::{step}]", lambda x: x[(*key, slice(lo, None, step))]),
            (f"slice[{d}, :{lo}:{step}]", lambda x: x[(*key, slice(None, lo + 1, step))]),
            (f"flip({d})", lambda x: ng.flip(x, (d,))),
            ("flatten", lambda x: x.reshape(-1)),
            (f"permute{dims}.flatten", lambda x: x.permute(dims).reshape(-1)),
            (f"permute.slice.reshape of {d}", lambda x: x.permute(dims)[lo // 2 :].reshape(-1)),
            (f"unsqueeze({d})", lambda x: x.unsqueeze(d)),
            ("squeeze", lambda x: x.squeeze()),
            (f"cat({d})", lambda x: ng.cat([x, 2.0 * x], d)),
            (f"cat({d}) with a part", lambda x: ng.cat([x[(*key, slice(0, lo))], x], d)),
            (f"stack({d})", lambda x: ng.stack([x, -x], d)),
            (f"pick[{lo}] of {d}", lambda x: x[(*key, lo)]),
            (f"roll({d})", lambda x: ng.roll(x, 1, d)),
            (f"pad({d})", lambda x: ng.pad(x, (0, 0) * (r - 1 - d) + (1, 2))),
            (f"crop and pad({d})", lambda x: ng.pad(x[(*key, slice(1, None))], (1, 0))),
            ("tile", lambda x: ng.tile(x, (2,) + (1,) * (r - 1))),
            (f"expand in front ({n})", lambda x: x.expand(2, *shape)),
            ("tril", lambda x: ng.tril(x)),
            ("diagonal", lambda x: ng.diagonal(x, 0, -2, -1)),
            ("halves", lambda x: (lambda p: p[0] * 2.0 + p[-1].sum())(ng.chunk(x, 2, d))),
            ("neighbours", lambda x: x[1:] * x[:-1]),
        ),
        a,
    )


def lookup(b: Any) -> None:
    """Gathers and scatters by constant, given and computed indices."""
    a = b.value()
    shape = b.shape(a)
    if not shape or 0 in shape:
        return
    d = b.number(len(shape))
    n = shape[d]
    picks = b.rng.integers(0, n, 4)
    rows = b.rng.integers(-shape[0], shape[0], 5)
    many = b.rng.integers(0, n, (*shape[:d], 3, *shape[d + 1 :]))
    key = (slice(None),) * d
    b.add(
        *b.pick(
            (f"index_select({d})", lambda x: ng.index_select(x, d, ng.tensor(picks))),
            (f"x[..., picks] of {d}", lambda x: x[(*key, ng.tensor(picks))]),
            ("x[rows]", lambda x: x[ng.tensor(rows)]),
            ("x[rows, 0]", lambda x: x[ng.tensor(rows)].reshape(len(rows), -1)[:, 0]),
            (f"gather({d})", lambda x: ng.gather(x, d, ng.tensor(many))),
            (f"by argsort({d})", lambda x: ng.take_along_dim(x, ng.argsort(x, d), d)),
            (f"by argmax({d})", lambda x: ng.gather(x, d, ng.argmax(x, d, keepdim=True))),
            (
                f"index_add({d})",
                lambda x: ng.index_add(
                    x, d, ng.tensor(picks), ng.index_select(x, d, ng.tensor(picks))
                ),
            ),
            (
                f"scatter_add({d})",
                lambda x: ng.scatter_add(
                    x, d, ng.tensor(many), ng.gather(x, d, ng.tensor(many)) * 0.5
                ),
            ),
            ("boolean mask by where", lambda x: ng.where(x > 0.1, x, ng.zeros_like(x)).sum(d)),
        ),
        a,
    )


def whole(b: Any) -> None:
    """Integers and bools on the way."""
    a = b.value()
    kind = b.dtype
    name, fn = b.pick(
        ("mask", lambda x, y: (x > y).to(kind) * x),
        ("masked_fill", lambda x, y: ng.masked_fill(x, (y > 0.3) | (x < -1.0), 0.25)),
        ("not", lambda x, y: ng.where(~(x < y), x, y * y)),
        ("floor to int", lambda x, y: (ng.floor(2.0 * x).to(ng.int64) * 3 - 1).to(kind) * y),
        ("int remainder", lambda x, y: (ng.floor(5.0 * x).to(ng.int64) % 3).to(kind) + y),
        ("int division", lambda x, y: (ng.floor(9.0 * x).to(ng.int32) // 2).to(kind) * 0.1 + y),
        ("count", lambda x, y: (x > y).sum() * 0.01 + x),
        ("any, all", lambda x, y: ng.where((x > 0).any(), y, x) + (y < 9.0).all().to(kind)),
        ("sign", lambda x, y: ng.sign(x) * y),
        ("isfinite", lambda x, y: ng.where(ng.isfinite(x), x, 0.0) + y),
    )
    b.add(name, fn, a, b.partner(a))


def complex_(b: Any) -> None:
    """Complex values on the way."""
    a = b.value()
    name, fn = b.pick(
        ("complex modulus", lambda x, y: ng.abs(ng.complex(x, y) + 3.0)),
        ("complex product", lambda x, y: (ng.complex(x, y) * ng.complex(y, -x + 1.0)).real),
        ("complex exp", lambda x, y: ng.exp(ng.complex(0.1 * x, y)).imag),
        ("conj", lambda x, y: (ng.complex(x, y).conj() * (1.0 - 2.0j)).sum(-1).real),
    )
    b.add(name, fn, a, b.like(a))


def inplace(b: Any) -> None:
    """Writes to clones, through views of views and with indices."""
    a = b.value()
    shape = b.shape(a)
    if not shape:
        return
    d, r = b.number(len(shape)), len(shape)
    lo = b.number(max(shape[d], 1))
    key = (*(slice(None),) * d, slice(lo, None))
    rows = b.rng.permutation(max(shape[0], 1))[:3]
    b.add(
        *b.pick(
            (f"y[{d}, {lo}:] *= 2", lambda x, z: _on_clone(x, lambda y: y[key].mul_(2.0))),
            ("y += z", lambda x, z: _on_clone(x, lambda y: y.add_(z))),
            ("y[0] = z[-1]", lambda x, z: _on_clone(x, lambda y: y[0].copy_(z[-1]))),
            ("y.T[lo:].T *= y", lambda x, z: _on_clone(x, lambda y: _through(y, lo % r, z))),
            ("y[rows] = 0.5 z", lambda x, z: _put(x, rows, z)),
            ("masked", lambda x, z: _on_clone(x, lambda y: y.masked_fill_(z > 0, 0.5))),
            ("filled buffer", lambda x, z: _fill(x, z, key)),
            ("relu_ of a view", lambda x, z: _on_clone(x, lambda y: y[key].relu_())),
            ("overlap", lambda x, z: _on_clone(x, lambda y: y[1:].add_(y[:-1].clone()))),
            ("read, then write", lambda x, z: _read_then_write(x, z)),
        ),
        a,
        b.like(a),
    )


def _on_clone(x: Any, write: Callable) -> Any:
    y = x.clone()
    write(y)
    return y


def _through(y: Any, dim: int, z: Any) -> None:
    view = y.movedim(dim, 0)[1:]
    inner = view.movedim(0, -1)
    inner *= z.movedim(dim, 0)[1:].movedim(0, -1)
    view[:1].tanh_()


def _put(x: Any, rows: np.ndarray, z: Any) -> Any:
    y = x.clone()
    y[ng.tensor(rows)] = 0.5 * z[ng.tensor(rows)]
    return y


def _fill(x: Any, z: Any, key: tuple) -> Any:
    y = ng.zeros(tuple(x.shape), dtype=x.dtype)
    y[key] = x[key]
    y += 0.5 * z
    return y


def _read_then_write(x: Any, z: Any) -> Any:
    y = x.clone()
    before = y + 2.0 * z
    view = y[:1]
    y.mul_(0.5)
    return before + y + view


def control(b: Any) -> None:
    """Loops and branches as operators."""
    a = b.value()
    shape = b.shape(a)
    name, fn = b.pick(
        ("fori_loop", lambda x, y: ng.fori_loop(0, 3, lambda i, c: ng.sin(c) + 0.3 * y, x)),
        (
            "cond",
            lambda x, y: ng.cond(x.sum() > y.sum(), lambda u, v: u * v, lambda u, v: u - v, x, y),
        ),
        ("while_loop", _while),
        ("switch", lambda x, y: ng.switch((x.sum() > 0).to(ng.int64), [ng.sin, ng.square], x) * y),
        ("scan", _scan if shape and shape[0] < 40 else _while),
    )
    b.add(name, fn, a, b.like(a))


def _scan(x: Any, y: Any) -> Any:
    def step(carry: Any, row: tuple) -> tuple:
        u, v = row
        carry = ng.tanh(0.8 * carry + u)
        return carry, carry * v

    last, rows = ng.scan(step, 0.0 * x[0], (x, y))
    return rows + last


def _while(x: Any, y: Any) -> Any:
    def body(carry: tuple) -> tuple:
        u, k = carry
        return 0.5 * u + 0.1 * y, k + 1

    def going(carry: tuple) -> Any:
        return (carry[1] < 4) & (ng.abs(carry[0]).sum() > 0.05)

    return ng.while_loop(going, body, (x, ng.tensor(0)), max_steps=5)[0]


def linear_algebra(b: Any) -> None:
    """Factorisations of well-conditioned matrices."""
    a = b.value()
    shape = b.shape(a)
    if len(shape) < 2 or shape[-1] > 5:
        return
    spd = lambda x: x.transpose(-1, -2) @ x / max(shape[-2], 1) + ng.eye(shape[-1], dtype=x.dtype)
    b.add(
        *b.pick(
            ("inv", lambda x: ng.linalg.inv(spd(x))),
            ("solve", lambda x: ng.linalg.solve(spd(x), x.transpose(-1, -2)[..., :1])),
            ("logdet", lambda x: ng.logdet(spd(x))),
            ("cholesky", lambda x: ng.linalg.cholesky(spd(x))),
        ),
        a,
    )


def broadcast(a: tuple, b: tuple) -> bool:
    """Whether two shapes broadcast."""
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


FAMILIES: list[tuple[Callable, int]] = [
    (unary, 8),
    (binary, 10),
    (ternary, 2),
    (product, 6),
    (reduction, 6),
    (along, 3),
    (move, 8),
    (lookup, 3),
    (whole, 3),
    (complex_, 1),
    (inplace, 3),
    (control, 1),
    (linear_algebra, 1),
]
