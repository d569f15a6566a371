"""Makes the modules of the documentation site importable: `sphinx_ext`."""

from __future__ import annotations

import sys

from tests.support.checkout.repository import ROOT

sys.path.insert(0, str(ROOT / "docs"))
