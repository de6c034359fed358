"""ng.func on pytrees: arguments, auxiliary outputs, shapes, options and errors."""

from typing import NamedTuple

import numpy as np
import pytest

import nbgrad as ng
from nbgrad.errors import ArgumentError, DTypeError, ShapeError

F = ng.func


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.detach()), b, rtol=1e-12, atol=1e-14)


class Layer(NamedTuple):
    weight: ng.Tensor
    bias: ng.Tensor


def test_gradients_have_the_structure_of_the_arguments():
    params = {"a": ng.tensor([1.0, 2.0]), "b": [ng.tensor(3.0), (ng.tensor([[4.0]]), None)]}
    g = F.grad(lambda p: (p["a"] ** 2).sum() * p["b"][0] + p["b"][1][0].sum())(params)
    close(g["a"], [6.0, 12.0])
    close(g["b"][0], 5.0)
    close(g["b"][1][0], [[1.0]])
    assert g["b"][1][1] is None
    layer = F.grad(lambda layer: (layer.weight * 2 + layer.bias).sum())(
        Layer(ng.ones(2), ng.ones(2))
    )
    assert isinstance(layer, Layer)
    close(layer.weight, [2.0, 2.0])


def test_argnums_and_keywords():
    f = lambda x, y, *, k=1.0: (x * y * k).sum()
    x, y = ng.tensor([1.0, 2.0]), ng.tensor([3.0, 4.0])
    close(F.grad(f)(x, y), [3.0, 4.0])
    close(F.grad(f, 1)(x, y, k=10.0), [10.0, 20.0])
    close(F.grad(f, -1)(x, y), [1.0, 2.0])
    gx, gy = F.grad(f, (0, 1))(x, y)
    close(gx, [3.0, 4.0])
    close(gy, [1.0, 2.0])
    assert isinstance(F.grad(f, (1,))(x, y), tuple)
    for bad in (2, (0, 5), (0, 0), -3):
        with pytest.raises(ArgumentError, match="argnums"):
            F.grad(f, bad)(x, y)


def test_numpy_arrays_and_numbers_are_taken_as_they_are():
    close(F.grad(lambda x: (x**2).sum())(np.array([1.0, 2.0])), [2.0, 4.0])
    close(F.grad(lambda x: x**3)(2.0), 12.0)
    assert F.grad(lambda x: (x**2).sum())(np.ones(2, np.float32)).dtype == ng.float32


def test_values_with_gradients_and_auxiliary_outputs():
    f = lambda x: (x**2).sum()
    h = lambda x: ((x**2).sum(), {"double": x * 2, "n": 3})
    x = ng.tensor([1.0, 2.0])
    v, g = F.value_and_grad(f)(x)
    assert float(v) == 5.0 and not v.requires_grad
    close(g, [2.0, 4.0])
    g, v = F.grad_and_value(f)(x)
    assert float(v) == 5.0
    (v, aux), g = F.value_and_grad(h, has_aux=True)(x)
    close(aux["double"], [2.0, 4.0])
    assert aux["n"] == 3 and not aux["double"].requires_grad
    g, aux = F.grad(h, has_aux=True)(x)
    g, (v, aux) = F.grad_and_value(h, has_aux=True)(x)
    _, pull, aux = F.vjp(h, x, has_aux=True)
    close(pull(ng.tensor(2.0))[0], [4.0, 8.0])
    _, t, aux = F.jvp(h, (x,), (x,), has_aux=True)
    assert float(t) == 10.0
    close(aux["double"], [2.0, 4.0])
    (aux["double"] * 2).sum()  # it may be used
    for jac in (F.jacrev, F.jacfwd):
        j, aux = jac(lambda x: (x**2, x * 2), has_aux=True)(x)
        close(j, np.diag([2.0, 4.0]))
        close(aux * 1, [2.0, 4.0])
    with pytest.raises(ArgumentError, match="has_aux"):
        F.grad(f, has_aux=True)(x)


def test_results_that_are_no_real_scalar():
    for f, error in (
        (lambda x: x * 2, ShapeError),
        (lambda x: (x.sum(), x.sum()), ShapeError),
        (lambda x: (x * 1j).sum(), DTypeError),
        (lambda x: (x > 0).sum(), DTypeError),
    ):
        with pytest.raises(error, match=r"func\.grad.*scalar"):
            F.grad(f)(ng.ones(2))


