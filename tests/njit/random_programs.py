"""Random programs of the language, each from a seed, as text.

Values stay moderate (products are damped, assignments often go through tanh), integers are reduced by ``%``, and a
variable is only read where it is assigned; so almost every program runs, and compiles, as it is.
"""

from __future__ import annotations

import linecache
import random
import zlib

import numba
import numpy as np
from random_statements import Statements

HEADER = """import math
from collections import namedtuple

import numpy as np
from numba import njit

Pair = namedtuple("Pair", "first second")


"""
SHAPES = {"a": (6,), "b": (6,), "m": (3, 4), "c": (2, 3, 2), "h": (4,)}
HELPERS = {
    "float": ("p, q=0.4", lambda g: g.real(1)),
    "pair": ("p, q", lambda g: f"math.tanh({g.real(1)}), {g.leaf()}"),
    "number": ("u, p", lambda g: g.real(1)),
    "write": ("u, p", None),
    "array": ("u, p=0.3", lambda g: f"1.0 * {g.array(('u.shape[0]',), 1)}"),
    "alias": ("u, p", lambda g: g.r.choice(["u", "u[::-1]", "u[:]"])),
    "choose": ("u, w, p", lambda g: f"u if {g.condition()} else w"),
    "both": ("u, p", lambda g: f"1.0 * {g.array(('u.shape[0]',), 1)}, {g.real(1)}"),
}


def helper_text(rng, name, kind, earlier, pure=False):
    """An @njit function; a pure one does not write to its argument."""
    signature, returns = HELPERS[kind]
    g = Statements(rng, earlier, rng.randint(1, 4), returns)
    names = [n.split("=")[0] for n in signature.split(", ")]
    g.scope.floats = [n for n in names if n in "pq"]
    for array in names:
        if array in "uw":
            g.scope.arrays[array] = ("u.shape[0]",)
            g.scope.frozen |= {array} if pure else set()
    while g.budget > 0:
        g.statement(1)
    if kind == "write":
        g.put(f"u[{g.index('u.shape[0]')}] += {g.real(1)}")
    else:
        g.put(f"return {returns(g)}")
    return f"@njit\ndef {name}({signature}):\n" + "\n".join(g.lines) + "\n\n\n"


def final(g):
    """What an early return gives."""
    return f"{g.real(1)} + {g.leaf()}"


def several(g):
    """A number and arrays."""
    return f"{final(g)}, 2.0 * a, ({g.array((4,), 1)}) * b[1]"


def text_of(seed: int) -> str:
    """The module of a seed: helpers and the function ``f(a, b, m, c, h, t, g, x, y, z, n)``."""
    rng = random.Random(seed)
    out, helpers = HEADER, {}
    for i in range(rng.randint(0, 3)):
        kind = rng.choice(list(HELPERS))
        out += helper_text(rng, f"h{i}", kind, dict(helpers))
        helpers[f"h{i}"] = kind
    returns = several if is_several(seed) else final
    g = Statements(rng, helpers, rng.randint(6, 22), returns)
    s = g.scope
    s.floats, s.ints, s.complexes = ["x", "y"], ["n"], ["z"]
    s.arrays = dict(SHAPES)
    if rng.random() < 0.3:
        s.complexes += [f"g[{rng.randint(-3, 2)}]", "g[n % 3]"]
        s.complex_arrays = ["g"]
    s.single = {"h"}
    s.frozen = {"n"}
    if rng.random() < 0.3:
        s.floats += ["t[0]", "t[1][1]"]
        s.arrays["t[1][0]"] = (3,)
        s.frozen |= {"t[0]", "t[1][1]"}
    while g.budget > 0:
        g.statement(3)
    g.put("s = x * y + z.real * z.imag + h[1] * c[1, 2, 0]")
    g.put("for q in range(6):")
    g.put("    s += a[q] * (q + 1) * 0.3 + b[q] * b[q] * 0.5 + m[q % 3, q % 4] * a[q]")
    g.put(f"return s + {returns(g)}")
    return out + "@njit\ndef f(a, b, m, c, h, t, g, x, y, z, n):\n" + "\n".join(g.lines) + "\n"


def load(text: str, **names):
    """The function ``f`` of a module's text, with a source that inspect finds."""
    return loaded(text, **names)["f"]


def loaded(text: str, **names) -> dict:
    """The names of a module's text."""
    name = f"<random program {zlib.crc32(text.encode()):08x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np, "njit": numba.njit, "__name__": "random_program", **names}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def is_single(seed: int) -> bool:
    """Whether the program is called with a float32 array; results are compared as loosely."""
    return seed % 8 == 5


def is_several(seed: int) -> bool:
    """Whether the program returns a tuple."""
    return seed % 8 == 3


def cotangent_of(seed: int):
    """That of the tuple."""
    rng = np.random.default_rng(seed + 3)
    return (0.7, rng.standard_normal(6), rng.standard_normal(4)) if is_several(seed) else None


def arguments(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    x, y, p, q = (float(v) for v in rng.standard_normal(4))
    arrays = [rng.standard_normal(s) for s in SHAPES.values()]
    if is_single(seed):
        arrays[-1] = arrays[-1].astype(np.float32)
    t = (float(rng.standard_normal()), (rng.standard_normal(3), 0.7))
    g = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    return (*arrays, t, g, x, y, complex(p, q), 4)


def argnums_of(seed: int) -> tuple[int, ...]:
    """Often all that can be differentiated, else a part, so that activity matters."""
    rng = random.Random(seed + 1)
    everything = tuple(range(10))
    if rng.random() < 0.5:
        return everything
    return tuple(sorted(rng.sample(everything, rng.randint(1, 4))))
