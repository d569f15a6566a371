"""Settings of the documentation site: `make docs` builds it with Sphinx."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

project = "tensorflow_ipu"
author = "the authors of tensorflow_ipu"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_ext.extension",
]

exclude_patterns = ["sphinx_ext"]

# Pages are written for viewers of Markdown, too, so they use little of MyST.
myst_heading_anchors = 4
nb_execution_mode = "off"  # the tests execute notebooks

html_theme = "furo"
html_title = "tensorflow_ipu"
html_show_sourcelink = False
html_static_path = ["sphinx_ext/static"]
html_js_files = ["offline_search.js"]
html_search_scorer = str(DOCS / "sphinx_ext" / "scorer.js")

autodoc_default_options = {"show-inheritance": True}
autoclass_content = "both"  # arguments are described in `__init__`, too
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_use_ivar = True
