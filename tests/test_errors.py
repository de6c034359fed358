"""Wrong calls of the public API: each raises our own error, which names the operation, the argument and what to do.

A case is a call and the words its message must contain; the first is the operation. In place, an operation that
raises has left its operand as it was.
"""

import math
import re

import numpy as np
import pytest

import nbgrad as ng
from nbgrad import autograd, func
from nbgrad.errors import NbgradError, message, missing_extra


def m():
    return ng.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def v():
    return ng.tensor([1.0, 2.0, 3.0], requires_grad=True)


def scalar():
    return (v() ** 2).sum()


def twice(x):
    return 2 * x


def total(x):
    return (x * x).sum()


F, NAN = ng.nn.functional, ng.tensor([1.0, math.nan])
ONE, BAD = ng.tensor([[0]]), ng.tensor([[9]])

SHAPES = [
    (lambda: m() + ng.ones(4), "add:", "operands' shapes", "(2, 3) and (4,)", "unsqueeze"),
    (lambda: m() * [1, 2], "mul:", "(2,)", "expand one operand"),
    (lambda: ng.where(m() > 1, ng.ones(4), m()), "where:", "(4,)", "agree or are 1"),
    (lambda: m() @ m(), "matmul:", "'other'", "(2, 3)", "Transpose or reshape"),
    (lambda: m() @ ng.ones(4), "matmul:", "'other'", "expected 3 rows"),
    (lambda: ng.mm(m(), ng.ones(3)), "mm:", "'mat2'", "2 dimensions", "Use matmul"),
    (lambda: ng.bmm(m(), m()), "bmm:", "'input'", "3 dimensions", "Use matmul"),
    (lambda: ng.dot(m(), m()), "dot:", "two vectors", "Use matmul"),
    (lambda: ng.outer(m(), m()), "outer:", "two vectors"),
    (lambda: m().reshape(4, 2), "reshape:", "'shape'", "(4, 2)", "6 elements"),
    (lambda: m().reshape(-1, -1), "reshape:", "'shape'", "(-1, -1)", "expected"),
    (lambda: m().t().view(6), "view:", "memory layout", "Use reshape()"),
    (lambda: m().expand(3, 3), "expand:", "(2, 3)", "broadcasts to (3, 3)"),
    (lambda: m().permute(0, 0), "permute:", "'dims'", "(0, 0)", "each of 2 dimensions once"),
    (lambda: m().repeat(2), "repeat:", "'repeats'", "Or use tile"),
    (lambda: m().unfold(0, 9, 1), "unfold:", "size 9", "expected size <= 2"),
    (lambda: m().split([1, 5]), "split:", "[1, 5]", "expected sizes of sum 2"),
    (lambda: m().as_strided((10,), (1,)), "as_strided:", "(10,)", "elements 0 to 5 of the storage"),
    (lambda: m().as_strided((2**40, 2**40), (0, 0)), "as_strided:", "'size'", "2**63 bytes"),
    (lambda: ng.bincount(ng.tensor([1, 2]), m()), "bincount:", "'weights'", "(2, 3)", "(2,)"),
    (lambda: m().as_strided((2,), (1, 1)), "as_strided:", "'stride'", "one stride a dimension"),
    (lambda: ng.stack([m(), ng.ones(3)]), "stack:", "tensors[1]", "(3,)", "expected (2, 3)"),
    (lambda: ng.cat([m(), ng.ones(2, 4)]), "cat:", "tensors[1]", "(2, 4)", "Reshape or expand"),
    (lambda: ng.tensor([[1, 2], [3]]), "tensor:", "'data'", "ragged", "equal length"),
    (lambda: ng.zeros(-1), "zeros:", "'size'", "(-1,)", "no negative size"),
    (lambda: ng.max(ng.zeros(0)), "max:", "(0,)", "at least one element", "check the shape"),
    (lambda: ng.pad(m(), (1,)), "pad:", "'pad'", "pairs for at most 2"),
    (lambda: ng.diag(ng.ones(2, 2, 2)), "diag:", "dimensions", "expected 1 or 2"),
    (lambda: m().item(), "item:", "(2, 3)", "one element", "Index it first"),
    (lambda: bool(m()), "bool:", "(2, 3)", ".any() or .all()"),
    (lambda: ng.trace(ng.ones(3)), "trace:", "dimensions is 1", "diagonal()"),
]

