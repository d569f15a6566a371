"""A table of layers and their pipeline stages, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow_ipu.keras_layers.pipelining import listing

_INDENT = "  "


def print_summary(
    model: Any, line_length: int | None, print_fn: Callable[[str], Any] | None
) -> None:
    """Prints the table of a model.

    Args:
        model: A Keras model.
        line_length: Characters of a line: 89 when None, 60 for a Sequential model.
        print_fn: Called with each line; `print` when None.
    """
    sequential = listing.is_sequential(model)
    length = line_length or (60 if sequential else 89)
    if sequential:
        titles = ["Layer (type)", "Pipeline Stage"]
        ends = [length * 3 // 4, length]
    else:
        titles = ["Layer (type) (node index)", "Input Layers", "Pipeline Stage"]
        ends = [length * 45 // 100, length * 4 // 5, length]
    show = print_fn or print
    show(f'Model: "{model.name}"')
    show("_" * length)
    for line in _lines(titles, ends):
        show(line)
    show("=" * length)
    for cells in _rows(listing.listed(model), "", not sequential):
        for line in _lines(cells, ends):
            show(line)
    show("_" * length)


def _rows(elements: Sequence[Any], indent: str, with_inputs: bool) -> Iterator[list[str]]:
    """Yields the cells of each row; those of nested models below them, indented."""
    for element in elements:
        layer = element.nested_model if element.is_nested_model else element.layer
        index = getattr(element, "node_index", None)
        call = "" if index is None or not with_inputs else f" ({index})"
        inputs = ", ".join(one.name for one in getattr(element, "inbound_layers", ()))
        stage = "" if element.is_nested_model else str(element.pipeline_stage)
        name = f"{indent}{layer.name} ({type(layer).__name__}){call}"
        yield [name, inputs, stage] if with_inputs else [name, stage]
        if element.is_nested_model:
            yield from _rows(element.pipeline_stage_assignments, indent + _INDENT, with_inputs)


def _lines(cells: Sequence[str], ends: Sequence[int]) -> Iterator[str]:
    """Yields the lines of a row, in which text too long for its column goes on below."""
    starts = [0, *ends[:-1]]
    columns = []
    for cell, start, end in zip(cells, starts, ends):
        indent = cell[: len(cell) - len(cell.lstrip())]
        columns.append(
            textwrap.wrap(cell, max(end - start - 1, 1 + len(indent)), subsequent_indent=indent)
        )
    for number in range(max(1, *(len(column) for column in columns))):
        line = ""
        for column, start in zip(columns, starts):
            if number < len(column):
                line = line.ljust(start) + column[number]
        yield line
