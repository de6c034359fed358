"""Save and load tapes: a JSON program and NumPy arrays in one ``.npz`` file, never pickle."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import TraceError, message
from ..layout import Layout
from ..op import REGISTRY, Spec
from ..tensor import Tensor
from ..utils import pytree
from .program import Guard, Instruction, Tape

FORMAT = 1


Arrays = dict[str, np.ndarray]


def encode(value: Any, arrays: Arrays) -> Any:
    """A parameter as JSON: tuples, layouts, dtypes and tapes are tagged; arrays of sub-tapes go to ``arrays``."""
    if isinstance(value, Tape):
        return {"tape": encode_tape(value, arrays)}
    if isinstance(value, Layout):
        return {"layout": [list(value.shape), list(value.strides), value.offset]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return {"tuple": [encode(v, arrays) for v in value]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TraceError(
        f"save: a parameter of type {type(value).__name__} cannot be written (a custom Function, perhaps)"
    )


def decode(value: Any, arrays: Arrays) -> Any:
    """The inverse of `encode`."""
    if not isinstance(value, dict):
        return value
    if "tape" in value:
        return decode_tape(value["tape"], arrays)
    if "layout" in value:
        shape, strides, offset = value["layout"]
        return Layout(tuple(shape), tuple(strides), offset)
    if "dtype" in value:
        return dt.as_dtype(value["dtype"], "load")
    if "complex" in value:
        return complex(*value["complex"])
    if "float" in value:
        return float(value["float"])
    return tuple(decode(v, arrays) for v in value["tuple"])


_KINDS = {"leaf": "leaf", "none": "none", "tuple": tuple, "list": list, "dict": dict}


def encode_tree(tree: Any) -> Any:
    """A tree definition as JSON (named tuples are refused: their class cannot be restored safely)."""
    if tree is None:
        return None
    name = tree.kind if isinstance(tree.kind, str) else tree.kind.__name__
    if name not in _KINDS:
        raise TraceError(
            f"save: a result or argument of type {name} cannot be written; use a tuple or dict"
        )
    return [name, list(tree.keys), [encode_tree(c) for c in tree.children]]


def decode_tree(data: Any) -> Any:
    """The inverse of `encode_tree`."""
    if data is None:
        return None
    name, keys, children = data
    return pytree.TreeDef(_KINDS[name], tuple(keys), tuple(decode_tree(c) for c in children))


def encode_tape(tape: Tape, arrays: Arrays) -> dict:
    """A tape as JSON; its arrays join ``arrays`` under a prefix of its own."""
    prefix = f"{len(arrays)}/" if arrays else ""
    arrays |= {f"{prefix}v{v}": t.detach().cpu().numpy() for v, t in tape.captured.items()}
    arrays |= {f"{prefix}g{k}": g.value for k, g in enumerate(tape.guards)}
    return {
        "prefix": prefix,
        "inputs": tape.inputs,
        "outputs": tape.outputs,
        "specs": {str(v): [list(s.shape), s.dtype.name] for v, s in tape.specs.items()},
        "instructions": [
            [
                i.op,
                list(i.inputs),
                {k: encode(v, arrays) for k, v in i.params.items()},
                list(i.outputs),
            ]
            for i in tape.instructions
        ],
        "writes": sorted(tape.writes),
        "captured": list(tape.captured),
        "guards": [[g.var, g.what, g.position] for g in tape.guards],
        "in_tree": encode_tree(tape.in_tree),
        "out_tree": encode_tree(tape.out_tree),
    }


def save(tape: Tape, path: Any) -> None:
    """Write a tape; captured tensors are written with their present values."""
    arrays: Arrays = {}
    program = {"format": FORMAT, **encode_tape(tape, arrays)}
    text = np.frombuffer(json.dumps(program).encode(), np.uint8)
    with open(path, "wb") as f:
        np.savez(f, program=text, **arrays)  # type: ignore[arg-type]


def load(path: Any) -> Tape:
    """Read a tape written by `save` and verify it.

    Raises
    ------
    TraceError : not a tape, another format, or an operator this version does not have.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            data = {name: archive[name] for name in archive.files}
        program = json.loads(data["program"].tobytes().decode())
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        raise TraceError(
            message("load", "the file", path, "a tape written by Tape.save")
        ) from error
    if program.get("format") != FORMAT:
        raise TraceError(message("load", "the tape's format", program.get("format"), f"{FORMAT}"))
    tape = decode_tape(program, data)
    tape.verify()
    return tape


def decode_tape(program: dict, data: Arrays) -> Tape:
    """The inverse of `encode_tape`."""
    tape, prefix = Tape(), program.get("prefix", "")
    tape.inputs, tape.outputs = program["inputs"], program["outputs"]
    tape.writes = set(program["writes"])
    tape.specs = {
        int(v): Spec(tuple(shape), dt.as_dtype(name, "load"))
        for v, (shape, name) in program["specs"].items()
    }
    for op, ins, params, outs in program["instructions"]:
        if op not in REGISTRY:
            raise TraceError(f"load: operator '{op}' is not in this version of nbgrad")
        tape.instructions.append(
            Instruction(
                op, tuple(ins), {k: decode(v, data) for k, v in params.items()}, tuple(outs)
            )
        )
    tape.captured = {v: Tensor(data[f"{prefix}v{v}"]) for v in program["captured"]}
    tape.guards = [
        Guard(v, data[f"{prefix}g{k}"], what, at)
        for k, (v, what, at) in enumerate(program["guards"])
    ]
    tape.in_tree, tape.out_tree = decode_tree(program["in_tree"]), decode_tree(program["out_tree"])
    return tape