DTYPES = [
    (lambda: m() + "a", "add:", "argument 1", "a str", "a tensor, an array or a number"),
    (lambda: m() + None, "add:", "argument 1", "NoneType", "a tensor, an array or a number"),
    (lambda: ng.sin(None), "sin:", "argument 0", "NoneType", "a number"),
    (lambda: ng.sum("a"), "sum:", "'input'", "a str", "a tensor"),
    (lambda: ng.bitwise_and(m(), 1), "bitwise_and:", "float64", "an integer or bool dtype"),
    (lambda: m() & m(), "bitwise_and:", "float64", "an integer or bool dtype"),
    (lambda: ng.tensor([1]) << 1.5, "bitwise_left_shift:", "float64", "an integer"),
    (lambda: m() < 1j, "lt:", "complex128", "a real dtype", "Take .real"),
    (lambda: ng.floor(ng.tensor([1j])), "floor:", "complex128", ".abs() first"),
    (lambda: -ng.tensor(True), "neg:", "bool", "logical_not"),
    (lambda: ng.tensor(True) - ng.tensor(True), "sub:", "bool", "logical_xor"),
    (lambda: ng.zeros(2, dtype="float99"), "zeros:", "'dtype'", "'float99'", "one of float64"),
    (lambda: ng.zeros(2, dtype=object), "zeros:", "'dtype'", "one of float64"),
    (lambda: ng.tensor("abc"), "tensor:", "'data'", "str", "numbers"),
    (lambda: ng.tensor([1, "a"]), "tensor:", "'data'", "expected numbers"),
    (
        lambda: ng.tensor([1], requires_grad=True),
        "tensor:",
        "requires_grad=True",
        "int64",
        ".to(ng.float64)",
    ),
    (lambda: ng.tensor([1]).requires_grad_(), "requires_grad_:", "int64", ".to(ng.float64)"),
    (lambda: ng.from_numpy([1, 2]), "from_numpy:", "'array'", "list", "Use ng.tensor"),
    (lambda: ng.from_numpy(np.array(["a"])), "from_numpy:", "<U1", "one of float64"),
    (lambda: ng.from_dlpack(3), "from_dlpack:", "a int", "__dlpack__"),
    (lambda: ng.set_default_dtype(ng.int64), "set_default_dtype:", "int64", "float32 or float64"),
    (lambda: ng.set_default_dtype(None), "set_default_dtype:", "None", "one of float64"),
    (lambda: m().to("nope"), "to:", "'dtype'", "'nope'", "one of float64"),
    (lambda: m().view(ng.int8), "view:", "'dtype'", "int8", "Use .to(dtype)"),
    (lambda: m().type_as(3), "type_as:", "'other'", "Use .to(dtype)"),
    (lambda: m().view_as((3, 2)), "view_as:", "'other'", "a tuple", "Use view()"),
    (lambda: m().expand_as((2, 3)), "expand_as:", "'other'", "a tuple", "Use expand()"),
    (lambda: m().reshape_as((3, 2)), "reshape_as:", "'other'", "a tuple", "Use reshape()"),
    (lambda: ng.ones_like(2), "ones_like:", "'x'", "a int", "Use ones with a shape"),
    (lambda: ng.full_like(0.5, 1), "full_like:", "'x'", "a float", "Use full with a shape"),
    (lambda: ng.softmax(m(), 0, dtype=ng.int64), "softmax:", "'dtype'", "int64", "floating"),
    (lambda: ng.log_softmax(m(), 0, dtype=ng.int64), "log_softmax:", "'dtype'", "floating"),
    (lambda: F.softmin(m(), 0, dtype=ng.int64), "softmin:", "'dtype'", "int64", "floating"),
    (lambda: ng.ones(2, dtype=ng.bool).fill_(0.5), "fill_:", "float64", "bool"),
    (lambda: ng.finfo(ng.int64), "finfo:", "'dtype'", "int64", "Use ng.iinfo"),
    (lambda: ng.iinfo(ng.float64), "iinfo:", "'dtype'", "float64", "Use ng.finfo"),
    (lambda: v().numpy(), "numpy:", "requires grad", "detach().numpy()"),
    (lambda: np.asarray(v()), "numpy:", "requires grad", "detach().numpy()"),
    (lambda: np.fft.fft(v()), "np.fft:", "not available", ".detach().numpy()"),
]

