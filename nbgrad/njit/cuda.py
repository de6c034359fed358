"""``nbgrad.njit.cuda``: adjoints of ``@cuda.jit`` kernels, as kernels.

``adj = nbgrad.njit.cuda.vjp(kernel)``; ``adj[grid, block](*args, *shadows)`` runs, in each thread, the kernel forward (what
its reverse needs of it) and then backwards. The program is that of the Numba door, printed for CUDA.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype, from_dtype

from ..errors import ArgumentError, DTypeError, OutOfMemoryError, UnsupportedError, message
from . import ir, scalars
from .adjoint import adjoint
from .alias import Aliases, writes_in, written
from .cuda_emit import Factor, Kernel, emit_kernel
from .cuda_front import AXES, CudaInterpreter
from .front import source
from .front.build import build
from .share import share
from .simplify import simplify
from .tidy import fold

SLOTS = 256  # places a thread has on each stack, unless the user says otherwise


def vjp(
    kernel: Any, argnums: int | Sequence[int] | None = None, *, tape: int | None = None
) -> AdjointKernel:
    """The adjoint kernel of a CUDA kernel.

    Parameters
    ----------
    kernel : a ``@cuda.jit`` kernel, or the plain function of one, in which every thread works by itself.
    argnums : arguments with a shadow (a cotangent array); None: all floating-point arrays, in order.
    tape : values a thread can keep for its reverse on each stack, needed only for loops whose length is not
        determined by numbers and sizes passed to the kernel (256 without it).

    Returns
    -------
    An object that is launched like the kernel, ``adj[grid, block, stream](*args, *shadows)``, with one shadow for each of
    ``argnums``: an array like the argument, or an array of one element for a number. Shadows of arrays the kernel
    writes to enter as the cotangents of what it leaves there; to the others the launch adds. On return all of them are
    cotangents of what was there before (zeros where it was overwritten). ``args`` hold what the kernel is called
    with; an array that it writes to and reads is written again.

    Raises
    ------
    UnsupportedError : something in the kernel has no adjoint (shared memory, ``syncthreads``, calls).
    """
    return AdjointKernel(kernel, argnums, tape)


class Program(NamedTuple):
    """An adjoint for the types of a launch: the kernel, its function, and what its buffers need."""

    kernel: Kernel
    function: Any
    arg_types: list[Any]  # of arguments and shadows
    params: list[ir.Value]  # of the kernel differentiated

    def signature(self) -> tuple:
        """The types of all parameters of the adjoint, buffers included."""
        out = list(self.arg_types)
        out += [types.Array(b.dtype, 2, "C") for b in self.kernel.buffers]
        if self.kernel.bounded:
            out += [types.intp, types.Array(types.int64, 1, "C")]
        return tuple(out)


class AdjointKernel:
    """An adjoint kernel, made for the types of each launch."""

    def __init__(self, kernel: Any, argnums: Any, tape: int | None):
        function = getattr(kernel, "py_func", None) or getattr(kernel, "fn", kernel)
        if not hasattr(function, "__code__"):
            raise DTypeError(
                message("njit.cuda.vjp", "the kernel", type(kernel).__name__, "a @cuda.jit kernel")
            )
        if tape is not None and (type(tape) is not int or tape < 1):
            raise ArgumentError(message("njit.cuda.vjp", "tape", repr(tape), "a positive int"))
        self.function = function
        self.count = function.__code__.co_argcount
        self.argnums = argnums if argnums is None else self.positions(argnums)
        self.tape = tape
        self.programs: dict[tuple, Program] = {}
        self.compiled: dict[tuple, Any] = {}
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def positions(self, argnums: Any) -> list[int]:
        """Checked positions of arguments."""
        found = [argnums] if isinstance(argnums, int) else list(argnums)
        for k in found:
            if type(k) is not int or not -self.count <= k < self.count:
                raise ArgumentError(
                    message(
                        "njit.cuda.vjp", "argnums", k, f"positions among the {self.count} arguments"
                    )
                )
        return [k % self.count for k in found]

    def chosen(self, arg_types: Sequence[Any]) -> list[int]:
        """Which arguments have shadows."""
        if self.argnums is not None:
            for k in self.argnums:
                if not ir.is_float(arg_types[k]):
                    raise DTypeError(
                        message(
                            "njit.cuda.vjp", f"argument {k}", arg_types[k], "floating-point numbers"
                        )
                    )
            return self.argnums
        return [k for k, t in enumerate(arg_types) if isinstance(t, types.Array) and ir.is_float(t)]

    def program(self, arg_types: Sequence[Any], axes: str = "x") -> Program:
        """The adjoint for Numba types of the kernel's arguments and a launch with several threads along ``axes``."""
        key = (tuple(arg_types), axes)
        if key not in self.programs:
            self.programs[key] = _program(
                self.function, list(arg_types), self.chosen(arg_types), frozenset(axes)
            )
        return self.programs[key]

    def source(self, arg_types: Sequence[Any], axes: str = "x") -> str:
        """The text of the adjoint kernel."""
        return self.program(arg_types, axes).kernel.text

    def ptx(self, arg_types: Sequence[Any], cc: tuple[int, int], axes: str = "x") -> str:
        """The adjoint kernel compiled for a compute capability, without a device."""
        from kernels_cuda import _compat

        p = self.program(arg_types, axes)
        _compat._compile_without_nvrtc(cc)
        code, _ = _compat.numba_cuda().compile(
            p.function, p.signature(), device=False, cc=cc, output="ptx", abi="numba"
        )
        return code

    def __getitem__(self, config: Any) -> Any:
        """``adj[grid, block]`` or ``adj[grid, block, stream]``."""
        if not isinstance(config, tuple) or len(config) < 2:
            raise ArgumentError(
                message("njit.cuda.vjp", "the launch", repr(config), "adj[grid, block](...)")
            )
        return functools.partial(self.launch, config)

    def launch(self, config: tuple, *args: Any) -> None:
        """Run the adjoint kernel."""
        from kernels_cuda import _compat

        given = [kind_of(a) for a in args]
        wanted = self.chosen(given[: self.count]) if len(given) >= self.count else []
        if len(args) != self.count + len(wanted):
            raise ArgumentError(
                message(
                    "njit.cuda.vjp",
                    "the launch",
                    f"{len(args)} arguments",
                    f"{self.count} arguments of '{self.__name__}' and a shadow for each of {tuple(wanted)}",
                )
            )
        check_shadows(wanted, given[: self.count], given[self.count :])
        grid, block = (_three(x) for x in config[:2])
        axes = "".join(a for a, g, b in zip(AXES, grid, block, strict=True) if g * b > 1)
        p = self.program(given[: self.count], axes)
        threads = functools.reduce(operator.mul, (*grid, *block))
        module = _compat.require()
        compiled = self.compiled.get((tuple(given), axes))
        if compiled is None:
            compiled = self.compiled[tuple(given), axes] = module.jit(p.function)
        slots = self.tape or SLOTS
        buffers = []
        for b in p.kernel.buffers:
            n = slots if b.sizes is None else _slots(b.sizes, dict(zip(p.params, args)))
            buffers.append(module.device_array((max(n, 1), threads), as_dtype(b.dtype)))
        if not p.kernel.bounded:
            compiled[config](*args, *buffers)
            return
        need = module.to_device(np.zeros(1, np.int64))
        compiled[config](*args, *buffers, slots, need)
        most = int(need.copy_to_host()[0])
        if most > slots:
            raise OutOfMemoryError(
                f"njit.cuda: a thread of the adjoint of '{self.__name__}' keeps more than {slots} values on one stack "
                f"(at least {most}); the shadows are incomplete. Pass tape={2 * most} to vjp, or make the "
                "length of the loop an argument."
            )


