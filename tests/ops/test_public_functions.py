"""Public functions that are built from operators: derivatives to second order, tape and vmap, one row each.

The operators themselves go through `test_registry`. A public function that is neither an operator, nor listed here, nor
known to have integer or bool results fails `test_every_public_function_is_covered`.
"""

import numpy as np
import pytest

import nbgrad as ng
from nbgrad import testing as nt
from nbgrad.op import REGISTRY
from nbgrad.op.public import PUBLIC

F = ng.nn.functional
LA = ng.linalg


def x(*shape, seed=0):
    """Well separated values away from 0 and +-1, so that differences never cross a kink or swap an order."""
    n = int(np.prod(shape))
    values = np.linspace(-1.8, 1.9, n) if n > 1 else np.full(n, 0.7)
    return np.random.default_rng(seed).permutation(values).reshape(shape)


def pos(*shape, seed=0):
    """Well separated positive values."""
    return (
        np.abs(x(*shape, seed=seed)) / 2
        + 0.4
        + 0.05 * np.arange(int(np.prod(shape))).reshape(shape)
    )


def unit(*shape, seed=0):
    """Values inside (-1, 1)."""
    return x(*shape, seed=seed) / 2.2


def spd(n=3, seed=0):
    """A symmetric positive definite matrix."""
    m = x(n, n, seed=seed)
    return m @ m.T + 2 * np.eye(n)


def general(n=3):
    """A well-conditioned matrix without symmetry."""
    return x(n, n) / 3 + 2 * np.diag(np.arange(1.0, n + 1))


A, B, C = x(2, 3), x(2, 3, seed=1), x(2, 3, seed=2)
V, I2 = x(4), np.array([[1, 0], [0, 1]])
M, N, SQ = x(2, 3), x(3, 4, seed=1), x(3, 3)
MASK = np.array([[True, False, True], [False, True, True]])