DEVICES = [
    (lambda: ng.zeros(2, device="tpu"), "device:", "'tpu'", "'cpu', 'cuda' or 'cuda:N'"),
    (lambda: ng.device(3), "device:", "is 3", "'cpu', 'cuda' or 'cuda:N'"),
    (lambda: m().to(device="tpu"), "'device'", "'tpu'", "'cpu', 'cuda' or 'cuda:N'"),
]

NO_AXIS = ("'dim'", "0 for a tensor of shape ()", "at least 1 dimension", "unsqueeze(0)")
INDEXING = [
    (lambda: ng.tensor(2.0).narrow(0, 0, 1), "narrow:", *NO_AXIS),
    (lambda: ng.tensor(2.0).repeat_interleave(2, 0), "repeat_interleave:", *NO_AXIS),
    (lambda: ng.tensor(2.0).unflatten(0, (1, 1)), "unflatten:", *NO_AXIS),
    (lambda: ng.tensor(2.0).size(0), "size:", *NO_AXIS),
    (lambda: ng.take(ng.tensor(2.0), ng.tensor([0]), 0), "take:", *NO_AXIS),
    (lambda: ng.unique(ng.tensor(2.0), dim=0), "unique:", *NO_AXIS),
    (lambda: m()[5], "getitem:", "dimension 0", "is 5", "between -2 and 1"),
    (lambda: m()[0, 0, 0], "getitem:", "is 3", "at most 2"),
    (lambda: m()["a"], "getitem:", "str", "integers, slices, None"),
    (lambda: m()[1.5], "getitem:", "float64", ".long() or .bool()"),
    (lambda: m()[ng.tensor([0, 7])], "getitem:", "is 7", "between -2 and 1"),
    (lambda: m()[ng.tensor([True, False, True])], "getitem:", "(3,)", "expected (2,)"),
    (lambda: m()[[0, 1], [0, 1, 2]], "getitem:", "(2,) and (3,)", "broadcast together"),
    (lambda: m()[..., ...], "getitem:", "two Ellipsis", "at most one"),
    (lambda: m().sum(5), "sum:", "'dim'", "is 5", "between -2 and 1"),
    (lambda: m().sum("a"), "sum:", "'dim'", "'a'", "an integer dimension"),
    (lambda: m().sum((0, 0)), "sum:", "'dim'", "(0, 0)", "distinct dimensions"),
    (lambda: m().squeeze(4), "squeeze:", "'dim'", "is 4", "between -2 and 1"),
    (lambda: m().unsqueeze(7), "unsqueeze:", "'dim'", "between -3 and 2"),
    (lambda: m().transpose(0, 5), "transpose:", "'dim1'", "between -2 and 1"),
    (lambda: m().narrow(0, 1, 5), "narrow:", "1:6", "inside 0:2"),
    (lambda: ng.softmax(m(), 7), "softmax:", "'dim'", "between -2 and 1"),
    (lambda: m().cumsum(4), "cumsum:", "'dim'", "between -2 and 1"),
    (lambda: ng.flip(m(), (5,)), "flip:", "'dims'", "between -2 and 1"),
    (lambda: m().gather(0, ng.tensor([0])), "gather:", "'index'", "(1,)", "2 dimensions"),
    (lambda: m().gather(1, BAD), "gather:", "is 9", "between -3 and 2"),
    (lambda: m().gather(1, ng.tensor([[0.5]])), "gather:", "'index'", "float64", "Use .long()"),
    (lambda: m().scatter(1, BAD, 1.0), "scatter:", "is 9", "between -3 and 2"),
    (lambda: m().index_select(0, ONE), "index_select:", "'index'", "(1, 1)", "a vector"),
    (
        lambda: m().masked_fill(m(), 0.0),
        "masked_fill:",
        "'mask'",
        "float64",
        "Compare, or use .bool()",
    ),
    (lambda: m().masked_select(ng.tensor([True, False])), "masked_select:", "(2,)", "unsqueeze"),
    (lambda: ng.one_hot(ng.tensor([5]), 3), "one_hot:", "is 5", "between 0 and 2"),
    (lambda: m().size(7), "size:", "'dim'", "between -2 and 1"),
]

