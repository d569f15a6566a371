"""Prints a table of layers and their pipeline stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow_ipu.keras_layers.pipelining import listing


def print_summary(
    model: Any, line_length: int | None, print_fn: Callable[[str], Any] | None
) -> None:
    """Prints the table of a model.

    Args:
        model: a Keras model.
        line_length: characters of a line: 89 when None, 60 for a Sequential model.
        print_fn: called with each line; `print` when None.
    """
    sequential = listing.is_sequential(model)
    length = line_length or (60 if sequential else 89)
    if sequential:
        titles = ["Layer (type)", "Pipeline Stage"]
        ends = [length // 2, length]
    else:
        titles = ["Layer (type) (node index)", "Input Layers", "Pipeline Stage"]
        ends = [length * 2 // 5, length * 4 // 5, length]
    show = print_fn or print
    show(f'Model: "{model.name}"')
    show("_" * length)
    show(_line(titles, ends))
    show("=" * length)
    for line in _table(listing.listed(model), ends):
        show(line)


def _table(elements: Sequence[Any], ends: Sequence[int]) -> Iterator[str]:
    """Yields the lines of the elements of one model, with those of models in it."""
    length = ends[-1]
    for element, following in zip(elements, [*elements[1:], None]):
        if element.is_nested_model:
            yield f'Nested Model: "{element.nested_model.name}"'
            yield "-" * length
            yield from _table(element.pipeline_stage_assignments, ends)
            continue
        for cells in _rows(element, with_inputs=len(ends) == 3):
            yield _line(cells, ends)
        ends_here = following is None or following.is_nested_model
        yield ("=" if ends_here else "_") * length


def _rows(element: Any, with_inputs: bool) -> Iterator[list[str]]:
    """Yields the cells of the rows of a layer: one for each of its inputs, but at least one."""
    name = f"{element.layer.name} ({type(element.layer).__name__})"
    stage = str(element.pipeline_stage)
    if not with_inputs:
        yield [name, stage]
        return
    index = getattr(element, "node_index", None)
    call = "" if index is None else f" ({index})"
    first, *others = [layer.name for layer in getattr(element, "inbound_layers", ())] or [""]
    yield [name + call, first, stage]
    for other in others:
        yield ["", other, ""]


def _line(cells: Sequence[str], ends: Sequence[int]) -> str:
    """Returns a row, in which text too long for its column is cut off."""
    line = ""
    for cell, end in zip(cells, ends):
        # A space at least between two columns.
        line = (line[:-1] + " " if line else "") + cell
        line = line[:end].ljust(end)
    return line
