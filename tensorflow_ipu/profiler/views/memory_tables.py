"""Tables of an IPU's memory: categories, steps, and the tensors of each step and tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.planner.details import Details
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.memory.details import MemoryDetails
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.profiler.views.tables import Texts, runs


def memory_tables(plan: Plan, details: Details, texts: Texts) -> list[dict[str, Any]]:
    """Returns the memory of each IPU as data for JSON.

    Args:
        plan: memory and time of a program.
        details: summands of the plan.
        texts: receives the texts.

    Returns:
        For each IPU its totals and categories; the liveness of its steps; residents with their
        mapping to tiles; transients with first and last step. The bytes of a transient on a tile
        follow from its size: see `tile_mapping.spread`.
    """
    return [
        _of_ipu(memory, detail, exact, texts)
        for memory, detail, exact in zip(plan.memory, details.memory, details.exact)
    ]


def _of_ipu(memory: IpuMemory, detail: MemoryDetails, exact: bool, texts: Texts) -> dict[str, Any]:
    """Returns the memory of one IPU."""
    steps = {
        "op": detail.steps.tolist(),
        "bytes": memory.live_bytes.tolist(),
        "worst": memory.live_worst.tolist(),
    }
    if not exact:
        steps |= _curves(detail)
    peak_op = -1 if memory.peak_op is None else memory.peak_op
    at_peak = np.flatnonzero(detail.steps == peak_op)
    return {
        "ipu": memory.ipu,
        "capacity": int(memory.capacity),
        "tiles": detail.tiles,
        "compute_tiles": detail.compute_tiles,
        "block": tile_mapping.BLOCK,
        "fits": bool(memory.fits),
        "worst_tile": memory.worst_tile,
        "worst_bytes": memory.worst_bytes,
        "total_bytes": memory.total,
        "always_bytes": memory.always_live,
        "matches": exact,
        "categories": [
            {
                "name": category.name,
                "always_live": bool(category.always_live),
                "label": category.label.value,
                "total": category.total,
                "tiles": runs(category.tiles),
            }
            for category in memory.categories
        ],
        "peak": runs(memory.peak),
        "steps": steps,
        "peak_step": int(at_peak[0]) if len(at_peak) else None,
        **_residents(detail, texts),
        "stretches": _stretches(detail, texts),
        "temporaries": detail.temporaries.tolist(),
        "temporary_tiles": detail.temporary_tiles.tolist(),
    }


def _residents(detail: MemoryDetails, texts: Texts) -> dict[str, Any]:
    """Returns the residents, with a table of distinct mappings."""
    mappings: dict[bytes, int] = {}
    found: list[list[int]] = []
    rows: list[tuple[Any, ...]] = []
    parts: list[tuple[int, int, int]] = []
    for resident, tiles in detail.residents:
        key = tiles.tobytes()
        if key not in mappings:
            mappings[key] = len(found)
            found.append(runs(tiles))
        parts += [(len(rows), buffer, size) for buffer, size in resident.parts]
        category, source = texts.of(resident.category), texts.of(resident.source)
        rows.append(
            (resident.buffer, resident.name, category, resident.num_bytes, mappings[key], source)
        )
    names = ("tensor", "name", "category", "bytes", "mapping", "source")
    return {
        "mappings": found,
        "residents": _columns(names, rows),
        "parts": _columns(("resident", "tensor", "bytes"), parts),
    }


def _stretches(detail: MemoryDetails, texts: Texts) -> dict[str, list[Any]]:
    """Returns the transients with their live ranges."""
    found = detail.stretches
    sizes = [stretch.num_bytes for stretch in found]
    worst = tile_mapping.fullest(np.array(sizes, np.int64), detail.compute_tiles)
    return {
        "tensor": [stretch.buffer for stretch in found],
        "category": texts.column(stretch.category for stretch in found),
        "bytes": sizes,
        "worst": worst.tolist(),
        "birth": [stretch.birth for stretch in found],
        "death": [stretch.death for stretch in found],
    }


def _curves(detail: MemoryDetails) -> dict[str, Any]:
    """Returns the liveness of the present plan, for a saved plan with another."""
    changes = np.zeros((2, len(detail.steps) + 1), np.int64)
    for stretch in detail.stretches:
        size = np.array([stretch.num_bytes], np.int64)
        worst = int(tile_mapping.fullest(size, detail.compute_tiles)[0])
        for change, amount in zip(changes, (stretch.num_bytes, worst)):
            change[stretch.birth] += amount
            change[stretch.death + 1] -= amount
    whole, worst_tile = np.cumsum(changes, axis=1)[:, :-1]
    return {
        "bytes": (whole + detail.temporaries * detail.temporary_tiles).tolist(),
        "worst": (worst_tile + detail.temporaries).tolist(),
    }


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Records as one list for each field."""
    values = [list(column) for column in zip(*rows)] or [[] for _ in names]
    return dict(zip(names, values))