ARGUMENTS = [
    (lambda: F.softmax(m()), "softmax:", "'dim'", "not given", "Pass dim=-1"),
    (lambda: F.softmin(m()), "softmin:", "'dim'", "not given", "Pass dim=-1"),
    (lambda: F.log_softmax(m()), "log_softmax:", "'dim'", "not given", "Pass dim=-1"),
    (lambda: ng.tril(m(), "ij"), "tril:", "'diagonal'", "'ij'", "an integer"),
    (lambda: ng.rot90(m(), 1.5), "rot90:", "'k'", "1.5", "an integer"),
    (lambda: ng.hsplit(m(), math.nan), "hsplit:", "'indices_or_sections'", "nan", "an integer"),
    (lambda: ng.histc(NAN), "histc:", "the range", "nan", "finite bounds"),
    (lambda: ng.bincount(ng.tensor([2**60])), "bincount:", "1152921504606846977", "memory"),
    (lambda: ng.bincount(ng.tensor([2**60]), ng.ones(1)), "bincount:", "fits in memory"),
    (lambda: ng.arange(1, 4, end=4), "arange:", "2 numbers and end", "once"),
    (lambda: ng.arange(step=2), "arange:", "0 numbers and step", "an end"),
    (lambda: m().scatter(0, ONE), "scatter:", "neither 'src' nor 'value'", "one of them"),
    (lambda: ng.linalg.matrix_rank(m(), 1.0, atol=1.0), "matrix_rank:", "'tol'", "one of them"),
    (lambda: ng.full((2,), "a"), "full:", "'fill_value'", "a str", "one number"),
    (lambda: ng.arange(0, 10, 0), "arange:", "'step'", "is 0", "other than zero"),
    (lambda: ng.arange("a"), "arange:", "number 0", "a str", "one number"),
    (lambda: ng.linspace(0, 1, -3), "linspace:", "'steps'", "-3", "an integer >= 0"),
    (lambda: ng.logspace(0, 1, 2.5), "logspace:", "'steps'", "2.5", "an integer >= 0"),
    (lambda: ng.eye(-2), "eye:", "'n'", "-2", "an integer >= 0"),
    (lambda: ng.tensor(10**30), "tensor:", "'data'", "fits int64", "Pass a float"),
    (lambda: ng.tensor([1]) ** -1, "pow:", "exponent", "is -1", "floating dtype first"),
    (lambda: ng.tensor([1], dtype=ng.int8) + 1000, "add:", "argument 1", "1000", "wider dtype"),
    (lambda: ng.cat([]), "cat:", "'tensors'", "empty", "at least one tensor"),
    (lambda: m().split(0), "split:", "'split_size'", "at least 1"),
    (lambda: m().chunk(0), "chunk:", "'chunks'", "at least 1"),
    (lambda: ng.clamp(m()), "clamp:", "bounds", "None and None", "a number or tensor"),
    (lambda: ng.topk(m(), 9), "topk:", "'k'", "is 9", "between 0 and 3"),
    (lambda: ng.norm(m(), p="zz"), "norm:", "'p'", "'zz'", "linalg.norm"),
    (lambda: ng.polygamma(-1, m()), "polygamma:", "'n'", "-1", "an integer >= 0"),
    (lambda: ng.quantile(m(), 2.0), "quantile:", "'q'", "2.0", "in [0, 1]"),
    (lambda: ng.roll(m(), (1, 2), (0,)), "roll:", "'shifts'", "one shift for each"),
    (
        lambda: ng.repeat_interleave(m(), -1),
        "repeat_interleave:",
        "'repeats'",
        "-1",
        "integers >= 0",
    ),
    (lambda: ng.set_printoptions(precision=-3), "set_printoptions:", "'precision'", "-3", ">= 0"),
    (lambda: ng.memory.set_limit(-4), "set_limit:", "'nbytes'", "-4", "or None"),
    (lambda: ng.memory.set_limit("a"), "set_limit:", "'nbytes'", "'a'", "or None"),
]

