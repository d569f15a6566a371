"""The JSON schema of saved reports, and the check of data against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.enums import SchedulingAlgorithm
from tensorflow_ipu.configs.machine import MOST_IPUS
from tensorflow_ipu.configs.ranges import shown
from tensorflow_ipu.profiler import json_schema

#: What `format` says in the file of a report.
FORMAT = "tensorflow_ipu report"

#: Version of the schema. It grows when a reader of the version before could misread a file.
VERSION = 1

_Schema = dict[str, Any]

# Upper limits are far beyond all programs. They keep what is computed with a number finite: tables
# with a row for each tile or mini-batch, and sums of 64 bits.
_MOST_BYTES = 2**60
_MOST_RUNS = 10**15
_MOST_MINI_BATCHES = 10**5
_MOST_REPLICAS = 10**12
_LARGEST = 1e200


def _number(least: float = 0, most: float = _LARGEST) -> _Schema:
    """Returns the schema of a number."""
    return {"type": "number", "minimum": least, "maximum": most}


def _whole(least: int = 0, most: int = _MOST_BYTES) -> _Schema:
    """Returns the schema of a whole number."""
    return {"type": "integer", "minimum": least, "maximum": most}


def _optional(schema: Mapping[str, Any]) -> _Schema:
    """Returns a schema that allows null, too."""
    return {**schema, "type": [schema["type"], "null"]}


def _object(required: Mapping[str, Any], **optional: Mapping[str, Any]) -> _Schema:
    """Returns the schema of an object with all of some properties, and others."""
    properties = {**required, **optional}
    return {"type": "object", "required": list(required), "properties": properties}


def _mapping(values: Mapping[str, Any]) -> _Schema:
    """Returns the schema of an object with any keys."""
    return {"type": "object", "additionalProperties": dict(values)}


def _list(items: Mapping[str, Any], least: int = 0, most: int | None = None) -> _Schema:
    """Returns the schema of a list."""
    limits = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": dict(items), "minItems": least, **limits}


def _columns(columns: Mapping[str, Any]) -> _Schema:
    """Returns the schema of a table given as a list for each column."""
    return _object({name: _list(items) for name, items in columns.items()})


def _tuple(*items: Mapping[str, Any], optional: int = 0) -> _Schema:
    """Returns the schema of a list with one item of each kind; the last may be missing."""
    least = len(items) - optional
    return {"type": "array", "items": list(items), "minItems": least, "additionalItems": False}


def _table(columns: Mapping[str, Any], optional: int = 0) -> _Schema:
    """Returns the schema of a table: the names of its columns, and a list of rows.

    Files of earlier releases may lack the last columns.
    """
    names = [{"type": "string", "enum": [name]} for name in columns]
    rows = _list(_tuple(*columns.values(), optional=optional))
    return _object({"fields": _tuple(*names, optional=optional), "rows": rows})


_TEXT: _Schema = {"type": "string"}
_FLAG: _Schema = {"type": "boolean"}
_ANY_OBJECT: _Schema = {"type": "object"}
_LABEL: _Schema = {"type": "string", "enum": ["exact", "modelled", "assumed"]}
_CYCLES = _number()
_BYTES = _whole()
_INDEX = _whole(most=2**31 - 1)
_IPU = _whole(most=MOST_IPUS - 1)
_IPUS = _whole(1, MOST_IPUS)
_TILES = _whole(1, chips.MOST_TILES)
_RUNS = _whole(most=_MOST_RUNS)
_FLOPS = _number()
_SHAPE = _list(_whole(), most=64)
_STAGE = _whole(most=2**16)
_PROPORTION = _number(0, 1)
_PHASE: _Schema = {"type": "string", "enum": ["", "forward", "recompute", "backward", "update"]}

_TARGET = _object(
    {
        "chip": _TEXT,
        "tiles_per_ipu": _TILES,
        "memory_per_tile": _BYTES,
        "clock": _number(1),
        "replicas": _whole(1, _MOST_REPLICAS),
        "ipus_per_replica": _IPUS,
    },
    instances=_whole(1, _MOST_REPLICAS),
)
_REMEDY = _object(
    {
        "name": _TEXT,
        "instruction": _TEXT,
        "saving": _whole(-_MOST_BYTES),
        "worst_bytes": _BYTES,
        "fits": _FLAG,
        "cycles_ratio": _optional(_number()),
        "label": _LABEL,
    },
    ratio_range=_optional(_list(_number(), 2, 2)),
)
_INSIGHTS = _object(
    {
        "fits": _FLAG,
        "worst_ipu": _IPU,
        "worst_tile": _INDEX,
        "worst_bytes": _BYTES,
        "capacity": _BYTES,
        "memory_share": _number(),
        "largest_variables": _list(_object({"name": _TEXT, "bytes": _BYTES})),
        "largest_tensors_at_peak": _list(_object({"name": _TEXT, "bytes": _BYTES})),
        "bubble_share": _optional(_number(-1, 1)),
        "io_bound": _FLAG,
        "host_cycles": _CYCLES,
        "items_per_second": _optional(_number()),
        "range_per_second": _optional(_tuple(_number(), _number())),
        "flops_per_second": _number(),
        "utilisation": _number(),
        "share_by_label": _mapping(_number()),
        "remedies": _list(_REMEDY),
    }
)
_LAYER = _object(
    {
        "layer": _TEXT,
        "forward_cycles": _CYCLES,
        "backward_cycles": _CYCLES,
        "update_cycles": _CYCLES,
        "variable_bytes": _BYTES,
        "activation_bytes": _BYTES,
        "flops": _FLOPS,
        "ops": _INDEX,
    }
)
_CATEGORY = _object(
    {
        "name": _TEXT,
        "always_live": _FLAG,
        "label": _LABEL,
        "total_bytes": _BYTES,
        "tiles": _list(_BYTES, 1, chips.MOST_TILES),
    }
)
_MEMORY = _object(
    {
        "ipu": _IPU,
        "capacity": _BYTES,
        "fits": _FLAG,
        "worst_tile": _INDEX,
        "worst_bytes": _BYTES,
        "total_bytes": _BYTES,
        "always_live_bytes": _BYTES,
        "categories": _list(_CATEGORY),
        "peak": _list(_BYTES, 1, chips.MOST_TILES),
        "peak_op": _optional(_INDEX),
        "liveness": _columns({"op": _INDEX, "bytes": _BYTES, "worst_tile_bytes": _BYTES}),
        "at_peak": _columns(
            {
                "buffer": _optional(_INDEX),
                "name": _TEXT,
                "category": _TEXT,
                "num_bytes": _BYTES,
                "source": _TEXT,
            }
        ),
    }
)
_PARTITION = _object(
    {
        "parts": _list(_tuple(_TEXT, _TILES)),
        "serial": _whole(1),
        "partials": _TEXT,
    }
)
_COST = _object(
    {
        "compute": _CYCLES,
        "exchange": _CYCLES,
        "sync": _CYCLES,
        "temporary": _BYTES,
        "codelets": _list(_TEXT),
        "vertex_state": _BYTES,
        "exchange_code": _BYTES,
        "label": _LABEL,
    },
    partition=_PARTITION,
)
_SEGMENTS = _columns(
    {
        "ipu": _IPU,
        "kind": _TEXT,
        "name": _TEXT,
        "start": _CYCLES,
        "cycles": _CYCLES,
        "op": _optional(_INDEX),
        "stage": _optional(_STAGE),
        "phase": _TEXT,
        "mini_batch": _optional(_whole(-1)),  # -1 is an update
        "label": _LABEL,
    }
)
_TRANSFERS = _columns(
    {
        "name": _TEXT,
        "kind": _TEXT,
        "ipu": _IPU,
        "num_bytes": _BYTES,
        "runs": _RUNS,
        "cycles": _CYCLES,
        "overlapped": _FLAG,
        "label": _LABEL,
    }
)
_TIMING = _object(
    {
        "start": _list(_CYCLES),
        "end": _list(_CYCLES),
        "total": _CYCLES,
        "ipus": _list(_IPU),
        "busy": _list(_CYCLES, 1),
    }
)
_TIMELINE = _object(
    {
        "cycles": _CYCLES,
        "clock": _number(1),
        "seconds": _number(),
        "by_kind": _mapping(_CYCLES),
        "label": _LABEL,
        "by_label": {**_mapping(_CYCLES), "propertyNames": {"enum": _LABEL["enum"]}},
        "ops": _columns({"op": _INDEX, "ipu": _IPU, "runs": _RUNS, "cost": _INDEX}),
        "costs": _list(_COST),
        "segments": _SEGMENTS,
        "transfers": _TRANSFERS,
        "schedule": _optional(_TIMING),
    }
)
_PIPELINE = _object(
    {
        "device_mapping": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_IPUS,
            "items": {"type": ["integer", "array"], "minimum": 0, "maximum": MOST_IPUS - 1}
            | {"minItems": 1, "maxItems": MOST_IPUS, "items": _IPU},
        },
        "count": _whole(0, _MOST_MINI_BATCHES),
    },
    training=_FLAG,
    schedule=_TEXT,
    repeat_count=_whole(1, _MOST_RUNS),
    batch_serialization_iterations=_whole(1, _MOST_MINI_BATCHES),
    recomputation=_optional(_TEXT),
    io_overlap=_FLAG,
)
_ATTRIBUTE: _Schema = {
    "type": ["number", "string", "boolean", "array"],
    "minimum": -_LARGEST,
    "maximum": _LARGEST,
}
_WORKLOAD = _object(
    {
        "name": _TEXT,
        "ipus": _IPUS,
        "batch": _optional(_whole(0, 2**31)),
        "fingerprint": _TEXT,
        "stage_names": _list(_TEXT),
        "pipeline": _optional(_PIPELINE),
        "variables": _table(
            {
                "name": _TEXT,
                "dtype": _TEXT,
                "shape": _SHAPE,
                "role": _TEXT,
                "ipu": _IPU,
                "offloaded": _FLAG,
                "split": _whole(1, _MOST_REPLICAS),
                "entries": _whole(most=2**31 - 1),
            },
            optional=3,
        ),
        "copies": _table(
            {
                "tensor": _TEXT,
                "source": _IPU,
                "destination": _IPU,
                "num_bytes": _BYTES,
                "runs": _RUNS,
                "stage": _optional(_STAGE),
                "phase": _PHASE,
                "label": _LABEL,
            },
            optional=3,
        ),
        "buffers": _table(
            {
                "name": _TEXT,
                "dtype": _TEXT,
                "shape": _SHAPE,
                "kind": {"type": "string", "enum": ["variable", "constant", "tensor", "input"]},
                "ipu": _optional(_IPU),
                "variable": _optional(_INDEX),
                "entries": _whole(1, _MOST_RUNS),
                "batched": _optional(_INDEX),
                "label": _LABEL,
            },
            optional=4,
        ),
        "texts": _list(_TEXT),
        "types": _list(_tuple(_TEXT, _SHAPE)),
        "attributes": _list(_mapping(_ATTRIBUTE)),
        "ops": _table(
            {
                "name": _INDEX,
                "type": _INDEX,
                "layer": _INDEX,
                "ipu": _optional(_IPU),
                "inputs": _list(_optional(_INDEX)),
                "outputs": _list(_optional(_INDEX)),
                "attributes": _INDEX,
                "end": _INDEX,
                "runs": _RUNS,
                "trip_count": _optional(_RUNS),
                "conditional": _FLAG,
                "stage": _optional(_STAGE),
                "phase": _INDEX,
                "source": _INDEX,
                "flops": _optional(_FLOPS),
                "label": _LABEL,
                "branch": _INDEX,
            }
        ),
    },
    api=_TEXT,
)
_SETTINGS = _object(
    {"chip": {**_mapping(_number(0)), **_object({"name": _TEXT}, tiles=_TILES, clock=_number(1))}},
    replicas=_whole(1, _MOST_REPLICAS),
    instances=_whole(1, _MOST_REPLICAS),
    io_tiles=_whole(0, chips.MOST_TILES),
    place_ops_on_io_tiles=_FLAG,
    io_memory_proportion=_PROPORTION,
    recompute=_FLAG,
    ordering={"type": "string", "enum": [algorithm.name for algorithm in SchedulingAlgorithm]},
    convolution_proportion=_PROPORTION,
    matmul_proportion=_PROPORTION,
    slice_proportion=_PROPORTION,
    stage_options=_list(_tuple(_STAGE, _PHASE, _mapping(_TEXT))),
    convolution_partials={"type": "string", "enum": ["float16", "float32"]},
    matmul_partials={"type": "string", "enum": ["float16", "float32"]},
    outlining=_FLAG,
    merged_bytes=_mapping(_whole(0, 2**63 - 1)),
    prefetch=_FLAG,
    stage_devices=_optional(_list(_IPU)),
    offload_activations=_FLAG,
    minimum_remote_bytes=_whole(0, 2**63 - 1),
)

#: The schema, in the words of JSON Schema (draft 7).
SCHEMA: _Schema = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": FORMAT,
    **_object(
        {
            "format": {"type": "string", "enum": [FORMAT]},
            "schema_version": {"type": "integer", "enum": [VERSION]},
            "created": _TEXT,
            "target": _TARGET,
            "program": _object({"name": _TEXT, "fingerprint": _TEXT, "options": _ANY_OBJECT}),
            "executions": _object(
                {"launches": _RUNS, "host_seconds": _number()},
                uniform_ops=_whole(),
                ops=_whole(),
                uniform_bytes=_whole(),
                variable_bytes=_whole(),
                copied_bytes=_whole(),
            ),
            "insights": _INSIGHTS,
            "layers": _list(_LAYER),
            "workload": _WORKLOAD,
            "settings": _SETTINGS,
            "plan": _object({"memory": _list(_MEMORY, 1), "timeline": _TIMELINE}),
        }
    ),
}


def check(data: Any) -> None:
    """Checks that data is a report of the version that this release reads.

    Args:
        data: the content of a file.

    Raises:
        ValueError: it is not; the message names the place and the expected value.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(
            f'Not a report of tensorflow_ipu: expected a JSON object with "format": "{FORMAT}". '
            "Give the report.json or profile.pop of a report directory."
        )
    if data.get("schema_version") != VERSION:
        raise ValueError(
            f"The report has the schema version {shown(data.get('schema_version'))}; this release "
            f"reads {VERSION}. Make the report again, or read it with the release that wrote it."
        )
    try:
        json_schema.check(data, SCHEMA, "report")
    except ValueError as error:
        raise ValueError(f"Not a whole report: {error}. Make the report again.") from None
