"""Comparisons of derivatives by nbgrad.njit with those of the oracle."""

from __future__ import annotations

import linecache

import numba
import numpy as np
import oracle

import nbgrad as ng


def compiled(text: str, **names):
    """The @njit function ``f`` of a text, with a source that inspect finds."""
    name = f"<text {abs(hash((text, *map(id, names.values())))):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np, **names}
    exec(compile(text, name, "exec"), namespace)
    return numba.njit(namespace["f"])


def assert_trees_close(got, expected, rtol, what):
    """Two nests of numbers and arrays agree; the scale is the largest number among them."""
    got, expected = oracle.flat_output(got), oracle.flat_output(expected)
    got, expected = numbers(got), numbers(expected)
    assert len(got) == len(expected), (what, got, expected)
    scale = max([1.0, *(abs(x) for x in expected)])
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * scale, err_msg=what)


def numbers(flat):
    return np.array([n for x in flat for n in (oracle.items_of(np.asarray(x)[()]))])


def contraction_of(gradient: str, example, weights: str) -> str:
    """The text of Re<weights, gradient> for a nest of numbers and arrays like the example."""
    if isinstance(example, tuple):
        parts = [
            contraction_of(f"{gradient}[{i}]", e, f"{weights}[{i}]") for i, e in enumerate(example)
        ]
        return " + ".join(parts)
    if isinstance(example, np.ndarray) and example.dtype.names:
        names = [n for n in example.dtype.names if example.dtype[n].kind in "fc"]
        fields = [(f"{gradient}[{n!r}]", example[n], f"{weights}[{n!r}]") for n in names]
        return " + ".join(contraction_of(*field) for field in fields)
    product = f"{gradient} * {weights}"
    if np.iscomplexobj(example):
        product = f"(np.conj({gradient}) * {weights}).real"
    return f"({product}).sum()" if isinstance(example, np.ndarray) else product


class SecondOrder:
    """The three ways to a Hessian-vector product of a function of these arguments."""

    def __init__(self, function, args, argnums, run=lambda derivative, *args: derivative(*args)):
        self.run = run
        self.function, self.args, self.argnums = function, args, argnums
        self.names = ", ".join(f"x{i}" for i in range(len(args)))
        nums = oracle.nums(argnums)
        self.example = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in nums)

    def forward_over_reverse(self, tangents):
        gradient = ng.njit.grad(self.function, self.argnums)
        return self.run(ng.njit.jvp(gradient, self.argnums), self.args, tangents)[1]

    def reverse_over_reverse(self, tangents):
        text = f"def f({self.names}, w):\n    g = gradient({self.names})\n"
        text += f"    return {contraction_of('g', self.example, 'w')}\n"
        slope = compiled(text, gradient=ng.njit.grad(self.function, self.argnums))
        return self.run(ng.njit.grad(slope, self.argnums), *self.args, tangents)

    def reverse_over_forward(self, tangents):
        text = f"def f({self.names}, w):\n    return tangent(({self.names},), w)[1]\n"
        slope = compiled(text, tangent=ng.njit.jvp(self.function, self.argnums))
        return self.run(ng.njit.grad(slope, self.argnums), *self.args, tangents)