RANDOM = [
    (lambda: ng.multinomial(NAN, 1), "multinomial:", "'weights'", "not finite", "finite weights"),
    (lambda: ng.multinomial(ng.tensor(1.0), 1), "multinomial:", "'weights'", "at least 1 dim"),
    (lambda: ng.manual_seed("a"), "manual_seed:", "'seed'", "'a'", "an integer"),
    (lambda: ng.set_rng_state("a"), "set_rng_state:", "'a'", "get_rng_state()"),
    (lambda: ng.randn(-1), "randn:", "'size'", "no negative size"),
    (lambda: ng.randn(2, dtype=ng.int64), "randn:", "'dtype'", "int64", "floating"),
    (lambda: ng.randn(2, generator=3), "random:", "'generator'", "is 3", "ng.Generator()"),
    (lambda: ng.randint(5, 2, (3,)), "randint:", "[5, 2)", "low < high"),
    (lambda: ng.randperm(-1), "randperm:", "'n'", "-1", "an integer >= 0"),
    (lambda: ng.bernoulli(2.0), "bernoulli:", "'p'", "2.0", "in [0, 1]"),
    (lambda: ng.normal(0.0, -1.0, (2,)), "normal:", "'std'", "-1.0", ">= 0"),
    (lambda: ng.multinomial(ng.tensor([-1.0, 2.0]), 1), "multinomial:", "'weights'", ">= 0"),
    (
        lambda: ng.multinomial(ng.tensor([1.0, 2.0]), 5),
        "multinomial:",
        "'num_samples'",
        "is 5",
        "at most",
    ),
]

EINSUM_LINALG = [
    (lambda: ng.einsum("ij,jk->ik", m(), m()), "einsum:", "'j'", "operand 1", "expected 3"),
    (lambda: ng.einsum("ij,jk", m()), "einsum:", "operands is 1", "expected 2"),
    (lambda: ng.einsum("ij->k", m()), "einsum:", "'k'", "labels of the operands"),
    (lambda: ng.einsum("i", m()), "einsum:", "operand 0", "expected 1 dimensions"),
    (lambda: ng.einsum("ij->ii", m()), "einsum:", "'i'", "at most once"),
    (lambda: ng.einsum("i$->i", m()), "einsum:", "'equation'", "i$->i", "expected letters"),
    (lambda: ng.tensordot(m(), m(), 1), "tensordot:", "'dims'", "equal size"),
    (lambda: ng.linalg.inv(m()), "inv:", "'A'", "(2, 3)", "square matrices"),
    (lambda: ng.linalg.inv(ng.zeros(2, 2)), "inv:", "singular", "expected"),
    (lambda: ng.linalg.inv("a"), "inv:", "'A'", "a str", "a tensor"),
    (lambda: ng.linalg.solve(ng.eye(2), ng.ones(3)), "solve:", "'B'", "(3,)", "expected 2 rows"),
    (lambda: ng.linalg.cholesky(-ng.eye(2)), "cholesky:", "not positive definite", "expected"),
    (lambda: ng.linalg.qr(ng.ones(3)), "qr:", "'A'", "(3,)", "at least 2 dimensions"),
    (lambda: ng.linalg.matrix_power(ng.eye(2), 1.5), "matrix_power:", "'n'", "1.5", "an integer"),
    (lambda: ng.linalg.norm(m(), "zz"), "norm:", "'ord'", "'zz'", "'fro'"),
]

AUTOGRAD = [
    (lambda: m().sum().backward(), "backward:", "does not require grad", "requires_grad=True"),
    (lambda: v().backward(), "backward:", "(3,)", "only for a scalar", ".sum()"),
    (lambda: (v() * 2).backward(ng.ones(5)), "backward:", "(5,)", "expected (3,)"),
    (lambda: (v() * 2).backward("a"), "backward:", "'grad_outputs'", "a str", "a tensor"),
    (lambda: autograd.grad(scalar(), []), "grad:", "'inputs'", "empty", "pass at least one tensor"),
    (lambda: autograd.grad(scalar(), "a"), "grad:", "'inputs'", "str", "a sequence of tensors"),
    (lambda: autograd.grad(3.0, v()), "grad:", "'outputs'", "float", "a tensor"),
    (lambda: autograd.grad(scalar(), m()), "grad:", "an input", "requires_grad_()"),
    (lambda: autograd.grad(scalar(), v()), "grad:", "input 0", "not used", "allow_unused=True"),
    (lambda: autograd.grad(v() * v(), v()), "grad:", "(3,)", "'grad_outputs'"),
    (
        lambda: autograd.grad(scalar(), v(), grad_outputs=[ng.ones(3)]),
        "grad:",
        "(3,)",
        "expected ()",
    ),
    (
        lambda: autograd.backward([scalar(), scalar()], [ng.tensor(1.0)]),
        "backward:",
        "1 tensors",
        "expected 2",
    ),
    (lambda: twice_backward(), "backward", "retain_graph=True"),
    (lambda: changed_in_place(), "mul_", "in place", "clone"),
    (lambda: m().retain_grad(), "retain_grad:", "does not require grad"),
    (lambda: m().register_hook(print), "register_hook:", "does not require grad"),
    (lambda: v().register_hook(3), "register_hook:", "'hook'", "is 3", "a callable"),
    (
        lambda: autograd.gradcheck(twice, (m(),)),
        "gradcheck:",
        "no input requires grad",
        "requires_grad=True",
    ),
    (lambda: autograd.gradcheck(3, (v(),)), "gradcheck:", "'func'", "is 3", "a callable"),
]


