"""Values that stand for scalars of a program being written: elementwise operators applied to them emit code.

The Numba door differentiates plain code with the partials that operators declare; it runs them on a subclass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Symbolic:
    """A scalar of another program. A subclass has a ``dtype`` and says what applying an operator means."""

    __slots__ = ()
    __hash__ = object.__hash__

    def traced(self, op: Any, args: Sequence[Any]) -> Any:
        """Apply an elementwise operator to arguments of which this is one."""
        raise NotImplementedError

    def emit(self, name: str, *args: Any) -> Any:
        """Apply an elementwise operator by name."""
        raise NotImplementedError

    def cast(self, dtype: Any) -> Any:
        """Convert to a dtype."""
        raise NotImplementedError

    def __add__(self, o):
        return self.emit("add", self, o)

    def __radd__(self, o):
        return self.emit("add", o, self)

    def __sub__(self, o):
        return self.emit("sub", self, o)

    def __rsub__(self, o):
        return self.emit("sub", o, self)

    def __mul__(self, o):
        return self.emit("mul", self, o)

    def __rmul__(self, o):
        return self.emit("mul", o, self)

    def __truediv__(self, o):
        return self.emit("div", self, o)

    def __rtruediv__(self, o):
        return self.emit("div", o, self)

    def __pow__(self, o):
        return self.emit("pow", self, o)

    def __neg__(self):
        return self.emit("neg", self)

    def __lt__(self, o):
        return self.emit("lt", self, o)

    def __le__(self, o):
        return self.emit("le", self, o)

    def __gt__(self, o):
        return self.emit("gt", self, o)

    def __ge__(self, o):
        return self.emit("ge", self, o)

    def __eq__(self, o):  # type: ignore[override]
        return self.emit("eq", self, o)

    def __ne__(self, o):  # type: ignore[override]
        return self.emit("ne", self, o)

    def __and__(self, o):
        return self.emit("and", self, o)

    def __or__(self, o):
        return self.emit("or", self, o)

    def __invert__(self):
        return self.emit("not", self)
