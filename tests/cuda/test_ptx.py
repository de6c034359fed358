"""Every CUDA kernel compiles for real devices (sm_80, sm_90): registers, spills, no float64 in float32 kernels.

Nothing here is skipped where the compiler is missing: NVVM, libdevice and ptxas come with the test extra.
"""

import itertools

import numpy as np
import pytest
from toolchain import TARGETS, assemble, build

from kernels_cuda import copy as copies
from kernels_cuda import elementwise as loops
from kernels_cuda import gather, matmul, scalar
from kernels_cuda import reduce as reductions
from nbgrad import dtypes as dt
from nbgrad.codegen.expr import inputs
from nbgrad.cuda import kernels
from nbgrad.errors import DTypeError
from nbgrad.op import REGISTRY, Elementwise
from nbgrad.op.public import PUBLIC

F32, F64, C64, I64, I32, BOOL = (
    dt.float32, dt.float64, dt.complex64, dt.int64, dt.int32, dt.bool_,
)  # fmt: skip
ELEMENTWISE = [op for op in REGISTRY.values() if isinstance(op, Elementwise) and op.tests]
# CUDA's sinf and cosf reduce huge arguments with one float64 product: at most this many instructions a call
TRIGONOMETRIC = {"sin": 9, "cos": 9, "tan": 9}
GROUP = 8  # operators compiled into one kernel


def check(report, float64=None):
    assert report.spills == 0
    assert report.registers < 128
    if float64 is not None:
        assert report.float64 <= float64


def trace(op, dtype):
    """Inputs and result of an operator's body, or None where it does not take the dtype."""
    lead = 1 if op.promotion == "select" else 0
    if dtype.kind in "biu" and op.name not in PUBLIC:
        return None  # internal helpers of derivatives: floating dtypes only
    try:
        if op.compute_dtype(dtype) != dtype:
            return None
        xs = inputs((BOOL,) * lead + (dtype,) * (op.nin - lead))
        return xs, op.body(*xs)
    except DTypeError:
        return None


def allowed_float64(body):
    """How many float64 instructions the trigonometric functions of a body may bring."""
    return sum(n * line.count(f"math.{f}(") for line in body for f, n in TRIGONOMETRIC.items())


def grouped(items):
    items = list(items)
    return [items[i : i + GROUP] for i in range(0, len(items), GROUP)]


def forward_groups(dtype):
    """Operators of equal arity, a few at a time: ``(inputs, results, names)``."""
    by_inputs = {}
    for op in ELEMENTWISE:
        traced = trace(op, dtype)
        if traced:
            key = tuple(x.dtype for x in traced[0])
            by_inputs.setdefault(key, []).append(op)
    for key, ops in by_inputs.items():
        for group in grouped(ops):
            xs = inputs(key)
            yield xs, [op.body(*xs) for op in group], [op.name for op in group]


def vjp_groups(dtype):
    """The cotangents of every differentiable operator."""
    by_inputs = {}
    for op in ELEMENTWISE:
        traced = trace(op, dtype)
        if not traced or not any(op.defined) or traced[1].dtype != dtype:
            continue
        key = tuple(x.dtype for x in traced[0])
        needs = tuple(d and k == dtype for d, k in zip(op.defined, key, strict=True))
        by_inputs.setdefault(key, []).append(op.plan(needs, key))
    for key, plans in by_inputs.items():
        for group in grouped(plans):
            xs = [*inputs(key), *inputs((dtype,), "g"), *inputs((dtype,), "out")]
            xs[-2].value, xs[-1].value = "g", "out"
            terms = [t for p in group for t in p.terms if t is not None and t.op != "input"]
            if terms:
                yield xs, terms, [p.op.name for p in group]


def compile_groups(groups, dtype, cc, folder):
    """Compile groups and return the names of what was compiled."""
    seen = []
    for xs, outs, names in groups:
        p = kernels.program(xs, outs, [e.dtype for e in (*xs, *outs)])
        source, args = loops.dense_source(p, "c" * len(p.dtypes), 1)
        report = build(source, args, loops.namespace(), cc, folder)
        reports = [report, *(assemble(report.ptx, t, folder) for t in TARGETS if t > cc)]
        assert all(r.spills == 0 for r in reports), names
        assert all(r.registers < 128 for r in reports), names
        if dtype == F32:  # complex64 division and functions are computed in float64 on purpose
            limit = allowed_float64(p.body)
            assert report.float64 <= limit, (names, report.float64, limit)
        seen += names
    return seen


CASES = [(F32, (8, 0)), (F64, (9, 0)), (C64, (8, 0)), (I64, (9, 0)), (BOOL, (8, 0))]


@pytest.mark.parametrize("dtype, cc", CASES, ids=str)
def test_every_elementwise_operator(dtype, cc, tmp_path):
    seen = compile_groups(forward_groups(dtype), dtype, cc, tmp_path)
    assert len(seen) == sum(trace(op, dtype) is not None for op in ELEMENTWISE)
    assert len(seen) >= (80 if dtype in (F32, F64) else 10)


def test_every_fused_vjp(tmp_path):
    assert len(compile_groups(vjp_groups(F32), F32, (9, 0), tmp_path)) >= 60


def axpy(dtype, out=None):
    """x0 * x1 + x0."""
    out = dtype if out is None else out
    xs = inputs((dtype, dtype))
    y = xs[0] * xs[1] + xs[0] if out == dtype else xs[0] > xs[1]
    return kernels.program(xs, [y], [dtype, dtype, out])