def twice_backward():
    y = scalar()
    y.backward()
    y.backward()


def changed_in_place():
    x = v()
    y = x * 1
    z = ng.exp(y)
    z.mul_(2)
    z.sum().backward()


FUNC = [
    (lambda: func.grad(twice)(v()), "grad:", "(3,)", "one scalar", ".sum()"),
    (lambda: func.grad(total)(ng.tensor([1, 2])), "grad:", "int64", ".to(ng.float64)"),
    (lambda: func.grad(total, argnums=3)(v()), "grad:", "'argnums'", "is 3", "1 positional"),
    (lambda: func.grad(lambda x: "a")(v()), "grad:", "a str", "a tensor"),
    (lambda: func.grad(3)(v()), "func:", "the function", "is 3", "a callable"),
    (lambda: func.vjp(twice, v())[1](ng.ones(7)), "vjp:", "cotangent", "(7,)", "expected (3,)"),
    (lambda: func.vjp(lambda x: (x, x), v())[1](v()), "vjp:", "structure", "expected (*, *)"),
    (lambda: func.jvp(twice, (v(),), (ng.ones(7),)), "jvp:", "tangent", "(7,)", "expected (3,)"),
    (lambda: func.jvp(twice, v(), v()), "jvp:", "'primals'", "must be tuples"),
    (lambda: func.jvp(twice, (v(),), (v(), v())), "jvp:", "structure is (*, *)", "expected (*)"),
    (lambda: func.jacrev(twice, argnums=2)(v()), "jacrev:", "'argnums'", "1 positional"),
    (lambda: func.jacfwd(twice)(ng.tensor([1])), "jacfwd:", "int64", "leave it out of argnums"),
    (lambda: func.hvp(total, v(), v()), "hvp:", "'primals'", "must be tuples"),
    (lambda: func.jet(twice, (v(),), ()), "jet:", "'series'", "expected 1 tuples"),
    (lambda: func.jet(twice, (v(),), (3,)), "jet:", "'series'", "int", "expected 1 tuples"),
    (
        lambda: func.jet(twice, (v(),), ((ng.ones(5),),)),
        "jet:",
        "'series'",
        "(5,)",
        "expected (3,)",
    ),
    (lambda: func.linearize(twice, v())[1](ng.ones(5)), "(5,)", "expected (3,)"),
    (lambda: func.vmap(twice)(ng.tensor(1.0)), "vmap:", "'in_dims'", "a dimension of shape ()"),
    (lambda: func.vmap(ng.add)(ng.ones(3), ng.ones(4)), "vmap:", "[3, 4]", "one common size"),
    (lambda: func.vmap(twice, in_dims=None)(v()), "vmap:", "'in_dims'", "a batched argument"),
    (lambda: func.vmap(twice, in_dims=(0, 0))(v()), "vmap:", "'in_dims'", "(0, 0)", "1 entries"),
    (lambda: func.vmap(twice, out_dims=4)(v()), "vmap:", "'out_dims'", "is 4", "expected"),
    (lambda: func.vmap(twice, randomness="x"), "vmap:", "'randomness'", "'different'"),
    (lambda: func.vmap(twice, chunk_size=0), "vmap:", "'chunk_size'", "is 0", "positive integer"),
    (lambda: func.vmap(3), "vmap:", "the function", "is 3", "a callable"),
    (lambda: func.vmap(lambda x: ng.randn(2))(v()), "vmap", "randomness='same' or 'different'"),
    (lambda: func.vmap(lambda x: x.item())(v()), "item:", "func.vmap", "ng.where"),
    (lambda: func.vmap(lambda x: x if x > 0 else -x)(v()), "bool:", "func.vmap", "ng.where"),
]

