"""Loops and branches: sub-tapes become functions of their own, called with a table of pointers per step.

A body is a schedule like the program itself. The loop around it only moves pointers: constants stay, carries alternate
between two buffers, slices advance.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from kernels_cpu.llvm.text import Function, Value

from ..tape.program import Instruction, Tape
from .stores import Ref, Store

OPERATORS = ("scan", "while_loop", "cond", "switch")


class Control(NamedTuple):
    """A loop or a choice in uniform code."""

    ins: Instruction
    bodies: tuple[Any, ...]  # schedules
    consts: tuple[int, ...]  # where each body's constants start among the program's
    inputs: tuple[Ref, ...]
    outputs: tuple[Store, ...]
    spare: tuple[Store, ...]  # a pair of buffers per carry
    area: Store  # workspace and scratch of the bodies


_known: weakref.WeakKeyDictionary[Tape, Any] = weakref.WeakKeyDictionary()


def body_schedule(tape: Tape) -> Any:
    """The schedule of a sub-tape, or None where it needs eager kernels."""
    from .items import Host
    from .lower import Schedule
    from .prepare import prepare

    if tape not in _known:
        prepared, constants = prepare(tape)
        schedule = Schedule(prepared, constants, native_only=True, serial=True)
        hosts = any(isinstance(i, Host) for b in schedule.blocks() for i in b.items)
        _known[tape] = None if hosts else schedule
    return _known[tape]


def sub_tapes(ins: Instruction) -> tuple[Tape, ...]:
    """The tapes among the parameters of a control instruction."""
    p = ins.params
    if ins.op == "while_loop":
        return (p["cond"], p["body"])
    return (p["body"],) if ins.op == "scan" else p["branches"]


def native(ins: Instruction) -> bool:
    """Whether all bodies have native code (and nothing in the loop can fail)."""
    if ins.op == "while_loop" and ins.params["max_steps"] is not None:
        return False
    return all(body_schedule(t) is not None for t in sub_tapes(ins))


def make_control(block: Any, ins: Instruction) -> Any:
    """The item of a control instruction in a block of uniform code."""
    program = block.program
    bodies = tuple(body_schedule(t) for t in sub_tapes(ins))
    consts = []
    for body in bodies:
        consts.append(len(program.const_arrays))
        program.const_arrays += body.const_arrays
    inputs = tuple(block.contiguous(v) for v in ins.inputs)
    outputs = tuple(block.new_store(v).store for v in ins.outputs)
    spare = tuple(
        program.temporary(s.size, s.dtype)
        for s in outputs[: ins.params.get("n_carry", 0)]
        for _ in range(2)
    )
    area = max(b.plan.work_bytes + b.plan.scratch_bytes for b in bodies)
    return Control(
        ins, bodies, tuple(consts), inputs, outputs, spare, program.temporary(area, "uint8")
    )


class Caller:
    """Calls of one body: its table of pointers and its workspace."""

    def __init__(self, target: Any, item: Control, which: int):
        from .emit import emit_functions

        self.target, self.fn, self.item = target, target.fn, item
        self.body = item.bodies[which]
        self.name = emit_functions(self.fn.module, self.body).names[-1]
        self.n_in, self.n_const = len(self.body.inputs), len(self.body.const_arrays)
        slots = self.n_in + self.n_const + len(self.body.outputs) + 1
        self.table = self.fn.hoist("ptr", f"alloca ptr, i64 {slots}, align 8 ; {self.fn.fresh()}")
        for j in range(self.n_const):
            self.set(self.n_in + j, target.constant(item.consts[which] + j))
        self.area = target.base(item.area)
        self.set(slots - 1, self.area)

    def set(self, slot: int, p: Value) -> None:
        """Put an address into the table."""
        self.fn.store(p, self.fn.at(self.table, slot, "ptr"), 8)

    def input(self, i: int, p: Value) -> None:
        """The address of the body's input ``i``."""
        var = self.body.tape.inputs[i]
        self.set(self.body.inputs.index(var), p)

    def output(self, i: int, p: Value) -> None:
        """The address of the body's output ``i``."""
        self.set(self.n_in + self.n_const + i, p)

    def call(self) -> None:
        """Run the body."""
        fn = self.fn
        scratch = fn.emit("ptr", f"getelementptr i8, {self.area}, i64 {self.body.plan.work_bytes}")
        fn.do(f"call void @{self.name}({self.table}, i64 0, {scratch})")


def emit_control(target: Any, item: Control) -> None:
    """Emit a loop or a choice."""
    {"scan": _scan, "while_loop": _while}.get(item.ins.op, _branch)(target, item)


