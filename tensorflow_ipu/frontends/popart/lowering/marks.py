"""`ModelPlacement`: placement, stages, recomputation and memory of a program, as marks on ops.

None of it changes values: where nodes run, which stage of a pipeline they are, what is computed
again, and which memory variables are in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.api import scopes
from tensorflow_ipu.api.gradient_accumulation import UPDATE_PHASE, MiniBatches
from tensorflow_ipu.compiler.ir.program import (
    ACCUMULATION_ATTRIBUTE,
    API_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    SETTINGS_ATTRIBUTE,
    STAGE_ATTRIBUTE,
    TRAPS_ATTRIBUTE,
    VARIABLE_ATTRIBUTE,
)
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.session_options import ProgramOptions
from tensorflow_ipu.planner.schedule import PipelineDescription, RecomputationMode
from tensorflow_ipu.planner.workload import POPART

_ACCUMULATOR = "accumulator"
# Attribute of nodes: the type in which they add products.
_PARTIALS = "__partials_type"
_PARTIALS_TYPES = {"FLOAT": tf.float32, "HALF": tf.float16}


@dataclasses.dataclass(frozen=True)
class NodePlace:
    """Place of a node.

    Attributes:
        ipu: The IPU within a replica.
        stage: The stage of the pipeline; None without one.
    """

    ipu: int
    stage: int | None = None


# By each output of a node; a node without outputs by its inputs.
Places = Mapping[str, NodePlace]


def place_of(places: Places, node: onnx.NodeProto) -> NodePlace | None:
    """Returns the place of a node; None for anywhere.

    Args:
        places: where nodes run.
        node: the node.
    """
    return places.get(keys_of(node)[0])


def keys_of(node: onnx.NodeProto) -> list[str]:
    """Returns the keys of a node in `Places`: its outputs, or its inputs if it has none.

    Args:
        node: the node.
    """
    outputs = [name for name in node.output if name]
    return outputs or [f"{node.op_type}({', '.join(node.input)})"]


def stage_ipus(places: Places) -> tuple[int, ...]:
    """Returns the IPU of each stage; empty without a pipeline.

    Args:
        places: where nodes run.
    """
    found = {place.stage: place.ipu for place in places.values() if place.stage is not None}
    return tuple(found[stage] for stage in sorted(found))


@dataclasses.dataclass(frozen=True)
class Location:
    """Which memory a variable is in.

    Attributes:
        is_remote: Whether it is in streaming memory.
        split: Over how many replicas it is split.
        is_accumulator: Whether gradients are added up in it.
    """

    is_remote: bool = False
    split: int = 1
    is_accumulator: bool = False


@dataclasses.dataclass(frozen=True)
class ModelPlacement:
    """How a program is put on IPUs.

    Attributes:
        places: Where nodes run, by each of their outputs.
        homes: Where inputs and weights are, by id.
        locations: Which memory variables are in, by id, where that is not plain.
        recomputes: Whether activations of a pipeline are computed again.
        offloads_activations: Whether stashes of a pipeline are in streaming memory.
        adds_products_in_half: Whether matrix products of float16 add in float16.
        ipus: IPUs of a replica, also those that nothing is placed on.
    """

    places: Places = dataclasses.field(default_factory=dict)
    homes: Mapping[str, NodePlace] = dataclasses.field(default_factory=dict)
    locations: Mapping[str, Location] = dataclasses.field(default_factory=dict)
    recomputes: bool = False
    offloads_activations: bool = False
    adds_products_in_half: bool = False
    ipus: int = 1

    @property
    def is_pipelined(self) -> bool:
        """Whether nodes are stages of a pipeline."""
        return any(place.stage is not None for place in self.places.values())

    def mini_batches(self, count: int, batches: int, optimizer: str) -> MiniBatches:
        """Returns the mini-batches of an update, seen from inside the loop over them.

        Args:
            count: micro-batches for one update; without training, those of a step.
            batches: updates of a step.
            optimizer: class of the optimizer; empty without training.
        """
        if self.is_pipelined:
            attribute, description = PIPELINE_ATTRIBUTE, self._pipeline(count, batches, optimizer)
        else:
            attribute, description = ACCUMULATION_ATTRIBUTE, _accumulation(count, optimizer)
        return MiniBatches(count, attribute, description, "popart")

    def _pipeline(self, count: int, batches: int, optimizer: str) -> dict[str, Any]:
        """Returns the description of the pipeline for the compiler."""
        ipus = stage_ipus(self.places)
        mode = RecomputationMode.Auto if self.recomputes else None
        description = PipelineDescription(
            device_mapping=ipus,
            count=count,
            training=bool(optimizer),
            repeat_count=batches,
            recomputation=mode,
            any_count=True,
        )
        return {
            "name": "popart",
            "description": description.to_json(),
            "devices": [[ipu] for ipu in ipus],
            "memory": {"offload_activations": self.offloads_activations},
            "stages": [[f"stage_{stage}"] for stage in range(len(ipus))],
            "options": {},
            "recompute": self.recomputes,
        }

    @contextlib.contextmanager
    def of_node(self, node: onnx.NodeProto) -> Iterator[None]:
        """Marks the operations of a node.

        Args:
            node: the node.

        Yields:
            Nothing.
        """
        partials = self._partials(node)
        adding = contextlib.nullcontext() if partials is None else scopes.partials_type(partials)
        with at(place_of(self.places, node)), adding:
            yield

    def _partials(self, node: onnx.NodeProto) -> Any:
        """Returns the type in which a node adds products; None if that is not said."""
        if node.op_type not in ("MatMul", "Conv"):
            return None
        said = next((a.s.decode() for a in node.attribute if a.name == _PARTIALS), None)
        if said is not None and said.upper() not in _PARTIALS_TYPES:
            raise popart_exception(
                f"Bad {node.op_type}PartialsType {said!r} of {node.output[0]}. Expected FLOAT or "
                "HALF."
            )
        if said is not None:
            return _PARTIALS_TYPES[said.upper()]
        return tf.float16 if self.adds_products_in_half and node.op_type == "MatMul" else None

    def of_source(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Marks the operations that bring an input or a weight.

        Args:
            name: its id.
        """
        return at(self.homes.get(name))

    def of_inputs(self) -> contextlib.AbstractContextManager[None]:
        """Marks the operations that read the inputs: they are where the first nodes are."""
        stages = [place for place in self.places.values() if place.stage == 0]
        return at(next(iter(stages or self.places.values()), None))

    def of_tensor(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Marks the operations that send a tensor to the host.

        Args:
            name: its id.
        """
        return at(self.places.get(name, self.homes.get(name)))

    def of_variable(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Marks the operations that use a variable.

        Args:
            name: its id.
        """
        location = self.locations.get(name)
        if location is None:
            return contextlib.nullcontext()
        mark: dict[str, Any] = {"remote": location.is_remote, "split": location.split}
        if location.is_accumulator:
            mark["role"] = _ACCUMULATOR
        return _attributes({VARIABLE_ATTRIBUTE: attr_value_pb2.AttrValue(s=_json(mark))})


#: One IPU, and nothing kept elsewhere.
PLAIN = ModelPlacement()


@contextlib.contextmanager
def at(place: NodePlace | None) -> Iterator[None]:
    """Places operations.

    Args:
        place: where they run; None for anywhere.

    Yields:
        Nothing.
    """
    if place is None:
        yield
        return
    with scopes.ipu_shard(place.ipu):
        if place.stage is None:
            yield
            return
        with _attributes({STAGE_ATTRIBUTE: attr_value_pb2.AttrValue(i=place.stage)}):
            yield


def mark_options(options: ProgramOptions, ipus: int) -> tf.Operation:
    """Gives the program in scope options of its own, and all IPUs of a replica.

    Args:
        options: the options.
        ipus: IPUs of a replica: the last of them counts although nothing else is placed there.

    Returns:
        An operation that has to be in the program.
    """
    marks = {
        SETTINGS_ATTRIBUTE: attr_value_pb2.AttrValue(s=_json(options.settings)),
        API_ATTRIBUTE: attr_value_pb2.AttrValue(s=POPART.encode()),
    }
    if options.traps:
        marks[TRAPS_ATTRIBUTE] = attr_value_pb2.AttrValue(b=True)
    last = scopes.ipu_shard(ipus - 1) if ipus > 1 else contextlib.nullcontext()
    with _attributes(marks), last:
        return tf.no_op(name="options")


def update_scope() -> contextlib.AbstractContextManager[Any]:
    """Marks operations as parts of an update of weights."""
    return _attributes({PHASE_ATTRIBUTE: attr_value_pb2.AttrValue(s=UPDATE_PHASE.encode())})


def _accumulation(count: int, optimizer: str) -> dict[str, Any]:
    """Returns the attribute that describes an accumulation to the compiler."""
    return {
        "optimizer": optimizer,
        "name": "popart",
        "num_mini_batches": count,
        "wrapped_by": None,
        "memory": {},
    }


def _attributes(
    attributes: dict[str, attr_value_pb2.AttrValue],
) -> contextlib.AbstractContextManager[Any]:
    graph = tf.compat.v1.get_default_graph()
    scope: contextlib.AbstractContextManager[Any] = graph._attr_scope(attributes)
    return scope


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