TAPE = [
    (
        lambda: ng.trace(lambda x: x if x.sum() > 0 else -x)(m()),
        "bool:",
        "inside trace",
        "ng.where",
    ),
    (lambda: ng.trace(lambda x: x.numpy())(m()), "numpy:", "inside trace", "compute it outside"),
    (lambda: ng.trace(twice)(m()).replay(ng.ones(5)), "replay:", "input 0", "(5,)", "Record again"),
    (lambda: ng.trace(twice)(m()).replay(m(), m()), "replay:", "structure is (*, *)", "expected"),
    (lambda: ng.trace(twice)(m()).grad(), "Tape.grad:", "(2, 3)", "one scalar", "Use vjp()"),
    (lambda: ng.trace(total)(m()).grad(4), "Tape.grad:", "'argnums'", "is 4", "1 positional"),
    (
        lambda: ng.trace(total)(m()).vmap(3, (0, 0)),
        "Tape.vmap:",
        "'in_dims'",
        "(0, 0)",
        "1 entries",
    ),
    (lambda: ng.trace(total)(m()).taylor(-1), "Tape.taylor:", "'order'", "-1", "an integer >= 0"),
    (lambda: ng.trace(total)(m()).show("a.xyz"), "show:", "'.xyz'", ".svg"),
    (lambda: ng.Tape().output(m()), "Tape.output:", "not recording", "inside the with block"),
    (lambda: branch_changed(), "replay:", "Record again, or use ng.where"),
]


def branch_changed():
    x = ng.tensor(1.0)
    with ng.Tape(x) as tape:
        tape.output(x * 2 if x > 0 else x * 3)
    tape.replay(ng.tensor(-1.0))


class Short(autograd.Function):
    """Returns one gradient for two arguments."""

    @staticmethod
    def forward(ctx, a, b):
        return a * b

    @staticmethod
    def backward(ctx, g):
        return g


class NoBackward(autograd.Function):
    """Has no backward."""

    @staticmethod
    def forward(ctx, a):
        return a.exp()


