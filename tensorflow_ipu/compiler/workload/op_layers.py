"""The layer of each op of a program.

The layer of an op is the layer or name of, in this order,

1. the call around it, because names inside say nothing of the call site; within that, the layer
   that a front end declares;
2. for an op of a gradient, its forward op;
3. the variable that it reads or writes;
4. its name scope (`layers`);
5. the op that runs the function it is in;
6. the part of Keras that made it: `metrics`, the name of the optimizer or of a loss function;
7. the variable whose value it takes;
8. the ops that its data come from: for a forward op, ops of the same function of the user's
   program.

Ops of an optimizer for a variable are in the layer of the variable. Other ops have no layer;
reports name the function of the user's program for them.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis.layer_names import LayerNames, path
from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.compiler.listing.variable_placement import ACCUMULATOR, OPTIMIZER_STATE
from tensorflow_ipu.compiler.sources.frames import OPTIMIZER
from tensorflow_ipu.compiler.workload import phases
from tensorflow_ipu.compiler.workload.draft import BACKWARD, UPDATE, Draft
from tensorflow_ipu.compiler.workload.phases import Makers, sources
from tensorflow_ipu.planner.workload import Variable


def assign(drafts: Sequence[Draft], layers: LayerNames, variables: Sequence[Variable]) -> None:
    """Assigns ops their phases and layers.

    Args:
        drafts: drafts of the ops, in order.
        layers: layers by variable, from all ops that read variables.
        variables: the program's variables.
    """
    makers: Makers = {
        operand.buffer: position
        for position, draft in reversed(tuple(enumerate(drafts)))
        for operand in draft.outputs
        if operand.buffer is not None
    }
    _assign_update_layers(drafts, layers)
    scopes = _update_scopes(drafts, layers, variables)
    accumulators = frozenset(v.name for v in variables if v.role == ACCUMULATOR)
    phases.assign(drafts, scopes, makers, accumulators)
    # The values of variables are in the first buffers.
    found = (layers.of_variable(variable.name) for variable in variables)
    of_values: dict[int | None, str] = {i: layer for i, layer in enumerate(found) if layer}
    optimizer = next(iter(scopes)) if len(scopes) == 1 else "optimizer"
    _Assignment(drafts, layers, makers, of_values, optimizer).run()
    _spread_updates(drafts, makers)


def _assign_update_layers(drafts: Sequence[Draft], layers: LayerNames) -> None:
    """Assigns variables that are updated with a weight (slots, accumulators) to its layer."""
    for draft in drafts:
        if op_names.is_optimizer_update(draft.record.type):
            found = [layers.of_variable(name) for name in draft.variables]
            layer = next(filter(None, found), "")
            for name in draft.variables:
                layers.assign(name, layer)


def _update_scopes(
    drafts: Sequence[Draft], layers: LayerNames, variables: Sequence[Variable]
) -> frozenset[str]:
    """Returns the scopes of optimizers: scopes that write variables of other layers."""
    found = set()
    state_names = {variable.name for variable in variables if variable.role == OPTIMIZER_STATE}
    for draft in drafts:
        if not draft.variables or not op_names.is_update(draft.record.type):
            continue
        if draft.record.layer is not None:
            continue  # a front end names it
        scope = path(draft.record.name, draft.record.keras.layers)
        layer = layers.of_variable(draft.variables[0])
        foreign = bool(layer) and f"/{layer}/" not in f"/{scope}/"
        state = not state_names.isdisjoint(draft.variables)
        if foreign or state or op_names.is_optimizer_update(draft.record.type):
            found.add(scope.split("/update")[0])
    return frozenset(found - {""})


class _Assignment:
    """Assignment of layers to ops, in the order of the program."""

    def __init__(
        self,
        drafts: Sequence[Draft],
        layers: LayerNames,
        makers: Makers,
        of_values: Mapping[int | None, str],
        optimizer: str,
    ) -> None:
        self._drafts = drafts
        self._layers = layers
        self._makers = makers
        self._of_values = of_values
        self._optimizer = optimizer
        self._by_name: dict[str, str] = {}
        self._in_calls: set[int] = set()
        # Buffer -> the op that wrote it last: a reshape, for one, shares its operand's buffer.
        self._latest: dict[int, int] = {}

    def run(self) -> None:
        """Assigns all ops their layers."""
        for position, draft in enumerate(self._drafts):
            if draft.caller is not None:
                if self._drafts[draft.caller].calls or draft.caller in self._in_calls:
                    self._in_calls.add(position)
            draft.layer = self._layer(position)
            self._by_name.setdefault(draft.record.name, draft.layer)
            for operand in draft.outputs:
                if operand.buffer is not None:
                    self._latest[operand.buffer] = position

    def _layer(self, position: int) -> str:
        """Returns the layer of an op, after the layers of all ops in front of it."""
        draft = self._drafts[position]
        around = "" if draft.caller is None else self._drafts[draft.caller].layer
        declared = draft.record.layer
        if around and position in self._in_calls:
            return f"{around}/{declared}" if declared else around
        if declared or (declared is not None and draft.calls):
            return declared  # operands of a call say nothing of the ops that it runs
        found = self._by_name.get(draft.record.original) or self._own(draft) or around
        if not found and draft.phase != BACKWARD:  # optimizers of Keras compute gradients, too
            part = draft.record.keras.part
            found = self._optimizer if part == OPTIMIZER else part
        return found or self._of_sources(position)

    def _own(self, draft: Draft) -> str:
        """Returns the layer of an op's variable, or of its own name."""
        found = next(filter(None, map(self._layers.of_variable, draft.variables)), "")
        has_name = draft.record.layer is None and not (draft.variables and draft.phase == UPDATE)
        if not found and has_name:
            found = self._layers.of_op(draft.record.name, draft.record.keras)
        return found

    def _of_sources(self, position: int) -> str:
        """Returns the layer of the ops that an op's data come from."""
        draft = self._drafts[position]
        if draft.end > position + 1 and not draft.calls:
            return ""  # a loop or conditional may have the whole program in it
        for operand in () if draft.calls else draft.inputs:
            if operand.buffer in self._of_values:
                return self._of_values[operand.buffer]
        if draft.phase == BACKWARD and not draft.calls:
            # Ops that make a sparse gradient dense are of the lookup, whose reshape is in the
            # buffer of the layer after it.
            latest = [self._latest[o.buffer] for o in draft.inputs if o.buffer in self._latest]
            found = _most_common(self._drafts[source].layer for source in latest)
            if found:
                return found
        near = list(sources(self._drafts, position, self._makers))
        if draft.phase == UPDATE or draft.phase == BACKWARD or draft.calls:
            return _most_common(self._drafts[source].layer for source in near)
        here = _function_of(draft.record)
        # Where branches come together, that is the layer which comes last.
        for source in sorted(near, reverse=True):
            if _function_of(self._drafts[source].record) == here and self._drafts[source].layer:
                return self._drafts[source].layer
        return ""


def _most_common(layers: Iterable[str]) -> str:
    found = collections.Counter(layers)
    del found[""]
    return found.most_common(1)[0][0] if found else ""


def _function_of(record: OpRecord) -> tuple[str, str] | None:
    """Returns the function of the user's program that an op was made in."""
    return None if record.source is None else (record.source.file, record.source.function)


def _spread_updates(drafts: Sequence[Draft], makers: Makers) -> None:
    """Assigns ops of an optimizer to the layer of the variable that their results update."""
    assigned = {
        position: draft.layer
        for position, draft in enumerate(drafts)
        if draft.phase == UPDATE and draft.variables and op_names.is_update(draft.record.type)
    }
    for position in range(len(drafts) - 1, -1, -1):
        if position not in assigned:
            continue
        drafts[position].layer = assigned[position]
        for maker in sources(drafts, position, makers):
            if drafts[maker].phase == UPDATE and not drafts[maker].variables:
                assigned.setdefault(maker, assigned[position])