@pytest.mark.parametrize("cc", TARGETS)
def test_dense_loops_move_16_bytes_at_a_time(cc, tmp_path):
    for dtype, width, load in ((F32, 4, "v4.f32"), (F64, 2, "v2.f64"), (I32, 4, "v4.u32")):
        for kinds in ("ccc", "cvc", "c1c"):
            source, args = loops.dense_source(axpy(dtype), kinds, width)
            report = build(source, args, loops.namespace(), cc, tmp_path)
            check(report, 0 if dtype == F32 else None)
            assert f"ld.global.{load}" in report.ptx
            assert f"st.global.{load}" in report.ptx
    source, args = loops.dense_source(axpy(F32, BOOL), "ccc", 4)
    assert "st.global.v4.u8" in build(source, args, loops.namespace(), cc, tmp_path).ptx


@pytest.mark.parametrize("cc", TARGETS)
def test_strided_loops(cc, tmp_path):
    for ndim, wide in ((1, False), (2, False), (4, False), (2, True)):
        source, args = loops.strided_source(axpy(F32), "sss", ndim, wide)
        check(build(source, args, loops.namespace(), cc, tmp_path), 0)
    half = kernels.forward_program(REGISTRY["exp"], (dt.float16,), True)
    source, args = loops.strided_source(half, "ss", 2, False)
    check(build(source, args, loops.namespace(), cc, tmp_path), 0)


REDUCTIONS = [
    *((name, F32, cc) for name in reductions.RULES for cc in TARGETS),
    ("sum", I32, (8, 0)),
    ("prod", F64, (9, 0)),
    ("max", I64, (8, 0)),
]


@pytest.mark.parametrize("name, dtype, cc", REDUCTIONS, ids=str)
def test_reductions(name, dtype, cc, tmp_path):
    out, acc = reductions.result(name, dtype), reductions.accumulator(name, dtype)
    for rows, target, kept, reduced in ((True, acc, 1, 1), (False, out, 2, 1)):
        make = reductions.rows_source if rows else reductions.columns_source
        source, args = make(name, dtype, target, kept, reduced, *((256,) if rows else ()))
        report = build(source, args, reductions.namespace(), cc, tmp_path)
        check(report)
        # float32 sums are float64 sums on purpose; nothing else may touch float64
        assert bool(report.float64) == (F64 in (acc, dtype))
        assert bool(report.shared) == rows


@pytest.mark.parametrize("cc", TARGETS)
def test_complex_sums(cc, tmp_path):
    source, args = reductions.rows_source("sum", C64, dt.complex128, 1, 1, 256)
    check(build(source, args, reductions.namespace(), cc, tmp_path))


@pytest.mark.parametrize("cc", TARGETS)
def test_copies(cc, tmp_path):
    for dtype in (F32, F64, BOOL, C64):
        source, args = copies.transpose_source(dtype, 32, 8)
        report = build(source, args, scalar.namespace(), cc, tmp_path)
        check(report, 0 if dtype in (F32, C64) else None)
        assert report.shared >= 32 * 33 * dtype.itemsize


def test_conversions(tmp_path):
    for src, dst in itertools.product(
        (F32, I64, C64, BOOL, dt.float16), (F32, dt.int8, dt.float16)
    ):
        source, args = loops.dense_source(copies.program(src, dst), "cc", 1)
        check(build(source, args, loops.namespace(), (8, 0), tmp_path), 0)


@pytest.mark.parametrize("cc", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64, C64, dt.complex128, I64], ids=str)
def test_matrix_products(dtype, cc, tmp_path):
    shape = matmul.shape_for(dtype)
    cases = [(2, (True, False)), (0, (True, True)), (1, (False, False))]
    for batch, dense in cases if dtype == F32 else cases[:1]:
        source, args = matmul.source(dtype, shape, batch, dense)
        report = build(source, args, scalar.namespace(), cc, tmp_path, shape.threads**2)
        check(report, 0 if dtype in (F32, C64) else None)
        assert report.shared <= 48 << 10
        if dtype == F32:
            assert report.ptx.count("fma.rn.f32") >= shape.micro**2


@pytest.mark.parametrize("cc", TARGETS)
def test_gather_and_scatter(cc, tmp_path):
    for mode, dtype in (
        ("get", F32),
        ("put", F32),
        ("add", F32),
        ("add", F64),
        ("add", C64),
        ("add", I64),
    ):
        source, args = gather.source(mode, dtype, 2, 2)
        report = build(source, args, scalar.namespace(), cc, tmp_path)
        check(report, 0 if dtype in (F32, C64) else None)
        assert (mode == "add") == ("atom" in report.ptx or "red.global" in report.ptx)
    for first in (True, False):
        check(build(*gather.winners_source(2, first), scalar.namespace(), cc, tmp_path))


def test_the_rules_are_those_of_the_cpu():
    from kernels_cpu import reduce as cpu

    for name in reductions.RULES:
        for dtype in (F32, F64, C64, I64, I32, BOOL):
            if name in ("max", "min") and dtype.kind in "cb":
                continue
            if dtype.kind in "fc" and name not in ("any", "all"):
                assert reductions.accumulator(name, dtype) == cpu.accumulator(name, dtype)
            elif dtype.kind in "biu":
                want = cpu.reduce(name, np.ones((2, 3), dtype), (1,)).dtype
                assert reductions.result(name, dtype) == want
