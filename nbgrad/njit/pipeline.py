"""How Numba compiles the texts of derivatives: its passes without those that generated programs have no use for.

The texts hold no closures, array expressions or literals to propagate, and a variable has one type in all its assignments. So no
static single assignment is needed, nor what Numba works out again after each of its passes: most of the time of a long
program goes there.
"""

from __future__ import annotations

from typing import Any

from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.cpu_options import ParallelOptions
from numba.core.transforms import canonicalize_cfg


def _quiet(base: Any) -> Any:
    """A pass after which liveness is not computed again."""
    made = type(base.__name__, (base,), {"_name": f"nbgrad_{base._name}"})
    return register_pass(mutates_CFG=False, analysis_only=False)(made)


class _Blocks(untyped_passes.IRProcessing):
    """Numba's, without lifetimes, which the last pass before machine code works out."""

    def run_pass(self, state: Any) -> bool:
        """The pass."""
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        state.func_ir.generator_info = None
        return True


class _Library(JITCodeLibrary):
    """Machine code whose functions are optimised once, with what they call, and not one by one beforehand as well."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class _Lowering(typed_passes.NativeLowering):
    """Numba's, into a library of ours."""

    def run_pass(self, state: Any) -> bool:
        """The pass."""
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


_PASSES = [
    (_quiet(untyped_passes.TranslateByteCode), "bytecode"),
    (_quiet(untyped_passes.FixupArgs), "arguments"),
    (_quiet(_Blocks), "blocks"),
    (_quiet(untyped_passes.GenericRewrites), "static indices and powers"),
    (untyped_passes.RewriteDynamicRaises, "raised errors"),
    (_quiet(typed_passes.NopythonTypeInference), "types"),
    (typed_passes.InlineOverloads, "functions that have to be inlined"),
    (typed_passes.NoPythonSupportedFeatureValidation, "features"),
    (typed_passes.IRLegalization, "lifetimes"),
    (typed_passes.AnnotateTypes, "annotations"),
    (_quiet(_Lowering), "machine code"),
    (_quiet(typed_passes.NoPythonBackend), "result"),
]


class Generated(CompilerBase):
    """Compiles generated texts. Parallel ones go through all of Numba's passes: its loops rely on them."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes."""
        manager = PassManager("nbgrad")
        for p, what in _PASSES:
            manager.add_pass(p, what)
        manager.finalize()
        return [manager]

    def compile_extra(self, func: Any) -> Any:
        """Numba's entry: compiles ``func``, or what ``func._nbgrad_body(types)`` gives where it is a stand-in."""
        made: Any = getattr(func, "_nbgrad_body", None)
        func = func if made is None else made(self.state.args)
        if not getattr(func, "_nbgrad_parallel", False):
            return super().compile_extra(func)
        s = self.state
        flags = s.flags.copy()
        flags.auto_parallel = ParallelOptions(
            {"fusion": False, "stencil": False, "comprehension": False}
        )
        compiler = Compiler(
            s.typingctx, s.targetctx, s.library, s.args, s.return_type, flags, s.locals
        )
        return compiler.compile_extra(func)
