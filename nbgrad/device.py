"""Device names: ``cpu``, ``cuda``, ``cuda:1``."""

from __future__ import annotations

from typing import Any

from .errors import ArgumentError, DeviceError, message


class Device:
    """A device type and an index; compares equal to its string form."""

    __slots__ = ("index", "type")

    def __init__(self, spec: Any):
        kind, _, index = str(spec).partition(":")
        if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
            raise DeviceError(
                message("device", "argument 'device'", repr(spec), "'cpu', 'cuda' or 'cuda:N'")
            )
        self.type = kind
        self.index = int(index) if index else (0 if kind == "cuda" else None)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device('{self}')"

    def __eq__(self, other: object) -> bool:
        try:
            return str(self) == str(Device(other))
        except DeviceError:
            return False

    def __hash__(self) -> int:
        return hash(str(self))


CPU = Device("cpu")


def array_under(t: Any) -> Any:
    """The device array under a tensor, also under a transform's value; None for the CPU (and for traces)."""
    data = t._data
    while not on_device(data):
        # of a series only the terms it has: asking for more here would never end in a rule about itself
        parts = getattr(data, "known", None) or (data.parts() if hasattr(data, "parts") else ())
        if not parts:
            return None
        data = parts[0]._data
    return data


def beside(x: Any, t: Any) -> Any:
    """A tensor that may come from the host (an index, a constant) on the device of ``x``."""
    there = array_under(x)
    return t if there is None or array_under(t) is not None else t.to(there.device)


def on_device(x: Any) -> bool:
    """Whether a raw value is an array of a device (`nbgrad.cuda.DeviceArray`), not one of NumPy's."""
    return getattr(type(x), "is_device_array", False)


def get_num_threads() -> int:
    """Threads used for large arrays and compiled programs."""
    from kernels_cpu import threads

    return threads.get_num_threads()


def set_num_threads(n: int) -> None:
    """Set the number of threads used for large arrays and compiled programs.

    The results of compiled programs do not depend on it.

    Raises
    ------
    ArgumentError : not an integer of at least 1.
    """
    from kernels_cpu import threads

    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(message("set_num_threads", "argument 'n'", repr(n), "an integer >= 1"))
    threads.set_num_threads(n)
