"""Who may import whom (docs/design/engine.md), read from the sources."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A module may import, when it is loaded, only modules of its own or a lower layer.
LAYERS = [
    {"errors"},
    {"dtypes", "state", "layout", "device"},
    {"codegen", "memory", "tensor"},
    {"autograd.graph", "autograd.anomaly"},
    {"op", "utils.pytree"},
    {"ops"},
    {"autograd", "tape", "func", "utils"},
    {"control"},
    {"methods", "methods_autograd", "interop", "printing", "random"},
    {"compiler", "sparse"},
    {"nn", "linalg", "special", "fft", "testing", "cuda", "pde", "njit", "optim", "amp"},
]


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def load_time_imports(path: Path) -> set[str]:
    """Modules imported when the file is loaded: not those inside functions or under TYPE_CHECKING."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()

    def visit(body):
        for node in body:
            if isinstance(node, ast.Import):
                found.update(a.name for a in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = (
                    package.split(".")[: len(package.split(".")) - node.level + 1]
                    if node.level
                    else []
                )
                stem = ".".join([*base, *([node.module] if node.module else [])])
                names = {f"{stem}.{a.name}" for a in node.names}
                modules = {n for n in names if is_module(n)}
                found.update(modules if modules == names else {stem, *modules})
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                visit(node.orelse)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                visit(node.body)
                visit(getattr(node, "orelse", []))
            elif isinstance(node, ast.ClassDef):
                visit(node.body)

    visit(ast.parse(path.read_text()).body)
    return found


def layer(module: str) -> int | None:
    """The layer of a module below nbgrad: the longest listed prefix decides."""
    if not module.startswith("nbgrad."):
        return None
    rest = module.removeprefix("nbgrad.").split(".")
    for size in range(len(rest), 0, -1):
        prefix = ".".join(rest[:size])
        for i, names in enumerate(LAYERS):
            if prefix in names:
                return i
    return None


SOURCES = sorted(
    p for d in ("nbgrad", "kernels_cpu", "kernels_cuda") for p in (ROOT / d).rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_point_downwards(path):
    own = layer(module_name(path))
    if own is None:
        return
    for target in load_time_imports(path):
        found = layer(target)
        assert found is None or found <= own, (
            f"{module_name(path)} imports {target} from a layer above"
        )


def test_every_module_has_a_layer():
    known = {m for m in map(module_name, SOURCES) if m.startswith("nbgrad.")}
    assert [m for m in sorted(known) if layer(m) is None] == []


@pytest.mark.parametrize("path", [p for p in SOURCES if "kernels_c" in str(p)], ids=module_name)
def test_kernels_know_nothing_of_nbgrad(path):
    allowed = {"numpy", "numba", "llvmlite", "scipy", "kernels_cpu", "kernels_cuda", "__future__"}
    for target in load_time_imports(path):
        top = target.split(".")[0]
        assert top in allowed or top in sys.stdlib_module_names, target


def uses_cuda(node: ast.AST) -> bool:
    """Whether a node of the syntax tree gets hold of numba.cuda; its name in a text does not."""
    if isinstance(node, ast.Import):
        return any(a.name.startswith("numba.cuda") for a in node.names)
    if isinstance(node, ast.ImportFrom):
        names = {a.name for a in node.names}
        return (node.module or "").startswith("numba.cuda") or (
            node.module == "numba" and "cuda" in names
        )
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
        ("import_module", "__import__")
    ):
        return any("numba.cuda" in ast.unparse(a) for a in node.args)
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith("numba.cuda")


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_cuda_is_imported_in_few_places(path):
    if any(map(uses_cuda, ast.walk(ast.parse(path.read_text())))):
        where = module_name(path)
        assert where.startswith(("kernels_cuda", "nbgrad.cuda", "nbgrad.memory.cuda")), where


@pytest.mark.parametrize(
    "text",
    [
        "from numba import cuda",
        "import numba.cuda",
        "from numba.cuda.random import f",
        "importlib.import_module('numba.cuda')",
        "import numba\nnumba.cuda.jit",
    ],
)
def test_ways_to_numba_cuda(text):
    assert any(map(uses_cuda, ast.walk(ast.parse(text))))
    assert not any(map(uses_cuda, ast.walk(ast.parse(repr(text)))))
