"""Derivatives run as plain Python: the program that would go to Numba, without compiling it.

Hundreds of random programs fit into the time in which Numba compiles ten.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import types

from nbgrad.njit import door, ir
from nbgrad.njit.front.objects import Tup


def checked(index):
    """The index of an access that compiled code does not check."""
    assert np.min(index) >= 0, f"index {index} without a check"
    return index


def get(array, index):
    return array[checked(index)]


def put(array, index, value):
    array[checked(index)] = value


def add_to(array, index, value):
    array[checked(index)] += value


def copied(target, source):
    target[...] = source


def added(target, source):
    target += source


def held(tape, used, array):
    out = np.empty(max(tape.size, used + array.size), tape.dtype)
    out[: tape.size] = tape
    out[used : used + array.size] = array.ravel()
    return out


INTRINSICS = {
    "empty": np.empty,
    "zeros": np.zeros,
    "window": lambda tape, at, n: tape[at : at + np.prod(n, dtype=int)].reshape(n),
    "larger": max,
    "smaller": min,
    **{f"copy_{rank}": copied for rank in range(6)},
    **{f"add_{rank}": added for rank in range(6)},
    **{f"hold_{rank}": held for rank in range(6)},
    "get": get,
    "put": put,
    "add_to": add_to,
    "radd": lambda x, y: x + y,
    "zdiv": lambda g, y: g / y if g != 0 else g,
    "chosen": lambda c, x, y: x if c else y,
    "disjoint": lambda x, y: not np.may_share_memory(x, y),
}


def call(derivative, *args, names=None):
    """What ``derivative(*args)`` gives, by its program as Python; ``names`` replace those the program uses."""
    transformation = derivative._nbgrad_transformation
    omitted = [types.Omitted(p.default) for p in transformation.parameters[len(args) :]]
    kinds = [numba.typeof(a) for a in args] + omitted
    compiled, objects = door.program(transformation, kinds)
    source = compiled.source
    space = {"np": np, "math": math, "prange": range, **source.names}
    for name, f in source.names.items():
        space[name] = INTRINSICS.get(getattr(f, "__name__", name), f)
    space.update(names or {})
    exec(compile(source.text, f"<{source.name}>", "exec"), space)
    with np.errstate(all="ignore"):
        out = space[source.name](*(v for o, a in zip(objects, args) for v in parameters(o, a)))
    out = iter(out if isinstance(out, tuple) else (out,))
    return rebuilt(compiled.result, out)


def parameters(obj, arg):
    """The numbers and arrays of an argument that are parameters of the program."""
    if isinstance(obj, ir.Value):
        return [] if isinstance(obj, ir.Const) else [arg]
    if isinstance(obj, Tup):
        return [v for o, a in zip(obj.items, arg) for v in parameters(o, a)]
    return []


def rebuilt(obj, values):
    """The result from the values that the program returns."""
    if isinstance(obj, ir.Value):
        return next(values)
    if isinstance(obj, Tup):
        return tuple(rebuilt(o, values) for o in obj.items)
    return obj.value
