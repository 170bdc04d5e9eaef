"""Links from code in prose to the API: `sg.signature` is a link, in Markdown as in docstrings.

Types in signatures are named by the modules that define them; they lead to the public names too.
Names of other projects are not linked, since the site asks no other host for anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from api_pages import PACKAGE, aliases, entries
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

CALL = re.compile(r"^(?:sg|sigmascope)\.([A-Za-z_.]+?)(?:\(.*\))?$")


class LinkNames(SphinxPostTransform):
    """Makes links of code that names something public, outside headings and other links."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: Any) -> None:
        """Replace each such literal by a reference around it."""
        public = {entry.name for entry in entries()}
        short = {name.rpartition(".")[2]: name for name in sorted(public, reverse=True)}
        in_api = self.env.docname.startswith("api/")
        for literal in list(self.document.findall(nodes.literal)):
            if not isinstance(literal.parent, nodes.paragraph | nodes.term) or literal["classes"]:
                continue
            found = CALL.match(literal.astext())
            name = f"{PACKAGE}.{found.group(1)}" if found else None
            if in_api and found is None:
                name = short.get(literal.astext())
            if name in public:
                reference = addnodes.pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=name, refdoc=self.env.docname
                )
                literal.replace_self(reference)
                reference += literal


def resolve(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Resolve the name of a type by the place of its definition, or show it without a link."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    name = aliases().get(target)
    if name is None:
        return content if node["reftype"] in ("class", "exc", "data", "func", "meth") else None
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the links."""
    app.add_post_transform(LinkNames)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
