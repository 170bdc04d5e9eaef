"""Pages of the API: every public name of every facade, once, from its docstring.

The names are the `__all__` of the facades. A name that two facades export is described at the
first. `docstrings` converts their docstrings, and linked_names.py makes links of names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstrings import converted, rst

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PACKAGE = "sigmascope"
FOLDER = Path(__file__).resolve().parents[1] / "api"
# Where the names of the top level are defined -> the page that shows them and its title.
SUBJECTS = {
    "measure": ("scores", "Scores and signatures"),
    "maths": ("scores", "Scores and signatures"),
    "capture": ("activations", "Activations"),
    "auditing": ("activations", "Activations"),
    "compare": ("compare", "Comparing networks"),
    "monitoring": ("training", "In training"),
    "training": ("training", "In training"),
    "stitching": ("stitching", "Stitching"),
    "dissection": ("dissection", "Dissection"),
    "runs": ("runs", "Surveys and files"),
    "reporting": ("runs", "Surveys and files"),
    "errors": ("errors", "Errors"),
}
# Facades below the top level -> their pages, in the order of the index.
PAGES = {
    "linearize": ("linearize", "Linearizing"),
    "symmetry": ("symmetry", "Symmetry"),
    "stitching": ("stitching", "Stitching"),
    "dissection": ("dissection", "Dissection"),
    "catalog": ("catalog", "Networks and data by name"),
    "runs": ("runs", "Surveys and files"),
    "nn": ("training", "In training"),
    "figures": ("figures", "Figures"),
    "testing": ("activations", "Activations"),
    "integrations.lightning": ("integrations", "Integrations"),
    "integrations.huggingface": ("integrations", "Integrations"),
    "integrations.torchmetrics": ("integrations", "Integrations"),
}
# Modules without `__all__`, whose public names are these.
LISTED = {
    "testing": ("ActivationCheck", "Verdict", "check_activation"),
    "integrations.lightning": ("SignatureCallback",),
    "integrations.huggingface": ("SignatureCallback",),
    "integrations.torchmetrics": ("AffinityScore",),
}


@dataclass(frozen=True)
class Entry:
    """A public name, what it stands for, and the page that describes it."""

    name: str
    value: Any
    page: str
    title: str

    @property
    def directive(self) -> str:
        """The directive of autodoc for its kind."""
        if inspect.isclass(self.value):
            return "autoexception" if issubclass(self.value, BaseException) else "autoclass"
        return "autofunction" if callable(self.value) else "autodata"

    @property
    def summary(self) -> str:
        """The first sentence of its docstring, in one line; nothing for plain data."""
        if self.directive == "autodata":
            return ""
        first = (inspect.getdoc(self.value) or "").split("\n\n")[0]
        return re.split(r"(?<=[.:;]) ", " ".join(first.split()))[0].rstrip(":;")


def facade_names(facade: str) -> list[str]:
    """Return the public names of a facade; the empty name is the top level."""
    if facade in LISTED:
        return list(LISTED[facade])
    module = importlib.import_module(f"{PACKAGE}.{facade}" if facade else PACKAGE)
    return [name for name in module.__all__ if name != "__version__"]


def entries() -> Iterator[Entry]:
    """Yield every public name once, at the first facade that exports it."""
    seen: set[int] = set()
    for facade in ("", *PAGES):
        module = importlib.import_module(f"{PACKAGE}.{facade}" if facade else PACKAGE)
        for name in facade_names(facade):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType) or id(value) in seen:
                continue
            seen.add(id(value))
            page = PAGES[facade] if facade else SUBJECTS[value.__module__.split(".")[1]]
            yield Entry(".".join(filter(None, [PACKAGE, facade, name])), value, *page)


def aliases() -> dict[str, str]:
    """Return the public name of every object by the place of its definition."""
    return {
        f"{entry.value.__module__}.{entry.value.__qualname__}": entry.name
        for entry in entries()
        if entry.directive != "autodata"
    }


def underlined(title: str, mark: str) -> str:
    """Return a heading."""
    return f"{title}\n{mark * len(title)}\n\n"


def described(entry: Entry) -> str:
    """Return the directive that describes a name."""
    options = "   :members:\n" if entry.directive == "autoclass" else ""
    if entry.directive == "autodata":
        options = "   :no-value:\n"
    text = f".. {entry.directive}:: {entry.name}\n{options}\n"
    examples = entry.page not in ("errors", "catalog")  # which every example uses
    return f"{text}.. minigallery:: {entry.name}\n\n" if examples else text


def pages() -> dict[str, str]:
    """Return the text of every page of the API, in reStructuredText, by its name."""
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        found.setdefault(entry.page, []).append(entry)
    order = list(dict.fromkeys(page for page, _ in (*SUBJECTS.values(), *PAGES.values())))
    order.sort(key=lambda page: page == "errors")
    texts, index = {}, [underlined("API", "="), (FOLDER.parent / "extensions/api.txt").read_text()]
    for page in order:
        listed = found[page]
        functions = [one for one in listed if one.directive == "autofunction"]
        others = [one for one in listed if one.directive != "autofunction"]
        text = underlined(listed[0].title, "=")
        for title, part in (("Functions", functions), ("Classes and data", others)):
            if part:
                text += underlined(title, "-") + "".join(map(described, part))
        texts[page] = text
        index.append(underlined(listed[0].title, "-"))
        index += [".. list-table::\n   :class: api-names\n   :widths: 40 60\n\n"]
        index += [
            f"   * - :py:obj:`{one.name.removeprefix(PACKAGE + '.')} <{one.name}>`\n"
            f"     - {rst(one.summary)}\n"
            for one in (*functions, *others)
        ]
        index.append("\n")
    index += [".. toctree::\n   :hidden:\n\n", *(f"   {page}\n" for page in order)]
    return {**texts, "index": "".join(index)}


def documented_data() -> dict[str, str]:
    """Return the text below each public table, which Python itself forgets, by the table's name."""
    found = {}
    for entry in entries():
        facade, _, name = entry.name.rpartition(".")
        if entry.directive == "autodata":
            found[entry.name] = text_below(importlib.import_module(facade), name)
    return found


def text_below(module: types.ModuleType, name: str) -> str:
    """Return the string that stands below the definition of a name, wherever it is imported from.

    Raises:
        LookupError: there is none.
    """
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in itertools.zip_longest(body, body[1:]):
        match statement:
            case ast.ImportFrom(module=str(origin), names=names):
                if name in [one.asname or one.name for one in names]:
                    return text_below(importlib.import_module(origin), name)
            case (
                ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found))
            ) if found == name:
                match following:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        return text
    raise LookupError(f"{module.__name__}.{name} has no text below it that says what it is")


def convert(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring, before napoleon reads it; that of a table is the text below it."""
    if name in (texts := documented_data()):
        lines[:] = texts[name].split("\n")
    lines[:] = converted(lines)


def write_pages() -> None:
    """Write the pages into docs/api; one that has not changed is left alone."""
    FOLDER.mkdir(exist_ok=True)
    for page, text in pages().items():
        path = FOLDER / f"{page}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages, and convert docstrings before napoleon reads them."""
    write_pages()
    app.connect("autodoc-process-docstring", convert, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
