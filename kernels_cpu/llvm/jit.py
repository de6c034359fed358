"""From LLVM assembly to machine code in this process, through the disk cache of `kernels_cpu.objcache`."""

from __future__ import annotations

import functools
import hashlib
import threading
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from .. import objcache

_lock = threading.RLock()


@functools.cache
def emitters_digest() -> str:
    """Hash of the sources that decide what is emitted for a call of a vecmath function."""
    here = Path(__file__).parent
    h = hashlib.sha256()
    for path in (*sorted(here.glob("*.py")), *sorted((here.parent / "vecmath").glob("*.py"))):
        h.update(path.read_bytes())
    return h.hexdigest()


@functools.cache
def lanes() -> int:
    """float64 values per vector on this machine."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 8
    return 4 if features.get("avx2") else 2


@functools.cache
def attributes() -> str:
    """Function attributes: use the widest vectors there are."""
    bits = 64 * lanes()
    return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


def compile_text(text: str, entry: str) -> tuple[int, Any]:
    """Address of ``entry`` of a module, compiled or from the disk cache (named by the module's text).

    The second result keeps the code alive: hold it as long as the address.

    Raises
    ------
    RuntimeError : the text is no valid assembly (a defect of the emitter).
    """
    key = objcache.digest("llvm-1", text, entry)
    with _lock:
        found = objcache.load_code(key)
        if found is None:
            obj = object_code(text)
            objcache.store(key, obj, entry)
            found = objcache.link(obj, entry)
    return found


def object_code(text: str) -> bytes:
    """Optimised machine code of a module."""
    machine = objcache.target_machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    optimise(module, machine)
    return machine.emit_object(module)


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """The clean-ups our text needs; it is vectorised already, so the loop vectorisers are left out."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
