"""Transforms that change only plans: exchanges, and stages of pipelines. Results are the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.ir import Graph, Op

_MULTI_EXCHANGE = register(OpKind("MultiExchange", lambda specs, **_: []))


@contextlib.contextmanager
def merge_exchange() -> Iterator[None]:
    """Lets the loads and stores created inside, in the current graph, happen together.

    Those that do not depend on each other, and that `in_sequence` does not order, are exchanges
    that happen at once. Hooks of the graph see an op of the type "MultiExchange" for each.

    Yields:
        Nothing.
    """
    graph = context.get_current_graph()
    count = len(graph.ops)
    yield
    for together in _merged(graph.ops[count:]):
        if len(together) > 1:
            number = graph.ir.next_number("exchange")
            for op in together:
                op.planned["exchange"] = number
            graph.announce(_MULTI_EXCHANGE, together)


@contextlib.contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Puts the loads and stores created inside on the I/O tiles, to happen together.

    Args:
        verify_overlap: whether it is refused that more than one op is left after those that can
            happen together are one. `ops.init` does not count.

    Yields:
        Nothing.

    Raises:
        RuntimeError: If more than one is left.
    """
    graph = context.get_current_graph()
    count = len(graph.ops)
    with context.io_tiles(), merge_exchange(), context.in_sequence(False):
        yield
    if verify_overlap:
        made = graph.ops[count:]
        left = [together[0] for together in _merged(made)]
        left += [op for op in made if not _is_exchange(op) and op.kind.type != "Init"]
        if len(left) > 1:
            raise RuntimeError(
                "More than one Op remained after the exchanges were merged, so they would not "
                f"overlap: {', '.join(f'{op!r} ({op.site})' for op in left)}."
            )


def _is_exchange(op: Op) -> bool:
    """Returns whether an op moves a tensor from or to the host or remote memory."""
    return "stream" in op.attributes or "buffer" in op.attributes


def _merged(ops: Sequence[Op]) -> list[list[Op]]:
    """Returns the exchanges among ops, in groups of those that can happen at once."""
    stages: dict[Op, int] = {}
    groups: list[list[Op]] = []
    for op in ops:
        before = [tensor.producer for tensor in op.inputs] + list(op.after)
        earlier = [known for known in before if known is not None and known in stages]
        stage = max((stages[known] + _is_exchange(known) for known in earlier), default=0)
        if _is_exchange(op):
            while stage < len(groups) and any(_same_entry(op, other) for other in groups[stage]):
                stage += 1
            groups.extend([] for _ in range(stage + 1 - len(groups)))
            groups[stage].append(op)
        stages[op] = stage
    return [group for group in groups if group]


def _same_entry(op: Op, other: Op) -> bool:
    """Returns whether two ops may access one entry of a buffer, and one of them stores there."""
    buffer = op.attributes.get("buffer")
    if buffer is None or buffer is not other.attributes.get("buffer"):
        return False
    offsets = {op.attributes["offset"], other.attributes["offset"]}
    stores = not op.outputs or not other.outputs
    return stores and (len(offsets) == 1 or None in offsets)


def decompose_sum(graph: Graph) -> Graph:
    """Returns a graph whose sums of many tensors may become trees of additions.

    Sums are added in one order here, so nothing is changed.

    Args:
        graph: the graph.
    """
    return graph


def plan_as_pipeline(loop: Op, stages: Mapping[Op, int]) -> None:
    """Says that the stages of a loop work on different iterations at the same time, in plans.

    What is computed stays the same: one iteration after the other. A plan has one pipeline: that of
    which this was said first.

    Args:
        loop: the loop.
        stages: the stage of each op of the graph that it repeats; an iteration is in one stage
            after the other.
    """
    if loop.graph.ir.next_number("pipeline"):
        return
    numbers = {stage: number for number, stage in enumerate(sorted(set(stages.values())))}
    ipus: dict[int, set[int]] = {number: set() for number in numbers.values()}
    for op, stage in stages.items():
        op.planned["stage"] = numbers[stage]
        ipus[numbers[stage]].add(op.source_ipu)
    loop.planned["pipeline"] = [sorted(of_stage) for of_stage in ipus.values()]


def plan_stash(op: Op, stages: int) -> None:
    """Says that an op of a pipeline takes a tensor of an earlier stage, of which several are kept.

    Args:
        op: the op.
        stages: how many stages earlier.
    """
    op.planned["stash"] = stages + 1
