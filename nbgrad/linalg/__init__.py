"""Linear algebra, with PyTorch's names: batched, differentiable to every order the mathematics allows.

Matrices are the last two dimensions. NaN and inf propagate; a singular or otherwise unusable matrix raises `LinAlgError`
(also a ``numpy.linalg.LinAlgError``), which names its place in the batch.
"""

from ..errors import LinAlgError
from ..ops.contraction import matmul, multi_dot
from ..ops.linalg_functions import (
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    logdet,
    lstsq,
    lu,
    lu_factor,
    lu_solve,
    matrix_exp,
    matrix_power,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
)
from ..ops.linalg_norms import cond, matrix_norm, matrix_rank, norm, vecdot, vector_norm

expm = matrix_exp

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "logdet",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]