class SavesLists(autograd.Function):
    """Saves something that is no tensor."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward([a])
        return a.exp()


FUNCTION = [
    (
        lambda: Short.apply(v(), v()).sum().backward(),
        "Short.backward:",
        "is 1",
        "expected 2",
        "Return None",
    ),
    (
        lambda: NoBackward.apply(v()).sum().backward(),
        "NoBackward:",
        "no backward",
        "Define a static method",
    ),
    (lambda: SavesLists.apply(v()), "save_for_backward:", "list", "tensor"),
    (
        lambda: func.jvp(Short.apply, (v(), v()), (v(), v())),
        "Short:",
        "no jvp",
        "define a static method",
    ),
]

GROUPS = {
    "shape": SHAPES,
    "dtype": DTYPES,
    "device": DEVICES,
    "index": INDEXING,
    "argument": ARGUMENTS,
    "random": RANDOM,
    "linalg": EINSUM_LINALG,
    "autograd": AUTOGRAD,
    "func": FUNC,
    "tape": TAPE,
    "Function": FUNCTION,
}
CASES = [
    pytest.param(call, words, id=f"{group}-{i}-{words[0].strip(':')}")
    for group, rows in GROUPS.items()
    for i, (call, *words) in enumerate(rows)
]


@pytest.mark.parametrize("call, words", CASES)
def test_wrong_calls_explain_themselves(call, words):
    with pytest.raises(NbgradError) as e:
        call()
    text = str(e.value)
    assert all(w in text for w in words), f"{words} not all in: {text}"
    assert len(words) >= 2
    assert not re.search(r"numba|TypingError|Traceback|ufunc|<function", text), text


def test_there_are_enough_cases():
    assert len(CASES) >= 60


# -- nothing half done ----------------------------------------------------------------------------------

IN_PLACE = {
    "shape": lambda x: x.add_(ng.ones(4, 2, 3)),
    "broadcast": lambda x: x.mul_(ng.ones(7)),
    "dtype": lambda x: x.add_(1j),
    "kind": lambda x: x.sub_("a"),
    "no bounds": lambda x: x.clamp_(),
    "index": lambda x: x.__setitem__(5, 0.0),
    "value's shape": lambda x: x.__setitem__(0, ng.ones(7)),
    "value's kind": lambda x: x.__setitem__((0, 0), "a"),
    "value's dtype": lambda x: x.__setitem__((0, 0), 1j),
    "one of two indices": lambda x: x.__setitem__((ng.tensor([0, 9]), ng.tensor([0, 0])), 5.0),
    "mask": lambda x: x.__setitem__(ng.tensor([True] * 7), 0.0),
    "copy_": lambda x: x.copy_(ng.ones(7)),
    "fill_": lambda x: x.fill_("a"),
    "fill_ shape": lambda x: x.fill_(ng.ones(3)),
    "masked_fill_": lambda x: x.masked_fill_(x > 1, ng.ones(3)),
    "index_add_": lambda x: x.index_add_(0, ng.tensor([0, 7]), ng.ones(2, 3)),
    "index_copy_": lambda x: x.index_copy_(0, ng.tensor([0, 7]), ng.ones(2, 3)),
    "scatter_": lambda x: x.scatter_(1, ng.tensor([[0, 9]]), 1.0),
    "scatter_add_": lambda x: x.scatter_add_(1, ng.tensor([[0, 9]]), ng.ones(1, 2)),
    "put_": lambda x: x.put_(ng.tensor([0, 77]), ng.tensor([1.0, 2.0])),
    "normal_": lambda x: x.normal_(0.0, -1.0),
    "uniform_": lambda x: x.uniform_(3.0, 1.0),
    "random_": lambda x: x.random_(5, 2),
    "overlap": lambda x: x[0].expand(3, 3).add_(1),
    "leaf": lambda x: x.detach().requires_grad_().add_(1),
}


@pytest.mark.parametrize("kind", ["plain", "view", "recorded"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_failed_write_changes_nothing(name, kind):
    leaf = ng.tensor(np.arange(12.0).reshape(2, 6), requires_grad=kind == "recorded")
    whole = leaf * 1
    x = whole[:, ::2] if kind == "view" else whole[:, :3].clone()
    before, everything = x.detach().clone().numpy().copy(), whole.detach().numpy().copy()
    shape, stride, fn, version = x.shape, x.stride(), x.grad_fn, x._version
    with pytest.raises(NbgradError):
        IN_PLACE[name](x)
    assert x.shape == shape and x.stride() == stride and x._version == version
    assert np.array_equal(x.detach().numpy(), before)
    assert np.array_equal(whole.detach().numpy(), everything)
    if kind == "recorded":
        assert x.grad_fn is fn
        x.sum().backward()
        assert np.array_equal(leaf.grad.numpy(), np.tile(np.arange(6) < 3, (2, 1)))


def test_a_failed_backward_leaves_no_gradient():
    x = v()
    with pytest.raises(NbgradError):
        (x * 2).backward(ng.ones(5))
    assert x.grad is None
    (x * 2).sum().backward()
    assert np.array_equal(x.grad.numpy(), [2, 2, 2])


def test_a_failed_transform_leaves_no_level_behind():
    for broken in (func.grad(twice), func.vmap(lambda x: x.item()), ng.trace(lambda x: x.item())):
        with pytest.raises(NbgradError):
            broken(v())
    assert ng.state.state.levels == () and ng.state.state.tracer is None
    assert (v() * 2).sum().item() == 12


def test_errors_are_the_builtin_ones_too():
    for call, kind in (
        (lambda: m()[5], IndexError),
        (lambda: m() + "a", TypeError),
        (lambda: m().reshape(7), ValueError),
        (lambda: m().reshape(7), RuntimeError),
        (lambda: m().sum().backward(), RuntimeError),
    ):
        with pytest.raises(kind):
            call()


def test_the_template():
    text = message("roll", "argument 'shifts'", 3, "a tuple", "Pass (3,).")
    assert text == "roll: argument 'shifts' is 3; expected a tuple. Pass (3,)."
    assert "pip install 'nbgrad[plot]'" in str(missing_extra("matplotlib", "plot", "a picture"))
