"""The sources of the documentation site: the API has every public name once, with what it is."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import re
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt

import sigmascope as sg

DOCS = Path(__file__).resolve().parents[1] / "docs"
DIRECTIVE = re.compile(r"^\.\. auto\w+:: (\S+)$", re.MULTILINE)
# Public names without an example in their docstring -> where it is, or why there is none.
WITHOUT_EXAMPLE = {
    "sigmascope.MissingExtraError": "all extras are installed where the tests run",
    "sigmascope.RankError": "needs several processes, of which one fails",
    "sigmascope.runs.LostTaskError": "needs a process, a machine or a job that dies",
    "sigmascope.integrations.lightning.SignatureCallback": "examples/monitor_lightning.py",
    "sigmascope.integrations.huggingface.SignatureCallback": "examples/monitor_huggingface.py",
}


@pytest.fixture(scope="module")
def extensions() -> Iterator[types.SimpleNamespace]:
    sys.path.insert(0, str(DOCS / "extensions"))
    names = ("accessible", "api_pages", "copied_pages", "docstrings", "gallery_setting")
    yield types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    sys.path.remove(str(DOCS / "extensions"))
    for name in names:
        del sys.modules[name]


def described(texts: dict[str, str]) -> Counter[str]:
    return Counter(name for text in texts.values() for name in DIRECTIVE.findall(text))


def value_of(name: str) -> Any:
    facade, _, last = name.rpartition(".")
    return getattr(importlib.import_module(facade), last)


def public_values() -> Iterator[Any]:
    """Yield everything that the facades export, found without the code that writes the pages."""
    exported = [getattr(sg, name) for name in sg.__all__]
    for module in (sg, *filter(inspect.ismodule, exported)):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not isinstance(value, types.ModuleType | str):
                yield value


def test_the_api_describes_every_public_name_once(extensions: Any) -> None:
    found = described(extensions.api_pages.pages())
    assert {name: count for name, count in found.items() if count != 1} == {}
    values = [id(value_of(name)) for name in found]
    assert len(set(values)) == len(values)  # nor under two names
    missing = [value for value in public_values() if id(value) not in set(values)]
    assert missing == []
    assert len(found) > 200


def test_a_name_that_is_described_twice_is_seen(extensions: Any) -> None:
    texts = extensions.api_pages.pages()
    assert described({**texts, "again": texts["scores"]})["sigmascope.signature"] == 2


def test_every_public_name_says_what_it_is(extensions: Any) -> None:
    tables = extensions.api_pages.documented_data()  # raises where one has no text
    silent = [
        entry.name
        for entry in extensions.api_pages.entries()
        if not (tables.get(entry.name) or inspect.getdoc(entry.value))
    ]
    assert silent == []


@functools.cache
def examples_of(module: types.ModuleType) -> list[doctest.DocTest]:
    return doctest.DocTestFinder().find(module)


def has_example(value: Any) -> bool:
    """Whether doctest runs an example of a function or class, or of one of its methods."""
    own = re.compile(rf"{re.escape(f'{value.__module__}.{value.__qualname__}')}(\.[a-z]\w*)?")
    return any(
        own.fullmatch(found.name)
        and any(not example.options.get(doctest.SKIP) for example in found.examples)
        for found in examples_of(importlib.import_module(value.__module__))
    )


def test_every_public_name_has_an_example_that_runs(extensions: Any) -> None:
    entries = [one for one in extensions.api_pages.entries() if one.directive != "autodata"]
    without = {entry.name for entry in entries if not has_example(entry.value)}
    assert without == set(WITHOUT_EXAMPLE)


@pytest.mark.parametrize("name", [n for n, why in WITHOUT_EXAMPLE.items() if "/" in why])
def test_an_example_that_is_a_script_uses_the_name(name: str) -> None:
    text = (DOCS.parent / WITHOUT_EXAMPLE[name]).read_text(encoding="utf-8")
    facade, _, last = name.rpartition(".")
    assert f"from {facade} import {last}" in text
    assert f"{last}(" in text


def test_the_examples_of_tables_run(extensions: Any) -> None:
    # Python does not keep the texts below tables, so that doctest does not find them
    for name, text in extensions.api_pages.documented_data().items():
        test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
        assert test.examples, f"{name} has no example"
        told: list[str] = []
        failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
        assert failed == 0, "".join(told)


def test_a_name_without_an_example_is_seen() -> None:
    assert has_example(sg.signature)
    assert has_example(sg.figures.draw_curves)  # under a decorator
    assert not has_example(test_a_name_without_an_example_is_seen)
    assert not has_example(sg.errors.RankError)


def test_an_index_page_links_every_name(extensions: Any) -> None:
    index = extensions.api_pages.pages()["index"]
    for entry in extensions.api_pages.entries():
        assert index.count(f"<{entry.name}>`") == 1, entry.name


@pytest.mark.parametrize(
    ("markdown", "rst"),
    [
        ("the `x` of $a_b$", "the ``x`` of :math:`a_b`"),
        ("$A$ between `a` and `b`, $B$", ":math:`A` between ``a`` and ``b``, :math:`B`"),
        ("*one* of a*b and x_", "*one* of a\\*b and x\\_"),
        (":py:obj:`x` and ``y``", ":py:obj:`x` and ``y``"),
        ("    $$a\n    = b$$", "    .. math::\n\n       a = b"),
    ],
)
def test_docstrings_become_restructured_text(extensions: Any, markdown: str, rst: str) -> None:
    assert extensions.docstrings.rst(markdown) == rst


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        ('<th class="head"><p></p></th>', "<td></td>"),
        ('<th class="head"><p>a</p></th>', '<th class="head"><p>a</p></th>'),
        (
            '<dt class="sig py"><dl>\n<dd>x</dd>\n</dl></dt><dd>y</dd>',
            '<dt class="sig py"><div class="sig-parameters">\n<div>x</div>\n</div></dt><dd>y</dd>',
        ),
    ],
)
def test_what_axe_objects_to_is_mended(extensions: Any, written: str, mended: str) -> None:
    assert extensions.accessible.mended(written) == mended


def test_pictures_and_intervals_are_no_links(extensions: Any) -> None:
    text = "on [-1, 1) \n\n![a picture](gallery/fig7.png) of [the papers](gallery.md), `[x](y)`"
    found = extensions.copied_pages.linked(text, "start", DOCS / "start.md", {})
    assert found == text
    told = extensions.copied_pages.linked("[it](../zoo/data.py)", "start", DOCS / "start.md", {})
    assert told == "it (`zoo/data.py`)"


def test_the_gallery_has_an_order(extensions: Any) -> None:
    names = {path.stem for path in (DOCS.parent / "examples").glob("*.py")}
    assert set(extensions.gallery_setting.ORDER) <= names
    order = extensions.gallery_setting.Order("examples")
    assert order("first_signature.py") < order("align_two_networks.py") < order("another.py")


def test_figures_without_pyplot_are_shown_once(extensions: Any) -> None:
    drawn = sg.figures.new_figure(2, 2)
    variables = {"a": drawn, "b": 3, "c": plt.figure()}
    assert list(extensions.gallery_setting.new_figures(variables)) == [drawn]
    variables["again"] = drawn
    assert list(extensions.gallery_setting.new_figures(variables)) == []
    plt.close("all")  # which takes the manager away
    assert list(extensions.gallery_setting.new_figures(variables)) == []