def _slots(sizes: list[list[Factor]], values: dict[ir.Value, Any]) -> int:
    """A sum of products."""

    def number(x: Factor) -> int:
        if isinstance(x, tuple):
            return max(evaluate(x[1], values) - evaluate(x[0], values), 0)
        return evaluate(x, values)

    return sum(functools.reduce(operator.mul, map(number, product), 1) for product in sizes)


def _three(x: Any) -> tuple[int, int, int]:
    items = [int(n) for n in x] if isinstance(x, tuple | list) else [int(x)]
    return tuple(items + [1] * (3 - len(items)))  # type: ignore[return-value]


def kind_of(x: Any) -> Any:
    """The Numba type of an argument of a launch."""
    if isinstance(x, bool | np.bool_):
        return types.boolean
    if isinstance(x, int):
        return types.intp
    if isinstance(x, float):
        return types.float64
    if isinstance(x, complex):
        return types.complex128
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        raise DTypeError(
            message("njit.cuda.vjp", "an argument", type(x).__name__, "numbers and arrays")
        )
    kind = from_dtype(np.dtype(dtype))
    shape = getattr(x, "shape", ())
    if isinstance(x, np.generic):
        return kind
    return types.Array(kind, len(shape), _layout(x.shape, x.strides, np.dtype(dtype).itemsize))


