"""Drawings of graphs at checkpoints: files in the language of Graphviz, for all front ends."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tensorflow_ipu.util import private_files

#: The checkpoint at the end of preparation.
FINAL = "FINAL"
_ALL = "ALL"
_VARIABLE = "POPART_DOT_CHECKS"


class DrawnOp(NamedTuple):
    """An op of a drawing.

    Args:
        type: its type.
        name: its name, which is shown if that is asked for.
        inputs: ids of its inputs.
        outputs: ids of its outputs.
    """

    type: str
    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]


def of_environment() -> set[str] | None:
    """Returns the checkpoints that the environment names; None if it says nothing."""
    text = os.environ.get(_VARIABLE)
    return None if text is None else {name for name in text.split(":") if name}


def is_active(check: str, of_options: Iterable[str]) -> bool:
    """Returns whether drawings of a checkpoint are written.

    Args:
        check: the checkpoint.
        of_options: the checkpoints that the session options name.
    """
    named = {name.upper() for name in (*of_options, *(of_environment() or ()))}
    return bool(named & {check.upper(), _ALL})


def named(of_options: Iterable[str], known: Sequence[str]) -> list[str]:
    """Returns the checkpoints that options and environment name.

    Args:
        of_options: the checkpoints that the session options name.
        known: the checkpoints that `ALL` stands for.
    """
    every = {*of_options, *(of_environment() or ())}
    chosen = sorted(name for name in every if name.upper() != _ALL)
    return chosen if len(chosen) == len(every) else list(dict.fromkeys([*chosen, *known]))


def write(
    check: str,
    folder: str,
    graphs: Mapping[str, Sequence[DrawnOp]],
    ops: tuple[int, int] = (0, 10000),
    shows_names: bool = False,
) -> None:
    """Writes a file `<check>_<graph>.dot` for each graph.

    Args:
        check: the checkpoint.
        folder: where to; made if it is missing; "" for the current one.
        graphs: the ops of each graph by its name.
        ops: the number of the first op that is drawn, and of the one after the last.
        shows_names: whether ops are labelled with their names.

    Raises:
        OSError: If a file cannot be written.
    """
    directory = private_files.make_folder(folder or ".")
    for graph, every in graphs.items():
        name = re.sub(r"[^\w.-]+", "_", f"{check}_{graph}")
        private_files.write_text(directory / f"{name}.dot", _text(every[slice(*ops)], shows_names))


def _text(ops: Sequence[DrawnOp], shows_names: bool) -> str:
    """Returns a graph in the language of Graphviz: an edge for each tensor between two ops."""
    lines = ["digraph clusters {"]
    makers = {tensor: number for number, op in enumerate(ops) for tensor in op.outputs}
    for number, op in enumerate(ops):
        label = f"{op.type}.{op.name}" if shows_names and op.name else op.type
        lines.append(f"  n{number} [shape=box, label={json.dumps(label)}];")
    for number, op in enumerate(ops):
        for tensor in dict.fromkeys(op.inputs):
            if tensor in makers:
                lines.append(f"  n{makers[tensor]} -> n{number} [label={json.dumps(tensor)}];")
            else:
                lines.append(f"  {json.dumps(tensor)} -> n{number};")
    return "\n".join([*lines, "}", ""])