def test_vjp_of_trees():
    f = lambda a, p: {"s": a * p["w"], "t": (a.sum(),)}
    a, w = ng.tensor([1.0, 2.0]), ng.tensor([3.0, 4.0])
    _, pull = F.vjp(f, a, {"w": w})
    cot = {"s": ng.tensor([1.0, 10.0]), "t": (ng.tensor(100.0),)}
    ga, gp = pull(cot)
    close(ga, [103.0, 140.0])
    close(gp["w"], [1.0, 20.0])
    close(pull(cot)[0], [103.0, 140.0])  # as often as wanted
    with pytest.raises(ArgumentError, match="structure"):
        pull((ng.ones(2), ng.ones(())))
    with pytest.raises(ShapeError, match="cotangent"):
        pull({"s": ng.ones(3), "t": (ng.ones(()),)})
    _, pull = F.vjp(lambda x: (x, x * 2), a)
    close(pull((ng.ones(2), ng.ones(2)))[0], [3.0, 3.0])
    close(pull(ng.ones(2), ng.ones(2))[0], [3.0, 3.0])  # as separate arguments, too


def test_jvp_of_trees():
    f = lambda p, y: [p["x"] * y, y]
    _, dots = F.jvp(f, ({"x": ng.ones(2)}, ng.ones(2) * 3), ({"x": ng.ones(2)}, ng.ones(2)))
    close(dots[0], [4.0, 4.0])
    with pytest.raises(ArgumentError, match="structure"):
        F.jvp(f, ({"x": ng.ones(2)}, ng.ones(2)), (ng.ones(2), ng.ones(2)))
    with pytest.raises(ShapeError, match="tangent"):
        F.jvp(ng.sin, (ng.ones(2),), (ng.ones(3),))
    with pytest.raises(ArgumentError, match="tuples"):
        F.jvp(ng.sin, ng.ones(2), ng.ones(2))
    _, dot = F.jvp(lambda x: ng.ones(2), (ng.ones(2),), (ng.ones(2),))
    close(dot, [0.0, 0.0])


def test_jacobians_of_trees():
    f = lambda x, y: {"p": x[:, None] * y, "q": x.sum()}
    x, y = ng.tensor([1.0, 2.0]), ng.tensor([3.0, 4.0, 5.0])
    for jac in (F.jacrev, F.jacfwd):
        j = jac(f)(x, y)
        assert tuple(j["p"].shape) == (2, 3, 2) and tuple(j["q"].shape) == (2,)
        close(j["p"][:, :, 0], [[3.0, 4.0, 5.0], [0.0, 0.0, 0.0]])
        j = jac(f, (0, 1))(x, y)
        assert [tuple(t.shape) for t in j["p"]] == [(2, 3, 2), (2, 3, 3)]
        close(j["q"][1], np.zeros(3))
        j = jac(f, chunk_size=2)(x, y)
        close(j["p"][:, :, 1], [[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]])
        assert tuple(jac(lambda x: x**2)(ng.zeros(0, 2)).shape) == (0, 2, 0, 2)
        assert tuple(jac(lambda x: x**2)(ng.tensor(2.0)).shape) == ()
    h = F.hessian(lambda x, y: (x**2).sum() * y.sum(), (0, 1))(x, y)
    assert [[tuple(t.shape) for t in r] for r in h] == [[(2, 2), (2, 3)], [(3, 2), (3, 3)]]
    close(h[0][1], [[2.0] * 3, [4.0] * 3])


def test_hvp():
    f = lambda x, y: (x**2 * y).sum()
    x, y = ng.tensor([1.0, 2.0]), ng.tensor([3.0, 4.0])
    g, h = F.hvp(lambda x: f(x, y), (x,), (ng.ones(2),))
    close(g, [6.0, 16.0])
    close(h, [6.0, 8.0])
    _, (hx, hy) = F.hvp(f, (x, y), (ng.ones(2), ng.ones(2)))
    close(hx, [6.0 + 2.0, 8.0 + 4.0])
    close(hy, [2.0, 4.0])
    with pytest.raises(ArgumentError, match="tuples"):
        F.hvp(f, x, y)


def test_linearize_runs_the_function_once():
    calls = []

    def f(x, p):
        calls.append(1)
        return {"y": ng.sin(x) * p["w"]}

    x, w = ng.tensor([0.3, 0.7]), ng.tensor([2.0, 3.0])
    out, push = F.linearize(f, x, {"w": w})
    close(out["y"], np.sin([0.3, 0.7]) * [2.0, 3.0])
    for tx, tw in (([1.0, 0.0], [0.0, 0.0]), ([0.0, 2.0], [1.0, 1.0])):
        got = push(ng.tensor(tx), {"w": ng.tensor(tw)})["y"]
        close(got, np.cos([0.3, 0.7]) * [2.0, 3.0] * tx + np.sin([0.3, 0.7]) * tw)
    assert len(calls) == 1
    with pytest.raises(ArgumentError, match="structure"):
        push(ng.ones(2))
    # differentiable with respect to the point and the tangents
    g = F.grad(lambda x: F.linearize(lambda x: x**3, x)[1](ng.ones(2)).sum())(x)
    close(g, 6 * np.array([0.3, 0.7]))


