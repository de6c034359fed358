"""Control flow on tapes: one instruction each, printed, verified, saved, transformed."""

import re

import numpy as np
import pytest
from agreement import close

import nbgrad as ng
from nbgrad.errors import TraceError

CONSTANT = re.compile(r"captured|const [-.0-9e]+")  # a loaded constant prints without its value
X = ng.tensor([0.4, -0.9])


def loop(x):
    def step(c, k):
        c = ng.cond(c.sum() > 0, lambda c: ng.sin(c) * k, lambda c: c - k, c)
        return c, c.sum()

    c, ys = ng.scan(step, x, ng.linspace(0.5, 1.5, 4))
    bounded = ng.while_loop(lambda c: (c * c).sum() > 0.1, lambda c: c * 0.5, c, max_steps=9)
    return (bounded * bounded).sum() + ys.sum()


def test_each_is_one_instruction_with_its_body_printed_under_it():
    tape = ng.trace(lambda x, xs: ng.scan(lambda c, a: (c * a, None), x, xs)[0])(X, ng.ones(3))
    assert str(tape).splitlines() == [
        "tape(%0 f64[2], %1 f64[3]):",
        "  %2 f64[2] = scan(%0, %1, n_consts=0, n_carry=1, n_xs=1, length=3, reverse=False, stored=0, snapshots=None)",
        "    body: tape(%0 f64[2], %1 f64[]):",
        "      %2 f64[2] = mul(%0, %1)",
        "      return %2",
        "  return %2",
    ]
    branches = str(ng.trace(lambda x: ng.cond(x.sum() > 0, ng.sin, ng.cos, x))(X))
    assert "    branches[0]: tape(" in branches and "    branches[1]: tape(" in branches
    full = ng.trace(loop)(X).simplify()
    assert [i.op for i in full.instructions if i.op in ("scan", "while_loop", "cond")] == [
        "scan",
        "while_loop",
    ]


def test_saved_and_loaded_with_all_sub_tapes(tmp_path):
    for name, tape in {
        "value": ng.trace(loop)(X),
        "gradient": ng.trace(loop)(X).grad().simplify(),
        "second": ng.trace(loop)(X).grad().jvp().simplify(),
    }.items():
        path = tmp_path / f"{name}.npz"
        tape.save(path)
        again = ng.Tape.load(path)
        args = [X * 1.1] * len(tape.inputs)
        close(again.run(args), tape.run(args), rtol=0, atol=0)
        assert str(again).replace("captured", "") == CONSTANT.sub("", str(tape))


def test_checkpointed_scans_are_saved_too(tmp_path):
    f = lambda x: ng.scan(lambda c, _: (ng.sin(c), None), x, length=9, checkpoint=32)[0].sum()
    tape = ng.trace(f)(X).grad().simplify()
    tape.save(tmp_path / "t.npz")
    close(ng.Tape.load(tmp_path / "t.npz").replay(X), ng.func.grad(f)(X))


def test_transforms_of_a_tape_compose():
    tape = ng.trace(loop)(X)
    close(tape.grad().simplify().replay(X), ng.func.grad(loop)(X))
    batch = ng.stack([X, -X, 2 * X])
    close(tape.vmap(3).simplify().verify().replay(batch), ng.stack([loop(x) for x in batch]))
    rows = ng.stack([ng.func.grad(loop)(x) for x in batch])
    close(tape.grad().vmap(3).simplify().verify().replay(batch), rows)
    got = tape.taylor(3).simplify().verify().replay(X, X, 0 * X, 0 * X)
    want = ng.func.jet(loop, (X,), ([X, 0 * X, 0 * X],))[1]
    close(list(got[1:]), [w / k for w, k in zip(want, (1, 2, 6), strict=True)])


def test_a_captured_tensor_is_used_by_reference():
    w = ng.tensor(2.0)
    tape = ng.trace(lambda x: ng.scan(lambda c, _: (c * w, None), x, length=3)[0])(X).simplify()
    close(tape.replay(X), X * 8)
    with ng.no_grad():
        w *= 0.5
    close(tape.replay(X), X)


def test_what_a_body_reads_in_python_is_guarded():
    w, a = ng.tensor(2.0), np.array([1.0, 2.0])

    def f(x):
        return ng.scan(lambda c, _: (c * 2 if w > 0 else c, None), x * a, length=2)[0]

    with pytest.raises(TraceError, match="bool: the value is not known inside scan"):
        f(X)  # a comparison in a body is part of its program
    read = lambda x: ng.scan(lambda c, _: (c * w.item() + a, None), x, length=2)[0]
    tape = ng.trace(read)(X)
    close(tape.replay(X), read(X))
    with ng.no_grad():
        w.fill_(3.0)
    with pytest.raises(TraceError, match="has changed since recording"):
        tape.replay(X)


def test_verify_looks_into_sub_tapes():
    tape = ng.trace(lambda x: ng.scan(lambda c, _: (c * 2.0, None), x, length=3)[0])(X).simplify()
    body = tape.instructions[0].params["body"]
    body.instructions[0] = body.instructions[0]._replace(op="no_such_operator")
    with pytest.raises(TraceError, match=r"no operator .* \(in body of instruction 0 \(scan\)\)"):
        tape.verify()
    other = ng.trace(lambda x: ng.scan(lambda c, _: (c * 2.0, None), x, length=3)[0])(X).simplify()
    other.specs[other.inputs[0]] = other.specs[other.inputs[0]]._replace(shape=(5,))
    with pytest.raises(TraceError, match="scan: operands of types"):
        other.verify()


def test_simplify_shares_equal_loops_of_one_body_only():
    tape = ng.trace(lambda x: loop(x) + loop(x))(X).simplify()
    assert sum(i.op == "scan" for i in tape.instructions) == 2
    (one,) = [i for i in ng.trace(loop)(X).simplify().instructions if i.op == "scan"]
    twice = lambda x, k: sum(ng.op.REGISTRY["scan"](x, k, **one.params)[0].sum() for _ in range(2))
    small = ng.trace(twice)(X, ng.ones(4)).simplify()
    assert sum(i.op == "scan" for i in small.instructions) == 1


def test_a_recording_of_a_gradient_that_contains_a_scan():
    x = X.clone().requires_grad_()
    with ng.Tape(x) as tape:
        (g,) = ng.autograd.grad(loop(x), x)
        tape.output(g)
    close(tape.verify().replay(X * 1.05), ng.func.grad(loop)(X * 1.05))
