"""Elementwise loops: any number of inputs and outputs, any strides, one vectorised body.

The body works on tiles of contiguous memory. An operand that is already contiguous is used in place; any other one
(strided, broadcast with stride 0, reversed) is copied through a stack tile. So there is one body to compile and to
vectorise, whatever the strides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import build, threads
from .codes import code

GATHERS = ("sin", "cos", "tan")  # vecmath functions that read tables


def loop_source(
    ins: Sequence[np.dtype],
    outs: Sequence[np.dtype],
    body: Sequence[str],
    results: Sequence[str],
    names: Sequence[str],
    staged: bool = False,
) -> str:
    """Source of the loop ``k``; ``body`` computes from the ``names`` of the inputs, ``results`` name the outputs.

    ``staged`` bodies always write to a stack tile, which provably aliases nothing: bodies that look up tables
    (gathers) are vectorised only then.
    """
    kinds = [code(d) for d in (*ins, *outs)]
    sizes = [d.itemsize for d in (*ins, *outs)]
    nin, n = len(ins), len(kinds)
    lines = ["def k(args, dims, steps, data):", "    n = dims[0]"]
    for i in range(n):
        lines += [
            f"    a{i} = args[{i}]",
            f"    s{i} = steps[{i}]",
            f"    b{i} = tile_{kinds[i]}()",
            f"    c{i} = s{i} == {sizes[i]}",
        ]
    # an output that is also an input goes through its tile, so that the body's pointers never alias
    for j in range(nin, n):
        alias = " or ".join(f"a{i} == a{j}" for i in range(nin))
        if alias and not staged:
            lines += [f"    if {alias}:", f"        c{j} = False"]
    lines += ["    j = 0", "    while j < n:", "        m = n - j", "        if m > TILE:"]
    lines += ["            m = TILE"]
    for i in range(n):
        lines.append(f"        p{i} = b{i}")
        if i < nin or not staged:
            lines += [f"        if c{i}:", f"            p{i} = ptr_{kinds[i]}(a{i})"]
        if i < nin:
            lines += [
                f"        elif s{i} == 0:",
                f"            v{i} = load_{kinds[i]}(a{i})",
                "            for i in range(m):",
                f"                b{i}[i] = v{i}",
                "        else:",
                "            for i in range(m):",
                f"                b{i}[i] = load_{kinds[i]}(a{i} + i * s{i})",
            ]
    lines.append("        for i in range(m):")
    for i in range(nin):
        lines.append(f"            {names[i]} = p{i}[i]" + (" != 0" if kinds[i] == "b1" else ""))
    lines += ["            " + text for text in body]
    lines += [f"            p{nin + j}[i] = {r}" for j, r in enumerate(results)]
    for j in range(nin, n):
        if staged:
            lines += [
                f"        if c{j}:",
                f"            q{j} = ptr_{kinds[j]}(a{j})",
                "            for i in range(m):",
                f"                q{j}[i] = b{j}[i]",
            ]
        lines += [
            f"        {'else' if staged else f'if not c{j}'}:",
            "            for i in range(m):",
            f"                store_{kinds[j]}(a{j} + i * s{j}, b{j}[i])",
        ]
    lines.append("        j += m")
    lines += [f"        a{i} += m * s{i}" for i in range(n)]
    # fmod runs on the x87 unit, whose flags NumPy looks at too
    x87 = any("fmod(" in line for line in body)
    lines.append("    clear_all_fp_flags()" if x87 else "    clear_fp_flags()")
    return "\n".join(lines) + "\n"


def build_ufunc(
    name: str,
    ins: Sequence[np.dtype],
    outs: Sequence[np.dtype],
    body: Sequence[str],
    results: Sequence[str],
    names: Sequence[str],
) -> np.ufunc:
    """A NumPy ufunc whose scalar body is the given source lines (names: `kernels_cpu.namespace`)."""
    staged = any(f"{f}_float" in line for f in GATHERS for line in body)
    source = loop_source(ins, outs, body, results, names, staged)
    address = build.compile_loop(source)
    made = build.make_ufunc(name, address, [*ins, *outs], len(ins))
    if any("_float" in line or "math." in line for line in body):
        threads.heavy.add(made)
    return made
