"""Elementwise loops: any number of inputs and outputs, any strides, one vectorised body.

The body works on tiles of contiguous memory. An operand that is already contiguous is used in place; any other one
(strided, broadcast with stride 0, reversed) is copied through a stack tile. So there is one body to compile and to
vectorise, whatever the strides.
"""

from __future__ import annotations

import re
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
    near = near_variant(body, names) if staged else None
    if near is None:
        lines += _body_loop(names, kinds, body, results, "        ")
    else:
        inputs, near_body = near
        test = " | ".join(f"(_fabs(p{i}[i]) > NEAR)" for i in inputs)
        lines += [
            "        far = 0",
            "        for i in range(m):",
            f"            far |= int64({test})",
        ]
        lines += ["        if far:", *_body_loop(names, kinds, body, results, "            ")]
        lines += ["        else:", *_body_loop(names, kinds, near_body, results, "            ")]
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


def _body_loop(
    names: Sequence[str],
    kinds: Sequence[str],
    body: Sequence[str],
    results: Sequence[str],
    pad: str,
) -> list[str]:
    """The loop over one tile."""
    nin = len(names)
    lines = [f"{pad}for i in range(m):"]
    for i in range(nin):
        lines.append(f"{pad}    {names[i]} = p{i}[i]" + (" != 0" if kinds[i] == "b1" else ""))
    lines += [f"{pad}    {text}" for text in body]
    return lines + [f"{pad}    p{nin + j}[i] = {r}" for j, r in enumerate(results)]


_NEAR = re.compile(r"\b(sin|cos)_float64\((\w+)\)")


def near_variant(body: Sequence[str], names: Sequence[str]) -> tuple[list[int], list[str]] | None:
    """The body with sin and cos of *inputs* replaced by their versions for moderate arguments.

    A tile whose inputs are all moderate runs it: three times as fast, since it needs no table.
    """
    found = {name for line in body for _, name in _NEAR.findall(line)}
    if not found or not found <= set(names):
        return None
    inputs = [i for i, name in enumerate(names) if name in found]
    return inputs, [_NEAR.sub(r"\1_near_float64(\2)", line) for line in body]


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
