"""Compile CUDA kernels to PTX and assemble them, without a driver or a device."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple

from kernels_cuda import _compat

TARGETS = ((8, 0), (9, 0))


def ptxas() -> str:
    """The assembler: the one of the nvcc wheel if it is there (it fits its NVVM), else the one on the path."""
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    found = str(wheel) if wheel.exists() else shutil.which("ptxas")
    assert found, "ptxas was not found: install the test extra, pip install 'nbgrad[test]'"
    return found


class Report(NamedTuple):
    """What the assembler says of a kernel, and the PTX."""

    registers: int
    spills: int
    stack: int
    shared: int
    ptx: str

    @property
    def float64(self) -> int:
        """Instructions that compute in (or convert to) float64."""
        lines = [line.strip() for line in self.ptx.splitlines()]
        return sum(
            ".f64" in line and not line.startswith((".reg", ".param", "//")) for line in lines
        )


def build(source, args, namespace, cc, folder, threads=256) -> Report:
    """Compile one kernel for a target and assemble it."""
    ptx = _compat.ptx(source, args, namespace, cc, threads)
    assert f".target sm_{cc[0]}{cc[1]}" in ptx
    return assemble(ptx, cc, folder)


def assemble(ptx, cc, folder) -> Report:
    """Assemble PTX for a target (PTX of an older one will do, as on a user's machine)."""
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    run = subprocess.run(
        [ptxas(), f"-arch=sm_{cc[0]}{cc[1]}", "-v", path, "-o", folder / "kernel.cubin"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr

    def number(pattern):
        return sum(map(int, re.findall(pattern, run.stderr)))

    return Report(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes spill"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes smem"),
        ptx,
    )
