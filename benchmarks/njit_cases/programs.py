"""The C++ programs of GradBench as peers: the hand-written derivatives and those by Tapenade."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import Thunk, Ways


def cpp_ways(module: str, given: Callable, outputs: Callable) -> dict[str, Ways]:
    """The peers ``manual`` and ``tapenade``; each times its own objective too."""

    def of(tool: str) -> Ways:
        def ways(args: Any) -> dict[str, Thunk]:
            from compile_cases.programs import Program

            data = given(args)
            run = lambda name, out: Program(tool, module, name, data, out, 1)
            made = {"derivative": run("jacobian", outputs)}
            if tool == "manual":
                made["primal"] = run("objective", lambda out: [])
            return made

        return ways

    return {tool: of(tool) for tool in ("manual", "tapenade")}
