"""What the package promises as a whole: a light import, lazy names, layers that only look down."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tailmask

SOURCE = Path(tailmask.__file__).parent
API = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")

# From the bottom up; a module may import from rows below its own, and from itself.
LAYERS = [
    {"_util", "__init__"},
    {"functional"},
    {"masking", "losses", "sampling", "metrics", "calibration"},
    {"backbones"},
    {"data", "models"},
    {"methods"},
    {"runs"},
    {"training"},
    {"learners"},
    {"comparison", "inference"},
    {"report"},
    {"studies"},
    {"paper", "fitting"},
    {"cli"},
    {"__main__"},
]
CORE = set().union(*LAYERS[:3])
# The grammar has the names of losses; the estimators train with the loop for tables, and as `fit` does.
FOR_INTEGRATIONS = CORE | {"data", "fitting", "methods", "training"}


def imported(path):
    """Top modules of the package that a file imports, anywhere in it, but for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tailmask":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("tailmask."):
                    yield alias.name.split(".")[1]


def top_module(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path):
    own = top_module(path)
    if path == SOURCE / "__init__.py":
        return
    rows = {name: row for row, names in enumerate(LAYERS) for name in names}
    for name in set(imported(path)) - {own, "__version__"}:
        assert name != "integrations", "nothing imports the integrations"
        if own == "integrations":
            assert name in FOR_INTEGRATIONS, f"an integration imports {name}, which is beyond the core"
        else:
            assert rows[name] < rows[own], f"{own} imports {name}, which is not below it"


def definitions(kind):
    """Names of the public classes or functions, and the files that define them."""
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                yield node.name, path.relative_to(SOURCE)


def twice(names):
    return sorted(name for name, number in Counter(names).items() if number > 1)


def test_no_two_public_classes_have_one_name():
    assert twice(name for name, _ in definitions(ast.ClassDef)) == []


def test_no_two_modules_have_one_name():
    """But for the commands, each in the module of its name."""
    names = [path.stem for path in FILES if path.name != "__init__.py" and path.parent.name != "cli"]
    assert twice(names) == []


def test_no_module_has_the_name_of_a_function_beside_it():
    confused = [path for name, path in definitions(ast.FunctionDef) if (path.parent / f"{name}.py") == path]
    assert [str(path) for path in confused if path.parts[0] not in ("cli", "_util")] == []


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_alone_does_not_import_torch():
    assert run("import sys, tailmask; print('torch' in sys.modules)") == "False"


def test_every_documented_module_is_an_attribute():
    documented = {line.split(".")[1] for line in API.splitlines() if line.startswith("::: tailmask.")}
    names = sorted(documented - {"PartialLabelMasking"})
    assert len(names) > 10
    run(f"import tailmask; [getattr(tailmask, name) for name in {names}]")


def test_core_needs_only_its_three_dependencies():
    heavy = [
        "sklearn",
        "pandas",
        "polars",
        "lightning",
        "pytorch_lightning",
        "matplotlib",
        "transformers",
        "scipy",
    ]
    code = (
        "import sys\n"
        f"for name in {heavy}: sys.modules[name] = None\n"
        "import tailmask\n"
        "from tailmask import PartialLabelMasking, functional, losses, sampling\n"
        "print(PartialLabelMasking.from_counts([1], [2]).class_ratio.item())"
    )
    assert run(code) == "0.5"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tailmask.nonsense  # noqa: B018 (the look-up is what is tested)


def test_public_names_are_listed():
    assert "PartialLabelMasking" in dir(tailmask)
    assert tailmask.PartialLabelMasking.__module__ == "tailmask.masking.partial_label_masking"
