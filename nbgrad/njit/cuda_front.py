"""The front end for CUDA kernels: names of ``numba.cuda`` in a kernel's text.

A thread's position (``cuda.grid(1)``, ``cuda.threadIdx.x``, ...) becomes a parameter of the program, which the printed
kernel sets first; ``cuda.local.array`` an allocation of known size; ``cuda.atomic.add`` an addition to an element.
"""

from __future__ import annotations

import ast
from typing import Any

from numba import types
from numba.np.numpy_support import from_dtype

from . import ir
from .front.build import Interpreter
from .front.objects import Py, Tup, Undefined

AXES = "xyz"
POSITIONS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
TOGETHER = {
    "syncthreads": "cuda.syncthreads: threads that work together",
    "syncthreads_count": "cuda.syncthreads_count: threads that work together",
    "syncthreads_and": "cuda.syncthreads_and: threads that work together",
    "syncthreads_or": "cuda.syncthreads_or: threads that work together",
    "syncwarp": "cuda.syncwarp: threads that work together",
    "shared.array": "shared memory",
}


class Name:
    """A name of ``numba.cuda``, as a path: ``grid``, ``local.array``."""

    def __init__(self, path: str):
        self.path = path
        self.__name__ = f"cuda.{path}"


class CudaInterpreter(Interpreter):
    """Reads kernels."""

    def __init__(self, name: str):
        super().__init__(name)
        self.positions: dict[str, ir.Value] = {}  # text -> parameter
        self.summed: dict[ir.Value, ast.AST] = {}  # arrays with cuda.atomic.add

    def position(self, text: str) -> ir.Value:
        """The parameter that stands for a thread's position or for a size of the launch."""
        if text not in self.positions:
            self.positions[text] = self.fn.add_param(types.intp, text.replace("cuda.", ""))
        return self.positions[text]

    def lookup(self, name: str, node: ast.AST) -> Any:
        """What a name stands for; names imported from ``numba.cuda`` too."""
        found = super().lookup(name, node)
        if isinstance(found, Py) and not isinstance(found.value, Name):
            path = _known(found.value)
            if path is not None:
                return Py(Name(path))
        return found

    def attribute(self, x: Any, name: str, node: ast.AST) -> Any:
        """An attribute: of the module ``numba.cuda``, of ``cuda.threadIdx`` and the like."""
        if isinstance(x, Py) and x.value is _cuda():
            return Py(Name(name))
        if isinstance(x, Py) and isinstance(x.value, Name):
            path = f"{x.value.path}.{name}"
            if x.value.path in POSITIONS and name in AXES:
                return self.position(f"cuda.{path}")
            return Py(Name(path))
        return super().attribute(x, name, node)

    def call_function(self, f: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """A call of a function known now."""
        if isinstance(f, Name):
            return self.call_cuda(f.path, args, kwargs, node)
        inner = getattr(f, "py_func", None) or getattr(f, "fn", None)
        if inner is not None and type(f).__module__.startswith(_cuda().__name__):
            return self.inline(inner, args, kwargs, node)
        return super().call_function(f, args, kwargs, node)

    def call_cuda(self, path: str, args: list[Any], kwargs: dict[str, Any], node: ast.AST) -> Any:
        """A function of ``numba.cuda``."""
        if path in ("grid", "gridsize"):
            return self.grid(path, args, node)
        if path == "local.array":
            return self.local_array(*_arguments(args, kwargs), node)
        if path == "const.array_like":
            return args[0]
        if path == "atomic.add":
            return self.atomic_add(args, node)
        if path in TOGETHER:
            raise self.refuse(
                node,
                f"{TOGETHER[path]} have no adjoint kernel",
                "Write the kernel so that each thread works by itself (cuda.atomic.add for sums), or give the launch "
                "rules with nbgrad's custom functions.",
            )
        raise self.refuse(
            node,
            f"'cuda.{path}' has no derivative here",
            "Use arithmetic, loops and cuda.atomic.add.",
        )

    def grid(self, path: str, args: list[Any], node: ast.AST) -> Any:
        """``cuda.grid`` and ``cuda.gridsize``."""
        n = args[0].value if args and isinstance(args[0], ir.Const) else 0
        if n not in (1, 2, 3):
            raise self.refuse(
                node,
                f"cuda.{path} of a number of dimensions that is not 1, 2 or 3",
                "Write a literal.",
            )
        items = tuple(self.position(f"cuda.{path}.{AXES[k]}") for k in range(n))
        return items[0] if n == 1 else Tup(items)

    def local_array(self, shape: Any, dtype: Any, node: ast.AST) -> ir.Value:
        """``cuda.local.array``."""
        sizes = list(shape.items) if isinstance(shape, Tup) else [shape]
        if not all(isinstance(n, ir.Const) for n in sizes):
            raise self.refuse(node, "a local array whose size is not a literal", "Use constants.")
        return self.alloc(sizes, _dtype(dtype), None, "local")

    def atomic_add(self, args: list[Any], node: ast.AST) -> Any:
        """``cuda.atomic.add(array, index, value)``."""
        array, index, value = args
        items = list(index.items) if isinstance(index, Tup) else [index]
        where = [self.index(i, array, k, node) for k, i in enumerate(items)]
        self.summed.setdefault(array, node)
        self.b.accum(array, where, self.cast(self.scalar(value, node), array.type.dtype))
        self.forget_loads()
        return Undefined(
            "what cuda.atomic.add returns depends on the order of threads; only the sum is known"
        )


def _cuda() -> Any:
    """The module kernels are written with."""
    from kernels_cuda import _compat

    return _compat.numba_cuda()


def _known(value: Any) -> str | None:
    """The path of an object of ``numba.cuda`` that a kernel imported by itself."""
    module = str(getattr(value, "__module__", ""))
    name = str(getattr(value, "__name__", ""))
    wanted = ("grid", "gridsize", "syncthreads", "local", "shared", "atomic", "const", *POSITIONS)
    return name if module.startswith(_cuda().__name__) and name in wanted else None


def _arguments(args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    given = [*args]
    return (
        given[0] if given else kwargs["shape"],
        given[1] if len(given) > 1 else kwargs["dtype"],
    )


def _dtype(x: Any) -> Any:
    """A dtype argument as a Numba type."""
    import numpy as np

    value = x.value if isinstance(x, Py) else x
    if hasattr(value, "bitwidth") and not isinstance(value, type):
        return getattr(types, str(value))
    return from_dtype(np.dtype(value))
