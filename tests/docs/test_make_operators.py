"""Tests that the page of operators equals the tables, and has every op of TensorFlow."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.checkout.versions import needs_tensorflow

DOCS = Path(__file__).parents[2] / "docs"

RENDER = """
import json, runpy
module = runpy.run_path({path!r})
names = [op.name for op in module["registered"]()]
print("ANSWER" + json.dumps({{"page": module["render"](), "ops": names}}))
"""


@needs_tensorflow("<2.16", "the page counts the ops of TensorFlow 2.15")
def test_operator_page_is_current_with_each_op_once(run_program):
    """In a process of its own, because other tests may have loaded more ops."""
    output = run_program(RENDER.format(path=str(DOCS / "make_operators.py"))).stdout
    answer = json.loads(output.split("ANSWER", 1)[1])
    page = (DOCS / "operators.md").read_text(encoding="utf-8")
    assert page == answer["page"], (
        "docs/operators.md is out of date: run python docs/make_operators.py"
    )
    lists = page[page.index("## On the chip") :]
    named = re.findall(r"`([A-Z][\w>]*)(?:\([\w, ]+\))?`[,.\n]", lists)
    assert sorted(named) == sorted(answer["ops"])
    assert len(named) > 1600
