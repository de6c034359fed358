"""The one place that touches `numba.cuda`: import, simulator, compilation, launches, raw memory.

Kernels take *pointers and numbers*, not arrays: marshalling a device array costs a launch about 10 us, a pointer 1 us.
On a device a pointer is an address (``CPointer(T)``); in the simulator it is a `SimPointer`, an object with the same
indexing that also finds every access out of bounds.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

VERSIONS = ">=0.30,<0.31"  # of numba-cuda; private names below were checked against these


class MissingCudaError(ImportError):
    """numba-cuda is not installed."""


class NoDeviceError(RuntimeError):
    """No usable CUDA device or driver."""


@functools.cache
def numba_cuda() -> Any:
    """The module `numba.cuda`, of the numba-cuda package.

    Numba itself ships an older CUDA target under the same name, which has other bugs and other
    features; it is refused.

    Raises
    ------
    MissingCudaError : numba-cuda is not installed.
    """
    try:
        module = importlib.import_module("numba.cuda")
    except ImportError as error:
        raise MissingCudaError(str(error)) from None
    if not simulated() and getattr(module, "implementation", "") != "NVIDIA":
        raise MissingCudaError("numba.cuda is Numba's built-in target, not the numba-cuda package")
    return module


@functools.cache
def simulated() -> bool:
    """Whether numba's CUDA simulator is on (``NUMBA_ENABLE_CUDASIM=1`` at the first import of numba)."""
    from numba.core import config

    return bool(config.ENABLE_CUDASIM)


def installed() -> bool:
    """Whether the package is there."""
    try:
        numba_cuda()
    except MissingCudaError:
        return False
    return True


@functools.cache
def _driver_works() -> bool:
    return bool(numba_cuda().is_available())


def available() -> bool:
    """Whether kernels can run: a device with its driver, or the simulator."""
    if not installed():
        return False
    return simulated() or _driver_works()


def require() -> Any:
    """`numba.cuda`, or the reason why no kernel can run.

    Raises
    ------
    MissingCudaError, NoDeviceError
    """
    module = numba_cuda()
    check_fork()
    if not available():
        raise NoDeviceError("no CUDA driver or no CUDA device was found")
    return module


# -- fork -------------------------------------------------------------------------------------------

_used = False
_forked = False


def check_fork() -> None:
    """Raise `NoDeviceError` in a process that was forked from one that used the device."""
    if _forked:
        raise NoDeviceError(
            "CUDA was in use before this process was forked, and a fork cannot go on using it"
        )


def mark_used() -> None:
    """Remember that this process has touched the device."""
    global _used
    _used = True


def _after_fork() -> None:
    global _forked
    _forked = _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- memory and operands -----------------------------------------------------------------------------


class Memory(NamedTuple):
    """A buffer on the device: its address and size in bytes, what keeps it, and (simulator) its bytes."""

    address: int
    nbytes: int
    owner: Any = None
    host: np.ndarray | None = None


class View(NamedTuple):
    """Elements of a buffer: strides and offset count elements."""

    memory: Memory
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for s in self.shape:
            n *= s
        return n


class SimPointer:
    """A typed pointer of the simulator; out-of-bounds accesses raise instead of wrapping around."""

    __slots__ = ("_array", "_start")

    def __init__(self, array: np.ndarray, start: int):
        self._array, self._start = array, start

    def _at(self, i: Any) -> int:
        k = self._start + int(i)
        if not 0 <= k < self._array.size:
            raise IndexError(f"device access at {k} of {self._array.size} elements")
        return k

    def __getitem__(self, i: Any) -> Any:
        return self._array[self._at(i)]

    def __setitem__(self, i: Any, value: Any) -> None:
        self._array[self._at(i)] = value


def storage(dtype: np.dtype) -> np.dtype:
    """The dtype elements are loaded and stored as: bool lives in bytes."""
    return np.dtype("uint8") if dtype.kind == "b" else dtype


def pointer(view: View) -> Any:
    """The kernel argument for a view's first element."""
    memory, dtype = view.memory, storage(view.dtype)
    if memory.host is None:
        return memory.address + view.offset * dtype.itemsize
    usable = memory.host.size // dtype.itemsize * dtype.itemsize
    return SimPointer(memory.host[:usable].view(dtype), view.offset)