ROWS = {
    # arithmetic and activations
    "radians": (ng.radians, A), "degrees": (ng.degrees, A), "positive": (ng.positive, A),
    "rsub": (lambda a, b: ng.rsub(a, b, alpha=0.5), A, B),
    "add": (lambda a, b: ng.add(a, b, alpha=0.5), A, B),
    "sub": (lambda a, b: ng.sub(a, b, alpha=0.5), A, B),
    "multiply": (ng.multiply, A, B), "negative": (ng.negative, A),
    "div": (ng.div, A, pos(2, 3)), "true_divide": (ng.true_divide, A, pos(2, 3)),
    "lerp": (lambda a, b: ng.lerp(a, b, 0.3), A, B),
    "addcmul": (lambda a, b, c: ng.addcmul(a, b, c, value=0.5), A, B, C),
    "addcdiv": (lambda a, b, c: ng.addcdiv(a, b, c, value=0.5), A, B, pos(2, 3)),
    "pow": (ng.pow, pos(2, 3), B), "float_power": (ng.float_power, pos(2, 3), B),
    "clamp": (lambda a: ng.clamp(a, -0.9, 1.3), A),
    "clamp by tensors": (ng.clamp, A, B - 3, C + 3),
    "arcsin": (ng.arcsin, unit(2, 3)), "arccos": (ng.arccos, unit(2, 3)),
    "arctan": (ng.arctan, A), "arctan2": (ng.arctan2, A, pos(2, 3)),
    "arcsinh": (ng.arcsinh, A), "arccosh": (ng.arccosh, pos(2, 3) + 1), "arctanh": (ng.arctanh, unit(2, 3)),
    "psi": (ng.psi, pos(2, 3)), "polygamma": (lambda a: ng.polygamma(1, a), pos(2, 3)),
    "leaky_relu": (lambda a: ng.leaky_relu(a, 0.2), A), "elu": (lambda a: ng.elu(a, 1.5), A),
    "softplus": (lambda a: ng.softplus(a, 2.0), A), "gelu": (ng.gelu, A),
    "gelu by tanh": (lambda a: ng.gelu(a, approximate="tanh"), A),
    "relu6": (ng.relu6, 4 * A), "hardtanh": (lambda a: ng.hardtanh(a, -0.9, 1.3), A),
    "absolute": (ng.absolute, A), "conjugate": (ng.conjugate, A + 1j * B),
    "polar": (ng.polar, pos(2, 3), A),
    "real": (lambda a, b: ng.real(ng.complex(a, b) ** 2), A, B),
    "imag": (lambda a, b: ng.imag(ng.complex(a, b) ** 2), A, B),
    "sign": (ng.sign, A), "fix": (ng.fix, A), "round": (ng.round, A),
    "remainder": (ng.remainder, 3 * A, pos(2, 3) + 4), "fmod": (ng.fmod, 3 * A, pos(2, 3) + 6),
    "nan_to_num": (ng.nan_to_num, A),
    # contractions
    "matmul": (ng.matmul, M, N), "mm": (ng.mm, M, N), "mv": (ng.mv, M, x(3, seed=3)),
    "bmm": (ng.bmm, x(2, 2, 3), x(2, 3, 2, seed=1)),
    "addmm": (lambda c, a, b: ng.addmm(c, a, b, beta=0.5, alpha=2.0), x(2, 4), M, N),
    "addmv": (ng.addmv, x(2), M, x(3, seed=3)), "addr": (ng.addr, x(2, 3), x(2), x(3)),
    "baddbmm": (ng.baddbmm, x(2, 2, 2), x(2, 2, 3), x(2, 3, 2, seed=1)),
    "addbmm": (ng.addbmm, x(2, 2), x(2, 2, 3), x(2, 3, 2, seed=1)),
    "vdot": (ng.vdot, V + 1j * V[::-1], 2j * V), "inner": (ng.inner, M, x(4, 3)),
    "dot": (ng.dot, V, x(4, seed=1)), "outer": (ng.outer, V, x(3)),
    "cross": (lambda a, b: ng.cross(a, b, dim=-1), M, B), "kron": (ng.kron, M, x(2, 2)),
    "tensordot": (lambda a, b: ng.tensordot(a, b, dims=1), M, N),
    "multi_dot": (lambda a, b, c: ng.multi_dot([a, b, c]), M, N, x(4, 2)),
    "bilinear": (lambda a, b, w: ng.einsum("ni,oij,nj->no", a, w, b), M, B, x(2, 3, 3)),
    "einsum": (lambda a, b: ng.einsum("ij,jk->ki", a, b), M, N),
    "trace": (ng.trace, SQ),
    # linear algebra
    "inv": (ng.inverse, general()), "pinv": (LA.pinv, x(3, 2)), "det": (ng.det, general()),
    "slogdet": (ng.slogdet, general()), "logdet": (ng.logdet, spd()),
    "cholesky": (lambda a: ng.cholesky((a + a.mT) / 2), spd()),
    "cholesky_solve": (lambda b, a: ng.cholesky_solve(b, LA.cholesky((a + a.mT) / 2)), x(3, 2), spd()),
    "cholesky_inverse": (lambda a: ng.cholesky_inverse(LA.cholesky((a + a.mT) / 2)), spd()),
    "matrix_power": (lambda a: ng.matrix_power(a, 3), general()),
    "matrix_power, negative": (lambda a: ng.matrix_power(a, -2), general()),
    "matrix_exp": (ng.matrix_exp, general() / 4),
    "solve": (LA.solve, general(), x(3, 2)),
    "solve_triangular": (lambda a, b: LA.solve_triangular(a, b, upper=True), general(), x(3, 2)),
    "eigh": (lambda a: LA.eigh((a + a.mT) / 2)[0], spd()), "svdvals": (LA.svdvals, x(3, 2)),
    "lu_solve": (lambda a, b: LA.lu_solve(*LA.lu_factor(a), b), general(), x(3, 2)),
    "lstsq": (lambda a, b: LA.lstsq(a, b)[0], x(4, 2), x(4, 2, seed=1)),
    "cond": (LA.cond, general()), "matrix_norm": (LA.matrix_norm, M), "vecdot": (LA.vecdot, A, B),
    "nuclear norm": (lambda a: LA.matrix_norm(a, "nuc"), M),
    # order and search
    "sort": (lambda a: ng.sort(a, dim=1)[0], A), "msort": (ng.msort, A),
    "topk": (lambda a: ng.topk(a, 2, dim=1)[0], A),
    "kthvalue": (lambda a: ng.kthvalue(a, 2, dim=1)[0], A),
    "median": (lambda a: ng.median(a, 1)[0], A), "median of all": (ng.median, x(5)),
    "nanmedian": (ng.nanmedian, x(5)), "quantile": (lambda a: ng.quantile(a, 0.3, dim=1), A),
    "quantile of q": (lambda a, q: ng.quantile(a, q, dim=1), A, np.array([0.2, 0.7])),
    "max": (lambda a: ng.max(a, 1)[0], A), "min": (lambda a: ng.min(a, 1)[0], A),
    "max of all": (ng.max, A), "aminmax": (lambda a: tuple(ng.aminmax(a)), A),
    "amax": (lambda a: ng.amax(a, 1), A), "amin": (lambda a: ng.amin(a, (0, 1)), A),
    "cummax": (lambda a: ng.cummax(a, 1)[0], A), "cummin": (lambda a: ng.cummin(a, 1)[0], A),
    # sums and statistics
    "sum": (lambda a: ng.sum(a, 1), A), "mean": (lambda a: ng.mean(a, 0, keepdim=True), A),
    "prod": (lambda a: ng.prod(a, 1), A), "prod of all": (ng.prod, A),
    "nansum": (ng.nansum, A), "nanmean": (lambda a: ng.nanmean(a, 1), A),
    "var": (lambda a: ng.var(a, 1), A), "std": (lambda a: ng.std(a, 1, correction=0), A),
    "var_mean": (lambda a: tuple(ng.var_mean(a, 1)), A), "std_mean": (lambda a: tuple(ng.std_mean(a)), A),
    "norm": (ng.norm, A), "norm, p = 3": (lambda a: ng.norm(a, 3, dim=1), A),
    "vector_norm": (lambda a: ng.vector_norm(a, 1), A),
    "vector_norm, p = inf": (lambda a: ng.vector_norm(a, np.inf), A),
    "logsumexp": (lambda a: ng.logsumexp(a, 1), A), "softmax": (lambda a: ng.softmax(a, 1), A),
    "log_softmax": (lambda a: ng.log_softmax(a, 1), A),
    "cumsum": (lambda a: ng.cumsum(a, 1), A), "cumprod": (lambda a: ng.cumprod(a, 1), A),
    "logcumsumexp": (lambda a: ng.logcumsumexp(a, 1), A), "diff": (lambda a: ng.diff(a, n=2), A),
    # shape
    "cat": (lambda a, b: ng.cat([a, b], 1), A, B), "stack": (lambda a, b: ng.stack([a, b], 1), A, B),
    "vstack": (lambda a, b: ng.vstack([a, b]), A, B), "hstack": (lambda a, b: ng.hstack([a, b]), A, B),
    "dstack": (lambda a, b: ng.dstack([a, b]), A, B),
    "column_stack": (lambda a, b: ng.column_stack([a, b]), V, x(4, 2)),
    "atleast_1d": (ng.atleast_1d, np.array(0.7)), "atleast_2d": (ng.atleast_2d, V),
    "atleast_3d": (ng.atleast_3d, A),
    "split": (lambda a: ng.split(a, 2, 1), A), "chunk": (lambda a: ng.chunk(a, 2, 1), A),
    "tensor_split": (lambda a: ng.tensor_split(a, 2, 1), A), "vsplit": (lambda a: ng.vsplit(a, 2), A),
    "hsplit": (lambda a: ng.hsplit(a, 3), A), "dsplit": (lambda a: ng.dsplit(a, 2), x(2, 1, 2)),
    "unbind": (lambda a: ng.unbind(a, 1), A), "select": (lambda a: ng.select(a, 1, 2), A),
    "broadcast_tensors": (lambda a, b: ng.broadcast_tensors(a, b), A, x(3)),
    "pad": (lambda a: ng.pad(a, (1, 2), value=3.0), A),
    "reshape": (lambda a: ng.reshape(a, (3, 2)), A), "expand": (lambda a: ng.expand(a, (4, 2, 3)), A),
    "permute": (lambda a: ng.permute(a, (1, 0)), A), "transpose": (lambda a: ng.transpose(a, 0, 1), A),
    "swapaxes": (lambda a: ng.swapaxes(a, 0, 1), A),
    "t": (ng.t, A), "unsqueeze": (lambda a: ng.unsqueeze(a, 1), A), "squeeze": (ng.squeeze, x(2, 1)),
    "as_strided": (lambda a: ng.as_strided(a * 1, (2, 2), (1, 2), 1), x(6)),
    "clone": (ng.clone, A), "narrow": (lambda a: ng.narrow(a, 1, 1, 2), A),
    "flip": (lambda a: ng.flip(a, (0, 1)), A), "fliplr": (ng.fliplr, A), "flipud": (ng.flipud, A),
    "roll": (lambda a: ng.roll(a, (1, 2), (0, 1)), A), "rot90": (ng.rot90, A),
    "movedim": (lambda a: ng.movedim(a, 0, 2), x(2, 3, 1)), "flatten": (ng.flatten, A), "ravel": (ng.ravel, A),
    "unflatten": (lambda a: ng.unflatten(a, 0, (2, 2)), V), "tile": (lambda a: ng.tile(a, (2, 1)), A),
    "repeat_interleave": (lambda a: ng.repeat_interleave(a, 2, 1), A),
    "tril": (lambda a: ng.tril(a, -1), SQ), "triu": (ng.triu, SQ), "diagonal": (ng.diagonal, SQ),
    "diag_embed": (ng.diag_embed, A), "diag": (ng.diag, V), "diagflat": (ng.diagflat, A),
    "block_diag": (lambda a, b: ng.block_diag(a, b), A, B),
    "meshgrid": (lambda a, b: tuple(ng.meshgrid(a, b, indexing="ij")), V, x(3)),
    "cartesian_prod": (lambda a, b: ng.cartesian_prod(a, b), V, x(3)),
    # indexing
    "gather": (lambda a: ng.gather(a, 1, ng.tensor(I2)), A),
    "scatter": (lambda a, s: ng.scatter(a, 1, ng.tensor(I2), s), A, x(2, 2)),
    "scatter_add": (lambda a, s: ng.scatter_add(a, 1, ng.tensor(I2 * 0), s), A, x(2, 2)),
    "scatter_reduce": (lambda a, s: ng.scatter_reduce(a, 1, ng.tensor(I2 * 0), s, "sum"), A, x(2, 2)),
    "index_select": (lambda a: ng.index_select(a, 1, ng.tensor([2, 2, 0])), A),
    "index_add": (lambda a, s: ng.index_add(a, 1, ng.tensor([2, 2]), s), A, x(2, 2)),
    "index_copy": (lambda a, s: ng.index_copy(a, 1, ng.tensor([2, 0]), s), A, x(2, 2)),
    "index_fill": (lambda a: ng.index_fill(a, 1, ng.tensor([2]), 0.5), A),
    "index_put": (lambda a, s: ng.index_put(a, (ng.tensor([0, 1]), ng.tensor([2, 0])), s), A, x(2)),
    "take": (lambda a: ng.take(a, ng.tensor([5, 0, 5])), A),
    "take_along_dim": (lambda a: ng.take_along_dim(a, ng.tensor(I2), 1), A),
    "put": (lambda a, s: ng.put(a, ng.tensor([4, 0]), s), A, x(2)),
    "masked_fill": (lambda a: ng.masked_fill(a, ng.tensor(MASK), 2.0), A),
    "masked_select": (lambda a: ng.masked_select(a, ng.tensor(MASK)), A),
    "masked_scatter": (lambda a, s: ng.masked_scatter(a, ng.tensor(MASK), s), A, V),
    "where": (lambda a, b: ng.where(ng.tensor(MASK), a, b), A, B),
    "getitem": (lambda a: a[:, [2, 0, 2]][..., None], A),
    # losses and layers
    "mse_loss": (F.mse_loss, A, B), "l1_loss": (F.l1_loss, A, B), "linear": (F.linear, A, x(4, 3), V),
    "prelu": (F.prelu, A, np.array([0.3])), "normalize": (F.normalize, A), "softmin": (lambda a: F.softmin(a, 1), A),
}  # fmt: skip

