"""Writes the figures of the chips as C++ data, for `src/poplar/target.cc` and `src/poplin/`.

The figures stand in `configs/chips.py` only.

    python native/poplar/make_chips.py build/native/poplar/chips.inc build/native/poplar/rates.inc
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(target: str, rates: str) -> None:
    """Writes one line for each chip.

    Args:
        target: the file of figures of targets.
        rates: the file of multiply-adds a cycle and tile, in half and in float.
    """
    table = runpy.run_path(str(ROOT / "configs" / "chips.py"))["CHIPS"]
    chips = list(table.values() if hasattr(table, "values") else table)
    rows = [
        f'{{"{chip.architecture}", {chip.tiles}, {chip.workers_per_tile}, '
        f"{chip.memory_per_tile}, {chip.clock!r}, {chip.exchange_rate}, {chip.load_rate}, "
        f"{chip.sync_cycles}, {chip.float_vector_width}, {chip.half_vector_width}, "
        f"{chip.tiles_per_bus}, {chip.link_domain}, {chip.vertex_launch_cycles}, "
        f"{chip.compute_set_cycles}, {chip.exchange_overhead}, {chip.host_bandwidth!r}, "
        f"{chip.link_count * chip.link_bandwidth * chip.collective_efficiency!r}}},"
        for chip in chips
    ]
    Path(target).write_text("\n".join(rows) + "\n", encoding="utf-8")
    rows = [
        f'{{"{chip.architecture}", {chip.half_macs_per_cycle}, {chip.float_macs_per_cycle}}},'
        for chip in chips
    ]
    Path(rates).write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
