"""Makes links of names: those in code on any page, and the types in signatures."""

from __future__ import annotations

import builtins
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from sphinx_ext import name_index, reference_pages

# Where names stay plain: in titles, and where there is a link already.
_PLAIN = (nodes.title, nodes.reference, addnodes.pending_xref, addnodes.desc_signature)


def connect(app: Sphinx) -> None:
    """Has the links made when pages are read."""
    app.add_transform(_LinkNames)


class _LinkNames(SphinxTransform):
    """Links public names to the API reference; other names get no link."""

    default_priority = 600

    def apply(self, **kwargs: Any) -> None:
        """Goes over a page."""
        for reference in list(self.document.findall(addnodes.pending_xref)):
            if reference.get("refdomain") == "py":
                self._settle(reference)
        for literal in list(self.document.findall(nodes.literal)):
            if not _is_inside(literal, _PLAIN):
                self._link(literal)

    def _settle(self, reference: addnodes.pending_xref) -> None:
        """Gives a reference that Sphinx made its full name, or takes it away."""
        target = reference["reftarget"]
        found = None
        if not hasattr(builtins, target):  # `bool` is not `popxl.bool`
            found = name_index.find(target, reference.get("py:module") or "")
        if found is None:
            reference.replace_self(_shown(reference))
        else:
            reference["reftarget"], reference["reftype"] = found, "obj"
            reference.attributes.pop("refspecific", None)

    def _link(self, literal: nodes.literal) -> None:
        """Puts a reference around a name."""
        found = name_index.find(literal.astext(), self._module())
        if found is None or found == self._module() or found in _names_described(literal):
            return
        reference = addnodes.pending_xref(
            refdomain="py", reftype="obj", reftarget=found, refexplicit=True
        )
        # A site with a part of the reference lacks the rest on purpose.
        reference["refwarn"] = not self.config.reference_modules
        reference["refdoc"] = self.env.docname
        literal.replace_self(reference)
        reference += literal

    def _module(self) -> str:
        """Returns the public module that the page is about."""
        folder = f"{reference_pages.FOLDER}/"
        name = self.env.docname
        return name.removeprefix(folder) if name.startswith(folder) else ""


def _shown(reference: addnodes.pending_xref) -> list[nodes.Node]:
    """Returns the displayed nodes of a reference: for a type, its short name."""
    conditions = list(reference.findall(addnodes.pending_xref_condition))
    short = [c for c in conditions if c.get("condition") == "resolved"]
    return list((short or conditions or [reference])[0].children)


def _is_inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    parent = node.parent
    while parent is not None and not isinstance(parent, kinds):
        parent = parent.parent
    return parent is not None


def _names_described(node: nodes.Node) -> set[str]:
    """Returns the names that a node is in the description of."""
    names: set[str] = set()
    while node.parent is not None:
        node = node.parent
        if isinstance(node, addnodes.desc):
            names.update(node[0].get("ids", ()))
    return names
