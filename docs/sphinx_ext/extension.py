"""The extension of Sphinx: connects the parts of this folder with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from sphinx_ext import docstrings, links, reference_pages, sources


def setup(app: Sphinx) -> dict[str, Any]:
    """Adds the setting `reference_modules`: a pattern of the modules to describe, or all."""
    app.add_config_value("reference_modules", "", "env", types=str)
    app.connect("builder-inited", _write_reference)
    for part in (docstrings, links, sources):
        part.connect(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_reference(app: Sphinx) -> None:
    reference_pages.write(Path(app.srcdir), app.config.reference_modules)
