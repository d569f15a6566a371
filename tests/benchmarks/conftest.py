"""Puts the folder of the scripts in `benchmarks/` on the import path of tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
