"""Calling an emitted program: buffers, scratch memory, threads, host calls."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels_cpu import threads
from kernels_cpu.llvm import jit
from kernels_cpu.llvm.bind import Binder

from ..layout import contiguous, is_contiguous
from ..memory import host
from ..op import REGISTRY, Spec
from ..op.view import strided
from ..state import state
from ..tensor import Tensor
from .emit import ENTRY, Region, Segment, Spread, chunks_for, emit
from .items import Host
from .lower import ALIGN, Schedule
from .stores import Ref, Store, size_of

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)


def aligned(size: int) -> np.ndarray:
    """Uninitialised bytes at a multiple of 64."""
    raw = np.empty(size + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + size]


class Memory:
    """The workspace and scratch of one running call."""

    def __init__(self, program: Runner):
        self.work = aligned(max(program.layout.work_bytes, 1))
        self.scratch = [aligned(max(program.layout.scratch_bytes, 1))]
        self.table = np.zeros(program.slots, np.int64)
        self.table[: len(program.fixed)] = program.fixed
        self.table[-1] = self.work.ctypes.data
        self.address = self.table.ctypes.data
        self.scratch_address = [s.ctypes.data for s in self.scratch]
        self.bind_inputs = Binder(program.given, self.address)
        self.bind_outputs = Binder(len(program.out_specs), self.address + 8 * program.first_output)

    def threads(self, n: int) -> None:
        """Scratch for ``n`` threads."""
        while len(self.scratch) < n:
            self.scratch.append(aligned(len(self.scratch[0])))
            self.scratch_address.append(self.scratch[-1].ctypes.data)


class Runner:
    """A compiled schedule as a function of flat NumPy arrays."""

    def __init__(self, schedule: Schedule, in_specs: Sequence[Spec], out_specs: Sequence[Spec]):
        self.schedule = schedule
        self.layout = emit(schedule)
        self.consts = schedule.const_arrays
        n_in, n_const = len(schedule.inputs), len(self.consts)
        self.given = n_in
        self.slots = n_in + n_const + len(schedule.outputs) + 1
        self.first_output = n_in + n_const
        self.fixed_consts = [c.ctypes.data for c in self.consts]
        self.fixed = [0] * n_in + self.fixed_consts
        self.in_specs = [(tuple(s.shape), s.dtype) for s in in_specs]
        self.out_specs = [(tuple(s.shape), s.dtype) for s in out_specs]
        self.chunks = {r.index: r.chunks for _, r in self.layout.regions}
        self.extra_addresses: list[int] = []  # of constants that depend on the number of rows
        self.entry: Any = None
        self.seconds = 0.0  # what making the machine code took
        self.address = 0
        self.code: Any = None  # keeps the machine code loaded
        self.spare: list[Memory] = []
        self.lock, self.making = threading.Lock(), threading.Lock()

    def share(
        self, in_specs: Sequence[Spec], out_specs: Sequence[Spec], rows: int, extras: Sequence
    ) -> Runner:
        """The same machine code for another number of rows; ``extras`` are constants that depend on it."""
        self.compile()
        new = object.__new__(Runner)
        new.__dict__.update(self.__dict__)
        new.in_specs = [(tuple(s.shape), s.dtype) for s in in_specs]
        new.out_specs = [(tuple(s.shape), s.dtype) for s in out_specs]
        sizes, new.chunks = self.consts[0].copy(), {}
        for _, r in self.layout.regions:
            chunks = chunks_for(rows, r.tile, r.most, r.work)
            new.chunks[r.index] = chunks
            sizes[2 * r.index : 2 * r.index + 2] = rows, chunks
        new.consts = [sizes, *self.consts[1:]]
        new.fixed_consts = [c.ctypes.data for c in new.consts]
        new.extras = list(extras)
        new.given = len(self.schedule.inputs) - len(extras)
        new.extra_addresses = [e.ctypes.data for e in new.extras]
        new.fixed = [0] * new.given + new.extra_addresses + new.fixed_consts
        new.spare, new.lock = [], threading.Lock()
        return new

    def compile(self) -> None:
        """Machine code, from the disk cache where it has been made before."""
        with (
            self.making
        ):  # once: code that a second thread replaced would be freed while the first runs it
            if self.entry is None:
                start = time.perf_counter()
                self.address, self.code = jit.compile_text(self.layout.text, ENTRY)
                self.entry = _SIGNATURE(self.address)
                self.seconds = time.perf_counter() - start

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on contiguous arrays of the recorded shapes and dtypes."""
        outs = [host.empty(shape, dtype) for shape, dtype in self.out_specs]
        with self.lock:
            memory = self.spare.pop() if self.spare else None
        if memory is None:
            self.compile()
            memory = Memory(self)
        try:
            memory.bind_inputs(arrays)
            memory.bind_outputs(outs)
            for step in self.layout.steps:
                self._step(step, memory, arrays, outs)
        finally:
            with self.lock:
                self.spare.append(memory)
        return outs

    def _step(self, step: Any, memory: Memory, arrays: Sequence, outs: Sequence) -> None:
        if isinstance(step, Segment):
            self.entry(step.number, memory.address, 0, memory.scratch_address[0])
        elif isinstance(step, Region | Spread):
            self._region(step, memory)
        else:
            self._host(step, memory, arrays, outs)

    def _region(self, step: Region | Spread, memory: Memory) -> None:
        entry, number, table = self.entry, step.number, memory.address
        chunks, workers = step.chunks, threads.get_num_threads()
        if isinstance(step, Region):
            chunks = self.chunks[step.index]
        workers = min(workers, chunks)
        if workers < 2:
            for chunk in range(chunks):
                entry(number, table, chunk, memory.scratch_address[0])
            return
        memory.threads(workers)
        left = iter(range(chunks))  # next() of a range iterator is atomic

        def work(scratch: int) -> None:
            for chunk in left:
                entry(number, table, chunk, scratch)

        jobs = [lambda s=s: work(s) for s in memory.scratch_address[:workers]]
        threads.parallel(jobs)

    # -- host calls -------------------------------------------------------------------------------
    def _host(self, item: Host, memory: Memory, arrays: Sequence, outs: Sequence) -> None:
        operands = [self._array(r, memory, arrays, outs) for r in item.inputs]
        off = state.set_off(0)
        try:  # the operator itself, not its kernel: it checks its operands
            got = REGISTRY[item.ins.op](*map(Tensor, operands), **item.ins.params)
        finally:
            state.set_off(off)
        for store, value in zip(item.outputs, got if isinstance(got, tuple) else (got,)):
            shape = self.schedule.tape.specs[store.var].shape
            self._array(Ref(store, contiguous(shape)), memory, arrays, outs)[...] = value._data

    def _array(self, ref: Ref, memory: Memory, arrays: Sequence, outs: Sequence) -> np.ndarray:
        whole = self._buffer(ref.store, memory, arrays, outs)
        whole_store = size_of(ref.layout.shape) == whole.size
        if whole_store and is_contiguous(ref.layout) and ref.layout.offset == 0:
            return whole.reshape(ref.layout.shape)
        return strided(whole, ref.layout)

    def _buffer(self, s: Store, memory: Memory, arrays: Sequence, outs: Sequence) -> np.ndarray:
        if s.kind == "work":
            return memory.work[s.offset : s.offset + s.bytes].view(s.dtype)
        if s.kind == "fill":
            return np.full(1, s.value, s.dtype)
        return {"input": arrays, "const": self.consts, "output": outs}[s.kind][s.index].reshape(-1)