# results are integers, bools or Python values, or have no differentiable argument
NOT_DIFFERENTIABLE = {
    "not_equal", "less", "less_equal", "greater", "greater_equal", "equal", "bitwise_invert",
    "left_shift", "right_shift", "isclose", "allclose", "is_complex", "isreal", "floor_divide",
    "divmod", "argsort", "unique", "searchsorted", "bucketize", "bincount", "histc", "argmax",
    "argmin", "any", "all", "count_nonzero", "tril_indices", "triu_indices", "nonzero",
    "argwhere", "one_hot", "matrix_rank",
}  # fmt: skip
# value depends on data in the shape or on sizes that vmap and traces cannot know
SHAPE_DEPENDS_ON_DATA = {"masked_select"}


def covered():
    """Functions (by identity) that a row, the list above, or the registry takes care of."""
    found = {id(PUBLIC[n]) for n in NOT_DIFFERENTIABLE if n in PUBLIC}
    found |= {id(PUBLIC[n]) for n in ROWS if n in PUBLIC}
    for op in REGISTRY.values():
        found |= {id(op), id(getattr(op, "fast", op))}
    return found


@pytest.mark.parametrize("name", ROWS)
def test_derivatives(name):
    f, *args = ROWS[name]
    nt.check_grads(f, tuple(args), order=2)
    nt.dot_product_test(f, tuple(args))
    nt.inputs_unmodified(f, tuple(args))


@pytest.mark.parametrize("name", sorted(set(ROWS) - SHAPE_DEPENDS_ON_DATA))
def test_tape_and_vmap(name):
    f, *args = ROWS[name]
    nt.tape_agrees(f, tuple(args))
    nt.vmap_agrees(f, tuple(args))


def test_every_public_function_is_covered():
    known = covered()
    missing = sorted({n for n, f in PUBLIC.items() if id(f) not in known})
    assert not missing, f"no row in this file for: {', '.join(missing)}"
