"""Exception types and the one wording template of every message nbgrad raises.

A message names the operation, the argument, what was given, what was expected and what to do::

    matmul: argument 'other' has shape (3, 4); expected the second-to-last size to be 5,
    the last size of 'input'. Transpose or reshape one of them.
"""

from __future__ import annotations

import numpy as np


class NbgradError(Exception):
    """Base class of every error raised by nbgrad."""


class ShapeError(NbgradError, ValueError, RuntimeError):
    """Shapes that do not fit the operation."""


class DTypeError(NbgradError, TypeError, RuntimeError):
    """A dtype (or a kind of argument) the operation does not accept."""


class ArgumentError(NbgradError, ValueError):
    """A wrong value of an argument."""


class IndexingError(NbgradError, IndexError):
    """An index or a dimension out of range, or of a wrong kind."""


class DeviceError(NbgradError, RuntimeError):
    """Tensors on different devices, or a device that is not there."""


class AutogradError(NbgradError, RuntimeError):
    """A request that the recorded graph cannot serve."""


class TraceError(NbgradError, RuntimeError):
    """Something a tape cannot record or replay."""


class LinAlgError(NbgradError, np.linalg.LinAlgError, RuntimeError):
    """A matrix the routine cannot treat: singular, not positive definite, not Hermitian, not converged."""


class UnsupportedError(NbgradError, NotImplementedError, RuntimeError):
    """A rule (vjp, jvp, Taylor, batching) that an operator does not declare."""


class OutOfMemoryError(NbgradError, MemoryError):
    """The pool could not get the memory it needs."""


class MissingExtraError(NbgradError, ImportError):
    """An optional dependency that is not installed."""


def message(op: str, what: str, given: object, expected: str, fix: str = "") -> str:
    """Build the standard message ``op: what is given; expected ... . fix``.

    Parameters
    ----------
    op : the operation's public name.
    what : the argument and the property looked at, e.g. ``"argument 'dim'"``.
    given : the value found (printed with ``str``).
    expected : what would have been right.
    fix : what the user can do, a full sentence.
    """
    text = f"{op}: {what} is {given}; expected {expected}."
    return f"{text} {fix}" if fix else text


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for an optional dependency: names the package, the extra and the command."""
    return MissingExtraError(
        f"{purpose} needs the optional package '{package}', which is not installed; "
        f"install it with: pip install 'nbgrad[{extra}]'."
    )
