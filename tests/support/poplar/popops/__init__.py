"""Cases of popops: what to call, and the values that NumPy gives."""

from __future__ import annotations

from tests.support.poplar.cases import Cases
from tests.support.poplar.popops import elementwise, orders, reductions, slices, writes

CASES = Cases()
for module in (elementwise, reductions, writes, slices, orders):
    CASES.update(module.CASES)