def aligned(view: View, nbytes: int = 16) -> bool:
    """Whether the first element lies on a multiple of ``nbytes``."""
    return (view.memory.address + view.offset * view.dtype.itemsize) % nbytes == 0


def _as_array(memory: Memory, dtype: np.dtype, count: int) -> Any:
    """The buffer as numba's one-dimensional device array."""

    class Exporter:
        __cuda_array_interface__ = {
            "shape": (count,),
            "strides": None,
            "typestr": dtype.str,
            "data": (memory.address, False),
            "version": 3,
        }

    return numba_cuda().as_cuda_array(Exporter(), sync=False)


_BYTE = np.dtype("uint8")


def upload(memory: Memory, array: np.ndarray, start: int = 0) -> None:
    """Copy a C-contiguous host array's bytes into the buffer, ``start`` bytes in."""
    check_fork()
    raw = array.reshape(-1).view(np.uint8)
    if memory.host is not None:
        memory.host[start : start + raw.size] = raw
    elif raw.size:
        _as_array(memory, _BYTE, memory.nbytes)[start : start + raw.size].copy_to_device(raw)


def download(memory: Memory, start: int, out: np.ndarray) -> None:
    """Copy bytes from the buffer (``start`` bytes in) into a C-contiguous host array; waits."""
    check_fork()
    raw = out.reshape(-1).view(np.uint8)
    if memory.host is not None:
        raw[...] = memory.host[start : start + raw.size]
    elif raw.size:
        _as_array(memory, _BYTE, memory.nbytes)[start : start + raw.size].copy_to_host(raw)


def allocate(nbytes: int) -> Memory:
    """Fresh device memory from numba's memory manager. Raises MemoryError when there is no room."""
    module = require()
    mark_used()
    if simulated():
        raw = np.empty(nbytes + 512, np.uint8)
        start = -raw.ctypes.data % 512
        host = raw[start : start + nbytes]
        return Memory(host.ctypes.data, nbytes, None, host)
    try:
        array = module.device_array(nbytes, np.uint8)
    except Exception as error:
        if "OUT_OF_MEMORY" in str(error) or getattr(error, "code", None) == 2:
            raise MemoryError(str(error)) from None
        raise
    return Memory(array.__cuda_array_interface__["data"][0], nbytes, array)


def flush_frees() -> None:
    """Let numba return memory whose last reference is gone (it queues such frees)."""
    if not simulated():
        numba_cuda().current_context().memory_manager.deallocations.clear()


@functools.cache
def device_count() -> int:
    """Number of devices; the simulator has one, a machine without a driver none."""
    if not available():
        return 0
    return 1 if simulated() else len(numba_cuda().gpus)


def on_device(index: int) -> Any:
    """A context in which a device is the current one; free where there is only one."""
    return numba_cuda().gpus[index] if device_count() > 1 else nullcontext()


# -- compilation -------------------------------------------------------------------------------------


class Arg(NamedTuple):
    """One kernel parameter: ``kind`` is 'pointer', 'value' or 'array'."""

    kind: str
    dtype: np.dtype


I64, U32, U64 = np.dtype("int64"), np.dtype("uint32"), np.dtype("uint64")


def ptr(dtype: np.dtype) -> Arg:
    """A pointer parameter."""
    return Arg("pointer", storage(dtype))


def val(dtype: np.dtype) -> Arg:
    """A number passed by value."""
    return Arg("value", storage(dtype))


def arr(dtype: np.dtype) -> Arg:
    """A parameter that is a whole buffer as a contiguous array: what atomics need."""
    return Arg("array", storage(dtype))


def array_argument(memory: Memory, dtype: np.dtype) -> Any:
    """The kernel argument for an `arr` parameter."""
    count = memory.nbytes // dtype.itemsize
    if memory.host is not None:
        return SimPointer(memory.host[: count * dtype.itemsize].view(dtype), 0)
    return _as_array(memory, dtype, count)


