"""The documentation site: `make docs` builds it into build/docs, without a network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))
os.environ.setdefault("SIGMASCOPE_ZOO", str(ROOT / "zoo"))  # examples run in other directories
os.environ.setdefault("TQDM_DISABLE", "1")

import sigmascope

project = "sigmascope"
author = "the sigmascope authors"
project_copyright = author
version = release = sigmascope.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "copied_pages",
    "api_pages",
    "linked_names",
    "accessible",
]
exclude_patterns = ["extensions", "drawings", "_static/vendor/*.md", "examples/*.ipynb"]
nitpicky = True
language = "en"
smartquotes = False  # start="given" is to be copied as it stands

# Markdown. A heading has the anchor that code hosts give it.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Docstrings are Google style with Markdown; `api_pages` turns that into reStructuredText.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_use_legacy_class_based = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# MathJax lies in _static/vendor, see the README there.
mathjax_path = "vendor/mathjax-tex-svg.js"
mathjax3_config = {
    "options": {"enableMenu": False, "enableAssistiveMml": True},  # a menu would load scripts
    "svg": {"fontCache": "global"},
}

plot_formats = [("png", 150)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"figure.figsize": (7.2, 3.2), "savefig.bbox": "tight"}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py",
    "within_subsection_order": "gallery_setting.Order",
    "backreferences_dir": "examples/backreferences",
    "doc_module": ("sigmascope",),
    "image_scrapers": ("gallery_setting.scrape", "matplotlib"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "nested_sections": False,
    "parallel": int(os.environ.get("DOCS_WORKERS", "2")),
    "reset_modules": ("matplotlib", "gallery_setting.reset"),
    "write_computation_times": False,
}

WIDE = ("gallery", "compatibility", "reliability")  # pages whose tables need all the room
html_theme = "pydata_sphinx_theme"
html_title = "sigmascope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "sigmascope"},
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["footer_license"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in WIDE}},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {page: [] for page in ("start", "index", *WIDE)}
templates_path = ["_templates"]