def test_jet():
    x = ng.tensor(0.3)
    one, zero = ng.tensor(1.0), ng.tensor(0.0)
    _, d = F.jet(lambda x: x.exp(), (x,), ([one, zero, zero, zero],))
    for c in d:
        assert float(c) == pytest.approx(np.exp(0.3))
    # along a curve, and for several arguments and outputs
    f = lambda x, y: (x * y, x + y)
    _, (p, s) = F.jet(f, (x, x), ([one, one], [one, zero]))
    assert [float(c) for c in p] == pytest.approx([0.6, 0.3 + 2.0])
    assert [float(c) for c in s] == pytest.approx([2.0, 1.0])
    with pytest.raises(ArgumentError, match="series"):
        F.jet(f, (x, x), ([one],))


# -- vmap ----------------------------------------------------------------------------------------


def test_vmap_dimensions():
    x = ng.tensor(np.arange(6.0).reshape(2, 3))
    close(F.vmap(lambda r: r.sum())(x), [3.0, 12.0])
    close(F.vmap(lambda r: r.sum(), in_dims=1)(x), [3.0, 5.0, 7.0])
    close(F.vmap(lambda r: r.sum(), in_dims=-1)(x), [3.0, 5.0, 7.0])
    close(F.vmap(lambda r: r * 2, out_dims=1)(x), 2 * x.numpy().T)
    close(F.vmap(lambda r: r * 2, out_dims=-1)(x), 2 * x.numpy().T)
    close(F.vmap(lambda r, s: r * s, (0, None))(x, ng.tensor(10.0)), 10 * x.numpy())
    a, b = F.vmap(lambda r: (r, r.sum()), out_dims=(1, 0))(x)
    close(a, x.numpy().T)
    close(b, [3.0, 12.0])
    out = F.vmap(lambda p: {"s": p["x"] + p["k"]}, ({"x": 0, "k": None},))({"x": x, "k": 1})
    close(out["s"], x.numpy() + 1)
    close(F.vmap(lambda r: ng.ones(2))(x), np.ones((2, 2)))
    close(F.vmap(lambda r: ng.ones(2), out_dims=None)(x), np.ones(2))
    close(
        F.vmap(F.vmap(lambda v, w: v * w, (0, None)), (None, 0))(x[0], x[1]), np.outer(x[1], x[0])
    )


def test_vmap_chunks_and_empty_batches():
    x = ng.tensor(np.arange(10.0).reshape(5, 2))
    sizes = []

    def f(r):
        sizes.append(1)
        return r.sin(), r.sum()

    a, b = F.vmap(f, chunk_size=2, out_dims=(1, 0))(x)
    assert len(sizes) == 3
    close(a, np.sin(x.numpy()).T)
    close(b, x.numpy().sum(1))
    close(F.vmap(lambda r: r.sin(), in_dims=1, chunk_size=1)(x), np.sin(x.numpy()).T)
    assert tuple(F.vmap(lambda r: r.sin())(ng.zeros(0, 2)).shape) == (0, 2)


def test_vmap_randomness():
    x = ng.zeros(4, 2)
    draw = lambda r: r + ng.rand(2)
    with pytest.raises(Exception, match="randomness"):
        F.vmap(draw)(x)
    same = F.vmap(draw, randomness="same")(x).numpy()
    assert (same == same[0]).all()
    different = F.vmap(draw, randomness="different")(x).numpy()
    assert len(np.unique(different)) == 8


def test_vmap_errors():
    x = ng.ones(2, 3)
    for call, error, text in [
        (lambda: F.vmap(ng.sin, 2)(x), ShapeError, "in_dims"),
        (lambda: F.vmap(ng.sin, None)(x), ShapeError, "batched"),
        (lambda: F.vmap(ng.add)(x, ng.ones(5)), ShapeError, "batch sizes"),
        (lambda: F.vmap(ng.sin, (0, 0))(x), ArgumentError, "in_dims"),
        (lambda: F.vmap(ng.sin, out_dims=3)(x), ShapeError, "out_dims"),
        (lambda: F.vmap(ng.sin, out_dims=(0, 0))(x), ArgumentError, "out_dims"),
        (lambda: F.vmap(ng.sin, out_dims=None)(x), ArgumentError, "out_dims"),
        (lambda: F.vmap(ng.sin, randomness="maybe"), ArgumentError, "randomness"),
        (lambda: F.vmap(ng.sin, chunk_size=0), ArgumentError, "chunk_size"),
        (lambda: F.vmap(lambda r: "text")(x), DTypeError, "vmap"),
        (lambda: F.vmap(lambda r: float(r.sum()))(x), RuntimeError, "not known inside func.vmap"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_transforms_keep_names_and_docs():
    def energy(x):
        """Half the square."""
        return (x * x).sum() / 2

    for t in (F.grad, F.value_and_grad, F.jacrev, F.jacfwd, F.vmap):
        assert t(energy).__name__ == "energy" and t(energy).__doc__ == "Half the square."
