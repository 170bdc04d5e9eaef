"""The structure of the package: who may import what, and which constructs are forbidden.

Each rule is a function from a parsed module to complaints. It is run on the package, where it must
be silent, and on made-up snippets, where it must not be.
"""

from __future__ import annotations

import ast
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "sigmascope"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

# In import order: a layer imports from itself and from those before it.
LAYERS = (
    "errors",
    "choices",
    "checks",
    "tables",
    "store",
    "maths",
    "capture",
    "measure",
    "auditing",
    "compare",
    "symmetry",
    "training",
    "nn",
    "stitching",
    "dissection",
    "catalog",
    "linearize",
    "monitoring",
    "integrations",
    "runs",
    "figures",
    "reporting",
    "testing",
    "demo",
    "cli",
    "__main__",
)
# Results that draw themselves: these modules may import figures, but only inside a function or for
# types.
DRAW_THEMSELVES = (
    "compare.accuracy",
    "compare.correlation",
    "compare.density",
    "compare.difference",
    "compare.distances",
    "compare.statistics",
    "measure.block_result",
    "measure.result",
    "monitoring.track",
    "symmetry.barriers",
    "symmetry.layer_similarity",
    "stitching.result",
    "dissection.result",
    "dissection.penalty",
    "linearize.linearization",
    "linearize.tuned",
)
# the others would reach every layer through the package's own __init__
FACADE_USERS = ("cli", "__main__")
OPTIONAL = {
    "torchvision": ("catalog",),
    "timm": ("catalog",),
    "transformers": ("catalog", "integrations.huggingface"),
    "lightning": ("integrations.lightning",),
    "pytorch_lightning": ("integrations.lightning",),
    "torchmetrics": ("integrations.torchmetrics",),
    "accelerate": (),
    "onnx2torch": ("catalog",),
    "ot": ("maths.transport",),
    "sklearn": ("compare",),
    "ray": ("runs.executors",),
    "submitit": ("runs.executors",),
    "pandas": ("tables", "compare", "measure.result", "monitoring.track"),
}
# Code from files, and what Windows lacks.
FORBIDDEN = ("pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "fcntl")
MAY_IMPORT = {"matplotlib": ("figures", "reporting"), **OPTIONAL, **dict.fromkeys(FORBIDDEN, ())}


@dataclass(frozen=True)
class Module:
    """A parsed module; `name` is dotted, relative to the package, and empty for the package."""

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    def within(self, places: tuple[str, ...]) -> bool:
        return any(self.name == place or self.name.startswith(f"{place}.") for place in places)

    def resolve(self, target: str) -> str:
        """Make a relative name (leading dots) absolute."""
        bare = target.lstrip(".")
        level = len(target) - len(bare)
        if not level:
            return target
        here = [PACKAGE, *filter(None, self.name.split("."))]
        base = here[: len(here) - level + self.is_package]
        return ".".join([*base, *filter(None, [bare])])


@dataclass(frozen=True)
class Import:
    """`target` under the local name `alias`; deferred when it does not run as the module loads."""

    line: int
    target: str
    alias: str
    deferred: bool


Rule = Callable[[Module], Iterator[str]]


def module(source: str, name: str = "measure.affinity", *, is_package: bool = False) -> Module:
    return Module(name, is_package, ast.parse(source))


@functools.cache
def package_modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(module(path.read_text(encoding="utf-8"), name, is_package=is_package))
    return tuple(found)


def walk(node: ast.AST, deferred: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node below, and whether it stands inside a function or `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        yield child, deferred
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for branch, inner in ((child.body, True), (child.orelse, deferred)):
                yield from walk(ast.Module(body=branch, type_ignores=[]), inner)
        else:
            yield from walk(
                child,
                deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
            )


def imports(module: Module) -> Iterator[Import]:
    for node, deferred in walk(module.tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield Import(node.lineno, name.name, name.asname or name.name, deferred)
            case ast.ImportFrom(names=names):
                origin = module.resolve("." * node.level + (node.module or ""))
                for name in names:
                    yield Import(
                        node.lineno, f"{origin}.{name.name}", name.asname or name.name, deferred
                    )
            case ast.Call(args=[ast.Constant(value=str(target)), *_]):
                if ast.unparse(node.func).endswith(("import_module", "__import__")):
                    yield Import(node.lineno, module.resolve(target), "", deferred)


def follows_import_order(module: Module) -> Iterator[str]:
    if not module.name:
        return
    if module.layer not in LAYERS:
        yield f"{module.name}: not a layer; give `{module.layer}` its place in LAYERS"
        return
    for found in imports(module):
        root, *path = found.target.split(".")
        if root != PACKAGE or path == ["__version__"]:
            continue
        if not path or path[0] not in LAYERS:
            if module.layer not in FACADE_USERS:
                yield (
                    f"{module.name}:{found.line}: imports {found.target} through the package's "
                    "__init__"
                )
        elif path[0] == "figures" and found.deferred and module.name in DRAW_THEMSELVES:
            continue
        elif LAYERS.index(path[0]) > LAYERS.index(module.layer):
            yield (
                f"{module.name}:{found.line}: imports {found.target}, which comes after "
                f"{module.layer}"
            )


def imports_what_it_may(module: Module) -> Iterator[str]:
    for found in imports(module):
        root = found.target.partition(".")[0]
        if root in MAY_IMPORT and not module.within(MAY_IMPORT[root]):
            yield (
                f"{module.name}:{found.line}: {root} may be imported by: "
                f"{', '.join(MAY_IMPORT[root]) or 'nobody'}"
            )


def defers_optional_packages(module: Module) -> Iterator[str]:
    for found in imports(module):
        if found.target.partition(".")[0] in OPTIONAL and not found.deferred:
            yield (
                f"{module.name}:{found.line}: {found.target} is optional; import it inside the "
                "function that needs it"
            )


def prints_only_in_cli(module: Module) -> Iterator[str]:
    for node, _ in walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "print"
            and module.layer != "cli"
        ):
            yield f"{module.name}:{node.lineno}: prints"


def names_what_it_catches(module: Module) -> Iterator[str]:
    for node, _ in walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{module.name}:{node.lineno}: bare except"


def loads_only_weights(module: Module) -> Iterator[str]:
    aliases = {found.alias: found.target for found in imports(module)}
    for node, _ in walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        head, dot, rest = ast.unparse(node.func).partition(".")
        if aliases.get(head, head) + dot + rest != "torch.load":
            continue
        if not any(
            key.arg == "weights_only" and ast.unparse(key.value) == "True" for key in node.keywords
        ):
            yield (
                f"{module.name}:{node.lineno}: torch.load without weights_only=True can run code "
                "from a file"
            )


def starts_with_docstring(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.name or PACKAGE}: does not say what it is"


RULES: tuple[Rule, ...] = (
    follows_import_order,
    imports_what_it_may,
    defers_optional_packages,
    prints_only_in_cli,
    names_what_it_catches,
    loads_only_weights,
    starts_with_docstring,
)


def test_the_package_is_found() -> None:
    names = {module.name for module in package_modules()}
    assert {"", "cli", "errors", "maths"} <= names


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_obeys(rule: Rule) -> None:
    assert [complaint for module in package_modules() for complaint in rule(module)] == []


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (follows_import_order, module("import sigmascope.figures")),
        (follows_import_order, module("from sigmascope import compare")),
        (follows_import_order, module("from sigmascope import affinity")),
        (follows_import_order, module("import sigmascope as sg")),
        (follows_import_order, module("from ..compare import save")),
        (follows_import_order, module("from .. import compare")),
        (follows_import_order, module("from ..compare import save", "measure", is_package=True)),
        (follows_import_order, module("from .maths import transport", "errors")),
        (
            follows_import_order,
            module("def late():\n    from sigmascope.cli import main", "reporting.page"),
        ),
        (follows_import_order, module("importlib.import_module('sigmascope.figures')")),
        (follows_import_order, module("from sigmascope.runs import load_runs", "catalog.models")),
        (
            follows_import_order,
            module("from sigmascope.figures import save", "symmetry.layer_similarity"),
        ),
        (
            follows_import_order,
            module("def plot():\n    from sigmascope.figures import save", "symmetry.layers"),
        ),
        (follows_import_order, module("", "helpers")),
        (imports_what_it_may, module("import matplotlib.pyplot as plt", "cli.compare")),
        (imports_what_it_may, module("from matplotlib import pyplot", "compare.embedding")),
        (imports_what_it_may, module("def load():\n    import timm", "capture.recorder")),
        (imports_what_it_may, module("import ot", "maths.assignment")),
        (imports_what_it_may, module("import_module('sklearn.covariance')", "maths.covariance")),
        (imports_what_it_may, module("import pandas", "comparexyz")),
        (imports_what_it_may, module("import pickle", "store")),
        (imports_what_it_may, module("def lock():\n    import fcntl", "store.kept")),
        (imports_what_it_may, module("from pickle import loads", "cli")),
        (defers_optional_packages, module("import ot", "maths.transport")),
        (
            defers_optional_packages,
            module("try:\n    import timm\nexcept ImportError:\n    timm = None", "catalog.models"),
        ),
        (
            defers_optional_packages,
            module("if TYPE_CHECKING:\n    pass\nelse:\n    import pandas", "compare.table"),
        ),
        (prints_only_in_cli, module("def show():\n    print('σ')")),
        (names_what_it_catches, module("try:\n    pass\nexcept:\n    pass")),
        (loads_only_weights, module("import torch\ntorch.load('a.pt')")),
        (loads_only_weights, module("import torch as t\nt.load('a.pt', weights_only=False)")),
        (loads_only_weights, module("from torch import load as read\nread('a.pt')")),
        (starts_with_docstring, module("import torch")),
        (starts_with_docstring, module("", "", is_package=True)),
    ],
)
def test_rule_complains(rule: Rule, broken: Module) -> None:
    assert len(list(rule(broken))) == 1


@pytest.mark.parametrize(
    ("rule", "sound"),
    [
        (
            follows_import_order,
            module(
                "from sigmascope.maths import transport\nfrom ..capture.record import "
                "recording\nimport torch"
            ),
        ),
        (
            follows_import_order,
            module("from .affinity import affinity", "measure", is_package=True),
        ),
        (follows_import_order, module("from sigmascope import __version__", "store")),
        (
            follows_import_order,
            module("import sigmascope as sg\nfrom sigmascope import affinity", "cli"),
        ),
        (follows_import_order, module("from .cli import main", "", is_package=True)),
        (
            follows_import_order,
            module(
                "def plot():\n    from sigmascope.figures import save", "symmetry.layer_similarity"
            ),
        ),
        (imports_what_it_may, module("import matplotlib.pyplot as plt", "figures.signature")),
        (imports_what_it_may, module("import pandas", "compare", is_package=True)),
        (defers_optional_packages, module("def w2():\n    import ot", "maths.transport")),
        (defers_optional_packages, module("if TYPE_CHECKING:\n    import pandas", "compare.table")),
        (prints_only_in_cli, module("print('σ')", "cli.show")),
        (prints_only_in_cli, module("console.print('σ')")),
        (names_what_it_catches, module("try:\n    pass\nexcept ValueError:\n    pass")),
        (
            loads_only_weights,
            module(
                "import torch\nimport json\ntorch.load('a.pt', weights_only=True)\njson.load(file)"
            ),
        ),
        (starts_with_docstring, module('"""Affinity."""')),
    ],
)
def test_rule_is_silent(rule: Rule, sound: Module) -> None:
    assert list(rule(sound)) == []


def loaded_by(statement: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after the statement."""
    code = f"{statement}\nimport sys\nprint(*{{'torch', 'matplotlib'}} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600
    )
    return set(run.stdout.split())


def test_import_is_light() -> None:
    assert loaded_by(f"import {PACKAGE}") == set()
    assert loaded_by("import matplotlib") == {"matplotlib"}


def test_every_public_name_resolves() -> None:
    package = importlib.import_module(PACKAGE)
    assert package.__all__
    assert len(set(package.__all__)) == len(package.__all__)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert set(package.__all__) <= set(dir(package))


def test_the_stub_lists_the_public_names() -> None:
    package = importlib.import_module(PACKAGE)
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    (listed,) = (
        ast.literal_eval(node.value)
        for node in stub.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert sorted(package.__all__) == sorted(listed)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module(PACKAGE).no_such_name  # noqa: B018


LONGEST_FILE, LONGEST_BODY, MOST_PARAMETERS = 330, 40, 8
PAPERS = SOURCE.parents[1] / "papers" / "src"


def oversized(source: str) -> Iterator[str]:
    """Files, function bodies without docstring, and signatures that are too long."""
    lines = source.count("\n")
    if lines > LONGEST_FILE:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([one for one in given if one.arg not in ("self", "cls")])
        first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
        if count > MOST_PARAMETERS:
            yield f"{node.name} takes {count} parameters"
        if (node.end_lineno or 0) - first.lineno + 1 >= LONGEST_BODY:
            yield f"{node.name} is too long"


def test_nothing_is_oversized() -> None:
    paths = [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py")]
    assert len(paths) > 200
    found = {path.name: list(oversized(path.read_text(encoding="utf-8"))) for path in paths}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n" * (LONGEST_FILE + 1),
        "def f(a, b, c, d, *, e, g, h, i, j): ...",
        "def f():\n" + "    x = 1\n" * LONGEST_BODY,
    ],
)
def test_what_is_oversized_is_noticed(source: str) -> None:
    assert len(list(oversized(source))) == 1


def test_what_is_not_oversized_is_fine() -> None:
    assert list(oversized("x = 1\n" * LONGEST_FILE)) == []
    assert (
        list(oversized("def f(self, a, b, c, d, *, e, g, h, i):\n    'Doc.'\n    return a")) == []
    )
