"""Cases of popops: calls, and their values by NumPy."""

from __future__ import annotations

from tests.support.poplar.cases import Cases
from tests.support.poplar.popops import elementwise, orders, reductions, slices, statistics, writes

CASES = Cases()
for module in (elementwise, reductions, writes, slices, orders, statistics):
    CASES.update(module.CASES)