def _layout(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> str:
    for name, order in (("C", range(len(shape) - 1, -1, -1)), ("F", range(len(shape)))):
        step = itemsize
        for k in order:
            if shape[k] != 1 and strides[k] != step:
                break
            step *= shape[k]
        else:
            return name
    return "A"


def check_shadows(wanted: Sequence[int], args: Sequence[Any], shadows: Sequence[Any]) -> None:
    """Raise for a shadow that is not like its argument."""
    for k, s in zip(wanted, shadows, strict=True):
        t = args[k]
        ndim, dtype = (t.ndim, t.dtype) if isinstance(t, types.Array) else (1, t)
        if not isinstance(s, types.Array) or s.dtype != dtype or s.ndim != ndim:
            raise DTypeError(
                message(
                    "njit.cuda.vjp",
                    f"the shadow of argument {k}",
                    s,
                    f"a {ndim}-D array of {dtype}",
                )
            )


# -- making the program --------------------------------------------------------------------------------------------


def _program(
    function: Any, arg_types: list[Any], wanted: list[int], axes: frozenset[str]
) -> Program:
    """Differentiate a kernel."""
    it = CudaInterpreter(function.__name__)
    names = [a.arg for a in source.parse(function).args.args]
    objects = [it.argument(t, n) for t, n in zip(arg_types, names, strict=True)]
    params = list(it.fn.params)
    fn = build(function, objects, it).fn
    refuse_mixed(fn, it)
    outputs = [k for k in wanted if k in _written(fn)]
    pulled = adjoint(fn, wanted, [], outputs)
    f = pulled.fn
    f.name = f"{function.__name__}_adjoint"
    shadow = dict(zip(pulled.shadows, f.params[len(params) + len(it.positions) :], strict=True))
    forget_unread(f, params)
    tidy(f)
    numbers = dict(zip(pulled.inputs, f.results, strict=True))
    arguments, totals, kinds = list(params), [], list(arg_types)
    for k in wanted:
        if isinstance(arg_types[k], types.Array):
            arguments.append(shadow[k])
            kinds.append(arg_types[k])
            continue
        total = ir.Value(types.Array(arg_types[k], 1, "C"), "d_" + names[k])
        arguments.append(total)
        kinds.append(total.type)
        totals.append((numbers[k], total))
    known = set(params)
    kernel = emit_kernel(f, arguments, it.positions, totals, axes, lambda n: computable(n, known))
    return Program(kernel, _function(kernel), kinds, params)


def _written(fn: ir.Function) -> set[int]:
    """The positions of parameters that are written to."""
    aliases = Aliases(fn)
    memories = {aliases.of(t) for t in writes_in(fn.body)}
    return {k for k, p in enumerate(fn.params) if ir.is_array(p) and aliases.of(p) in memories}


def refuse_mixed(fn: ir.Function, it: CudaInterpreter) -> None:
    """Raise where a thread reads what all threads add to: what it finds there depends on their order."""
    aliases = Aliases(fn)
    sums = {aliases.of(a): node for a, node in it.summed.items()}
    for op in ir.walk(fn.body):
        if op.kind == "load" and aliases.of(op.args[0]) in sums:
            raise UnsupportedError(
                f"njit.cuda: kernel '{fn.name}' reads '{op.args[0].name}' and adds to it with cuda.atomic.add; what a thread "
                "reads depends on the order of the threads. Use two arrays, or two kernels."
            )


def forget_unread(f: ir.Function, params: Sequence[ir.Value]) -> None:
    """Drop writes to arguments that nothing reads: the kernel itself has made them."""
    aliases = Aliases(f)
    read = {aliases.of(a) for op in ir.walk(f.body) for a in _reads(op)}
    mine = {aliases.of(p) for p in params if ir.is_array(p)} - read

    def sweep(block: ir.Block) -> None:
        block.ops = [
            o for o in block.ops if written(o) is None or aliases.of(o.args[0]) not in mine
        ]
        for o in block.ops:
            for b in o.blocks:
                sweep(b)

    sweep(f.body)
    simplify(f)


def tidy(f: ir.Function) -> None:
    """Constants folded, what is computed or read twice shared."""
    fold(f)
    share(f)
    simplify(f)


def _reads(op: ir.Op) -> list[ir.Value]:
    if op.kind == "load":
        return op.args[:1]
    return [a for a in op.args[1:] if ir.is_array(a)] if op.kind in ("copy", "add", "call") else []


def _function(kernel: Kernel) -> Any:
    """The Python function of a kernel's text."""
    from kernels_cuda import _compat, scalar

    space = {
        **scalar.namespace(),
        "np": np,
        **kernel.names,
        "cuda": _compat.numba_cuda(),
        "__name__": __name__,
    }
    exec(compile(kernel.text, f"<nbgrad.njit.cuda {kernel.name}>", "exec"), space)
    return space[kernel.name]


# -- sizes the launch computes ------------------------------------------------------------------------------------------


def computable(v: ir.Value, known: set[ir.Value]) -> bool:
    """Whether a size follows from numbers and shapes passed to the kernel."""
    if isinstance(v, ir.Const):
        return True
    op = v.op
    if op is None:
        return v in known
    if op.kind == "shape":
        return op.args[0] in known
    if op.kind == "cast":
        return computable(op.args[0], known)
    return (
        op.kind == "apply"
        and op.attrs["fn"] in scalars.FOLD
        and all(computable(a, known) for a in op.args)
    )


def evaluate(v: ir.Value, values: dict[ir.Value, Any]) -> Any:
    """A size in numbers."""
    if isinstance(v, ir.Const):
        return v.value
    if v in values:
        return values[v]
    assert v.op is not None
    if v.op.kind == "shape":
        return values[v.op.args[0]].shape[v.op.attrs["axis"]]
    if v.op.kind == "cast":
        return int(evaluate(v.op.args[0], values))
    return scalars.fold(v.op.attrs["fn"], [evaluate(a, values) for a in v.op.args])


__all__ = ["AdjointKernel", "Program", "vjp"]