def signature(args: Sequence[Arg]) -> tuple:
    """Numba types of the parameters."""
    from numba.cuda import types
    from numba.cuda.np import numpy_support  # pyright: ignore[reportMissingImports]

    found = []
    for a in args:
        t = numpy_support.from_dtype(a.dtype)
        made = {"pointer": types.CPointer(t), "array": types.Array(t, 1, "C"), "value": t}
        found.append(made[a.kind])
    return tuple(found)


def function(source: str, namespace: dict[str, Any]) -> Callable:
    """The Python function ``k`` of a kernel's source text."""
    scope = dict(namespace)
    scope["cuda"] = numba_cuda()
    scope["__name__"] = __name__
    exec(compile(source, f"<nbgrad cuda kernel {hash(source):x}>", "exec"), scope)
    return scope["k"]


class Kernel:
    """A compiled kernel and its launch configurations."""

    def __init__(self, compiled: Any):
        self._compiled = compiled
        self._configured: dict[tuple, Any] = {}

    def __call__(self, grid: Any, block: Any, stream: Any, args: Sequence[Any]) -> None:
        """Launch; in the simulator, run to the end."""
        check_fork()
        if simulated():
            # one kernel at a time is all the simulator can do, and its threads do not inherit np.errstate
            with _sim_lock, warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                self._compiled[grid, block](*args)
            return
        key = (grid, block, stream)
        launch = self._configured.get(key)
        if launch is None:
            with warnings.catch_warnings():  # small grids are what small tensors give
                warnings.simplefilter("ignore")
                launch = self._compiled[grid, block, stream]
            if len(self._configured) > 256:
                self._configured.clear()
            self._configured[key] = launch
        launch(*args)


_sim_lock = threading.Lock()
_kernels: dict[tuple, Kernel] = {}
_build_lock = threading.RLock()


def kernel(
    source: str, args: Sequence[Arg], namespace: dict[str, Any], threads: int = 256
) -> Kernel:
    """Compile ``k`` of the source for the current device (once per process and device architecture).

    The namespace must be determined by the source, which is the key; so is whether the simulator is on.
    """
    module = require()
    key = (source, tuple(args), simulated() or module.get_current_device().compute_capability)
    found = _kernels.get(key)
    if found is None:
        with _build_lock:
            mark_used()
            fn = function(source, namespace)
            if simulated():
                made = module.jit(fn)
            else:
                made = module.jit(signature(args), launch_bounds=threads)(fn)
            found = _kernels[key] = Kernel(made)
    return found


def device_function(fn: Callable) -> Any:
    """A function for use inside kernels; it is inlined, as a call could not be compiled without a driver."""
    if simulated():
        return fn
    return numba_cuda().jit(device=True, inline="always")(fn)


def ptx(
    source: str,
    args: Sequence[Arg],
    namespace: dict[str, Any],
    cc: tuple[int, int],
    threads: int = 256,
) -> str:
    """PTX text for a compute capability; needs NVVM (a toolkit, or the nvcc wheel), no driver, no device."""
    module = numba_cuda()
    _compile_without_nvrtc(cc)
    code, _ = module.compile(
        function(source, namespace),
        signature(args),
        device=False,
        cc=cc,
        output="ptx",
        abi="numba",
        launch_bounds=threads,
    )
    return code


def _compile_without_nvrtc(cc: tuple[int, int]) -> None:
    """Let numba-cuda 0.30 compile where only NVVM is installed.

    It loads NVRTC (a further 85 MB) only to ask which architectures there are. Where NVRTC is found nothing is changed.
    """
    from numba.cuda import cuda_paths
    from numba.cuda.cudadrv import nvrtc

    try:
        nvrtc.get_supported_ccs()
    except Exception:
        nvrtc.get_supported_ccs = lambda: sorted({(8, 0), (9, 0), cc})
        cuda_paths._get_nvrtc_path = lambda: cuda_paths._env_path_tuple("not installed", None)


def grid_for(n: int, block: int) -> int:
    """Blocks needed for ``n`` threads."""
    return max((n + block - 1) // block, 1)


def block_size() -> int:
    """Threads in a one-dimensional block: few in the simulator, where each is a thread of the system."""
    return 8 if simulated() else 256
