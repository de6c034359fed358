"""Derivatives with prange loops run as plain Python: iterations in a random order, every access to memory watched.

Two iterations of one loop that touch the same element, one of them writing, are a race: an error. Loops are cut into
parts however small they are.
"""

from __future__ import annotations

import contextlib
import random

import numpy as np
import python_mode

from nbgrad.njit import parallel, parallel_rewrite, regions


class RaceError(Exception):
    """Two iterations touch one element, and one of them writes to it."""


class Watch:
    """What the iterations of the parallel loop that runs have touched, by address."""

    def __init__(self, seed):
        self.r, self.iteration = random.Random(seed), None
        self.written: dict[int, object] = {}
        self.read: dict[int, set] = {}
        self.summed: dict[int, set] = {}
        self.alive: list = []  # memory that is given back could be given to the next iteration

    def prange(self, *bounds):
        assert self.iteration is None, "a parallel loop in a parallel loop"
        order = list(range(*bounds))
        self.r.shuffle(order)
        for i in order:
            self.iteration = i
            yield i
        self.iteration = None
        for found in (self.written, self.read, self.summed, self.alive):
            found.clear()

    def note(self, kind, address):
        """One access: ``read``, ``written`` or ``summed`` (atomically)."""
        me = self.iteration
        if kind == "written":
            if self.written.setdefault(address, me) != me:
                raise RaceError("two iterations write to one element")
            others = self.read.get(address, set()) | self.summed.get(address, set())
        else:
            seen = self.read if kind == "read" else self.summed
            seen.setdefault(address, set()).add(me)
            others = {self.written.get(address, me)}
            if kind == "summed":
                others |= self.read.get(address, set())
            else:
                others |= self.summed.get(address, set())
        if others - {me}:
            raise RaceError("one iteration reads an element that another one writes to")


WATCH = Watch(0)


class Watched(np.ndarray):
    """An array whose accesses are noted while a parallel loop runs."""

    def __array_finalize__(self, base):
        if WATCH.iteration is not None:
            WATCH.alive.append(self)

    def note(self, kind, index):
        if WATCH.iteration is None:
            return
        start = self.__array_interface__["data"][0]
        index = index if isinstance(index, tuple) else (index,)
        if len(index) == self.ndim and all(isinstance(i, int | np.integer) for i in index):
            where = (i % n * step for i, n, step in zip(index, self.shape, self.strides))
            WATCH.note(kind, start + sum(where))
            return
        part = np.ndarray.__getitem__(self, index)
        if isinstance(part, np.ndarray) and not np.may_share_memory(part, self):
            return  # chosen by a mask or by numbers: a copy
        part.note_all(kind)

    def note_all(self, kind):
        if WATCH.iteration is None:
            return
        start = self.__array_interface__["data"][0]
        for index in np.ndindex(*self.shape):
            WATCH.note(kind, start + sum(i * step for i, step in zip(index, self.strides)))

    def __getitem__(self, index):
        out = np.ndarray.__getitem__(self, index)
        if not isinstance(out, np.ndarray):
            self.note("read", index)
        return out

    def __setitem__(self, index, value):
        self.note("written", index)
        if isinstance(value, Watched):
            value.note_all("read")
        np.ndarray.__setitem__(self, index, value)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        for x in inputs:
            if isinstance(x, Watched):
                x.note_all("read")
        plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
        if out is None:
            return watched(getattr(ufunc, method)(*plain, **kwargs))
        out[0].note_all("written")
        targets = tuple(x.view(np.ndarray) for x in out)
        getattr(ufunc, method)(*plain, out=targets, **kwargs)
        return out[0]


def watched(x):
    """An argument with its arrays watched."""
    if isinstance(x, tuple):
        return tuple(watched(v) for v in x)
    return x.view(Watched) if isinstance(x, np.ndarray) else x


def atomic_add(array, index, value):
    array.note("summed", index)
    np.ndarray.__setitem__(array, index, np.ndarray.__getitem__(array, index) + value)


class Arrays:
    """NumPy, whose new arrays are watched."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if name not in ("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "array"):
            return found
        return lambda *args, **kwargs: watched(found(*args, **kwargs))


@contextlib.contextmanager
def small_parts(seed):
    """Loops of a few iterations are cut into parts; copies and atomic additions are cheap or dear, by the seed."""
    r = random.Random(seed)
    chosen = {
        (parallel_rewrite, "GRAIN"): r.choice([1, 20, 60]),
        (parallel_rewrite, "COPY_COST"): r.choice([0, 0, 16]),
        (parallel, "ATOMIC_COST"): r.choice([0, 20]),
        (regions, "STRETCH_BYTES"): r.choice([1, regions.STRETCH_BYTES]),
    }
    before = {key: getattr(*key) for key in chosen}
    for key, value in chosen.items():
        setattr(*key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            setattr(*key, value)


def call(derivative, *args, seed=0):
    """What ``derivative(*args)`` gives, its loops cut into small parts and run in a random order."""
    WATCH.__init__(seed)
    arrays = Arrays()
    names = {"prange": WATCH.prange, "np": arrays, "atomic_add": atomic_add}
    names |= {"empty": arrays.empty, "zeros": arrays.zeros}
    with small_parts(seed):
        return python_mode.call(derivative, *map(watched, args), names=names)
