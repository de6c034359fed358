"""Fields that couple their points are refused, others are not, and both are found out cheaply."""

import numpy as np
import pytest
from known_fields import METHODS, close, mlp, network, points, scalar, sines

import nbgrad as ng
from nbgrad import pde
from nbgrad.pde import batch_axes, coupling
from nbgrad.pde.batch_axes import blocks

W = ng.tensor(np.random.default_rng(0).normal(size=(5, 5)))
COUPLED = {
    "mean over points": lambda x: x[:, 0] * x.mean(),
    "batch normalisation": lambda x: ((x - x.mean(0)) / x.std(0)).sum(-1),
    "softmax over points": lambda x: ng.softmax(x, 0)[:, 0],
    "attention": lambda x: (ng.softmax(x @ x.T, -1) @ x)[:, 0],
    "mixing matrix": lambda x: (W @ x)[:, 0],
    "all pairs": lambda x: ng.exp(-((x[:, None, 0] - x[None, :, 0]) ** 2)).sum(-1),
    "running sum": lambda x: ng.cumsum(x, 0)[:, 1],
    "the largest": lambda x: x[:, 0] * x.amax(0)[1],
    "neighbours": lambda x: ng.roll(x[:, 0], 1, 0),
    "reversed": lambda x: x.flip(0)[:, 0],
    "sorted": lambda x: ng.sort(x[:, 0])[0],
    "gathered": lambda x: x[[1, 0, 2, 3, 4]][:, 0],
    "determinant over points": lambda x: x[:, 0] * ng.linalg.det(x.T @ x),
    "flattened": lambda x: x.reshape(15)[:5] * 1.0,
    "reads a value": lambda x: x[:, 0] * (1.0 + x[0, 0].item()),
}
FREE = {
    "network": lambda x: mlp(x, network())[:, 1],
    "norm of a point": lambda x: x / x.norm(dim=-1, keepdim=True),
    "softmax of a point": lambda x: ng.softmax(x, -1),
    "batched determinant": lambda x: ng.linalg.det(x[:, :, None] * x[:, None, :] + ng.eye(3)),
    "one-point function": ng.func.vmap(lambda y: ng.tanh(W[:3, :3] @ y) @ y),
    "transposed and back": lambda x: ng.tanh(x.T).T,
    "outer product of a point": lambda x: (x[:, :, None] * x[:, None, :]).sum((1, 2)),
    "einsum": lambda x: ng.einsum("ni,ij,nj->n", x, W[:3, :3], x),
    "constant weights a point": lambda x: x[:, 0] * ng.tensor(np.arange(5.0)),
    "flipped twice": lambda x: ng.sin(x.flip(0)).flip(0)[:, 0],
    "frozen statistics": lambda x: ((x - x.mean(0).detach()) / x.std(0).detach()).sum(-1),
    "split and joined": lambda x: ng.cat([x[:2], x[2:]], 0)[:, 0],
    "a branch on its own coordinates": lambda x: ng.where(x[:, 0] > 0, x[:, 1], x[:, 2] ** 2),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    coupling._known.clear()


@pytest.mark.parametrize("name", COUPLED)
def test_coupled_fields_are_refused(name):
    with pytest.raises(pde.CouplingError, match=r"laplacian: the field .* couples its points") as e:
        pde.laplacian(COUPLED[name])(points())
    assert "coupled='allow'" in str(e.value) and "detach()" in str(e.value)


@pytest.mark.parametrize("name", FREE)
def test_uncoupled_fields_pass_and_match_the_one_point_derivative(name):
    f, x = FREE[name], points()
    got = pde.gradient(f)(x)
    J = ng.func.jacrev(f)(x).numpy()
    assert close(got, np.stack([J[i][..., i, :] for i in range(5)]))


def test_the_message_names_the_operation_and_the_operator():
    with pytest.raises(pde.CouplingError, match=r"divergence: .*through 'sum'"):
        pde.divergence(lambda x: x * x.mean(0))(points())
    with pytest.raises(pde.CouplingError, match="probe"):
        pde.gradient(COUPLED["gathered"])(points())


def test_allowed_coupling_gives_sums_over_points():
    def f(x):
        return x[:, 0] * x.mean(0)[0]

    x = points()
    J = ng.func.jacrev(f)(x)[..., 0]
    forward = pde.partial(f, (0,), coupled="allow", method="collapsed")(x)
    reverse = pde.partial(f, (0,), coupled="allow", method="nested")(x)
    assert close(forward, J.sum(1)) and close(reverse, J.sum(0))


def test_axes_of_a_grid_are_followed_separately():
    def rows(x):  # x: (2, 4, 3); couples along the second axis only
        return x[..., 0] - x[..., 0].mean(1, keepdim=True)

    with pytest.raises(pde.CouplingError):
        pde.gradient(rows)(points(8).reshape(2, 4, 3))
    one = pde.gradient(rows, coupled="error")(points(8).reshape(8, 1, 3))  # no second point there
    assert close(one, np.zeros((8, 1, 3)))


def test_separate_coordinates_are_checked_too():
    x, t = points(5, 2).unbind(-1)
    with pytest.raises(pde.CouplingError):
        pde.partial(lambda x, t: x * t.sum(), (0,), argnums=(0, 1))(x, t)
    assert close(pde.partial(lambda x, t: x * t, (0,), argnums=(0, 1))(x, t), t)
    # the columns of separate coordinates: an axis of size one is no axis of points
    got = pde.partial(lambda x, t: (x @ W[:1]).sum(-1) * t[:, 0], (0,), argnums=(0, 1))
    assert close(got(x[:, None], t[:, None]), W[0].sum() * t)


def test_a_single_point_cannot_couple():
    assert close(pde.gradient(lambda x: x.sum())(points()[0]), np.ones(3))
    per_point = ng.func.vmap(pde.gradient(lambda x: (x * x).sum()))
    assert close(per_point(points()), 2 * points())


def test_coupling_is_found_inside_traces_and_without_gradients():
    with pytest.raises(pde.CouplingError):
        ng.trace(pde.laplacian(COUPLED["mean over points"]))(points())
    with pytest.raises(pde.CouplingError), ng.no_grad():
        pde.laplacian(COUPLED["batch normalisation"])(points())
    with pytest.raises(pde.CouplingError, match="probe"):
        ng.trace(pde.laplacian(COUPLED["gathered"]))(points())


def test_the_check_runs_once_a_signature():
    calls = np.zeros(1, int)

    def u(x, p):
        calls[0] += 1
        return scalar(x, p)

    op = pde.gradient(u)
    op(points(), network())
    assert calls[0] == 2  # the check and the evaluation
    op(points(seed=3), network(seed=3))
    assert calls[0] == 3
    op(points(6), network())
    assert calls[0] == 5  # other shapes are another signature


def test_what_the_field_reads_is_part_of_the_signature():
    class Model:
        training = False

        def __call__(self, x):
            return sines(x - x.mean(0)) if self.training else sines(x)

    model = Model()
    op = pde.laplacian(lambda x: model(x))
    assert close(op(points()), -3 * sines(points()))
    model.training = True
    with pytest.raises(pde.CouplingError):
        op(points())

    def make(normalise):
        return lambda x: sines(x - x.mean(0)) if normalise else sines(x)

    pde.laplacian(make(False))(points())
    with pytest.raises(pde.CouplingError):
        pde.laplacian(make(True))(points())


def test_the_check_draws_no_random_numbers_from_the_users_stream():
    def u(x):
        return sines(x) * ng.rand(5)

    ng.manual_seed(1)
    first = pde.laplacian(u)(points())
    ng.manual_seed(1)
    assert close(pde.laplacian(u)(points()), first)


@pytest.mark.parametrize("method", METHODS)
def test_random_fields_are_evaluated_with_one_draw(method):
    def u(x):
        return sines(x) * ng.rand(5)

    ng.manual_seed(3)
    scale = ng.rand(5)
    ng.manual_seed(3)
    assert close(
        pde.hessian(u, method=method)(points()), scale[:, None, None] * pde.hessian(sines)(points())
    )


def test_runs_of_axes_with_equal_products():
    assert blocks((2, 3, 4), (6, 4)) == [([0, 1], [0]), ([2], [1])]
    assert blocks((6,), (2, 3)) == [([0], [0, 1])]
    assert blocks((5, 3), (5, 1, 3)) == [([0], [0]), ([1], [1, 2])]
    assert blocks((5, 1), (5,)) == [([0], [0]), ([1], [])]
    assert blocks((), ()) == []


def test_an_unknown_operation_alone_gives_no_verdict():
    tape = ng.trace(lambda x: x.sort(0)[0])(points())
    labels = (frozenset({0}), frozenset())
    assert batch_axes.follow(tape, [labels], [labels]).kind == "unknown"