def _copy(fn: Function, to: Value, source: Value, size: int) -> None:
    fn.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
    fn.do(f"call void @llvm.memcpy.p0.p0.i64({to}, {source}, i64 {size}, i1 false)")


def _start(target: Any, item: Control, first: int) -> tuple[list[Value], list[Value]]:
    """Both buffers of every carry, the first holding its initial value."""
    current, following = [], []
    for k in range(item.ins.params["n_carry"]):
        a, b = item.spare[2 * k], item.spare[2 * k + 1]
        current.append(target.base(a))
        following.append(target.base(b))
        _copy(target.fn, current[-1], target.address(item.inputs[first + k]), a.bytes)
    return current, following


def _finish(target: Any, item: Control, current: Sequence[Value]) -> None:
    for store, p in zip(item.outputs, current, strict=False):
        _copy(target.fn, target.base(store), p, store.bytes)


def _scan(target: Any, item: Control) -> None:
    fn, p = target.fn, item.ins.params
    n_consts, n_carry, length = p["n_consts"], p["n_carry"], p["length"]
    caller = Caller(target, item, 0)
    for i in range(n_consts):
        caller.input(i, target.address(item.inputs[i]))
    slices = [
        (caller.input, n_consts + n_carry + k, target.address(r), r.store.dtype.itemsize)
        for k, r in enumerate(item.inputs[n_consts + n_carry :])
    ]
    slices += [
        (caller.output, n_carry + k, target.base(s), s.dtype.itemsize)
        for k, s in enumerate(item.outputs[n_carry:])
    ]
    rows = [*item.inputs[n_consts + n_carry :], *item.outputs[n_carry:]]
    sizes = [(r.store.size if isinstance(r, Ref) else r.size) // max(length, 1) for r in rows]
    current, following = _start(target, item, n_consts)

    def step(t: Value, *pointers: Value) -> list[Value]:
        now, then = pointers[:n_carry], pointers[n_carry:]
        for k in range(n_carry):
            caller.input(n_consts + k, now[k])
            caller.output(k, then[k])
        at = fn.emit("i64", f"sub i64 {length - 1}, {t.text}") if p["reverse"] else t
        for (put, i, base, size), n in zip(slices, sizes, strict=True):
            put(i, fn.at(base, fn.mul(at, n * size), "i8"))
        caller.call()
        return [*then, *now]

    last = fn.loop(0, length, 1, step, [*current, *following])
    _finish(target, item, last[:n_carry])


def _while(target: Any, item: Control) -> None:
    fn, p = target.fn, item.ins.params
    n_cond, n_body, n_carry = p["n_cond"], p["n_body"], p["n_carry"]
    test, body = Caller(target, item, 0), Caller(target, item, 1)
    for i in range(n_cond):
        test.input(i, target.address(item.inputs[i]))
    for i in range(n_body):
        body.input(i, target.address(item.inputs[n_cond + i]))
    flag = fn.hoist("ptr", f"alloca i8, align 1 ; {fn.fresh()}")
    test.output(0, flag)
    current, following = _start(target, item, n_cond + n_body)

    def more(*pointers: Value) -> Value:
        for k in range(n_carry):
            test.input(n_cond + k, pointers[k])
        test.call()
        return fn.load(flag, "i1")

    def step(*pointers: Value) -> list[Value]:
        now, then = pointers[:n_carry], pointers[n_carry:]
        for k in range(n_carry):
            body.input(n_body + k, now[k])
            body.output(k, then[k])
        body.call()
        return [*then, *now]

    last = fn.repeat(more, step, [*current, *following])
    _finish(target, item, last[:n_carry])


def _branch(target: Any, item: Control) -> None:
    fn = target.fn
    choice, *rest = item.inputs
    n = len(item.bodies)
    value = fn.load(target.address(choice), target.kind(choice.store))
    if item.ins.op == "cond":
        at = fn.emit("i64", f"select {value}, i64 0, i64 1")
    else:
        wide = value if value.type == "i64" else fn.emit("i64", f"sext {value} to i64")
        low = fn.call("llvm.smax.i64", "i64", [wide, Value("0", "i64")])
        at = fn.call("llvm.smin.i64", "i64", [low, Value(str(n - 1), "i64")])
    for k in range(n):
        with fn.when(fn.emit("i1", f"icmp eq {at}, {k}")):
            caller = Caller(target, item, k)
            for i, ref in enumerate(rest):
                caller.input(i, target.address(ref))
            for i, store in enumerate(item.outputs):
                caller.output(i, target.base(store))
            caller.call()
