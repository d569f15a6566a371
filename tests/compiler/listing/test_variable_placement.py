"""Where compiled programs keep their variables, by options and configuration."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu import optimizers
from tensorflow_ipu.api.config import DeviceConnectionType
from tensorflow_ipu.api.scopes import ipu_scope
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.ir.program import VARIABLE_ATTRIBUTE
from tensorflow_ipu.compiler.listing.variable_placement import VariableRecord
from tests.support.models import pipelines, training
from tests.support.models.training import OPTIMIZERS, tf1

IN, REMOTE = "in-processor", "remote"
V2 = optimizers.CrossReplicaGradientAccumulationOptimizerV2


def _variables() -> dict[str, VariableRecord]:
    """Returns the variables of the program that was compiled last, by the end of their names."""
    records = cache.executables()[-1].variables
    return {record.name: record for record in records}


def _accumulate(
    offload: bool | None = None,
    sharding: bool | None = False,
    replicas: int = 1,
    opt: str = "momentum",
    **options: Any,
) -> dict[str, VariableRecord]:
    """Trains a model with variables of 60, 12 and 48 bytes."""
    training.configure(replicas, **options)
    make = OPTIMIZERS[opt]
    training.on_the_device(
        lambda loss: V2(make(), 2, offload, sharding).minimize(loss), 2, replicas=replicas
    )
    return _variables()


def _pipeline(ipus: int = 2, **options: Any) -> dict[str, VariableRecord]:
    """Trains a pipeline with weights of 140, 168, 96 and 48 bytes."""
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(4),
        ipus,
        opt="momentum",
        wrap=optimizers.CrossReplicaOptimizer,
        **{
            "gradient_accumulation_count": 2,
            "pipeline_schedule": pipelines.pipelining_ops.PipelineSchedule.Sequential,
            **options,
        },
    )
    return _variables()


def _of(records: dict[str, VariableRecord], role: str) -> list[VariableRecord]:
    return [record for record in records.values() if record.role == role]


def test_variables_have_roles_and_sizes() -> None:
    def train(loss: tf.Tensor) -> Any:
        step = tf1.get_variable("step", initializer=np.int32(0), use_resource=True, trainable=False)
        return V2(OPTIMIZERS["adam"](), 2).minimize(loss, global_step=step)

    training.configure()
    training.on_the_device(train, 2)
    records = _variables()
    roles = {name: record.role for name, record in records.items()}
    accumulator = "CrossReplicaGradientAccumulationOptimizerV2/accumulator"
    weights = ("kernel", "bias", "table")
    slots = [f"{name}/Adam{suffix}" for name in weights for suffix in ("", "_1")]
    assert roles == {
        **dict.fromkeys(weights, "weight"),
        **dict.fromkeys([*slots, "beta1_power", "beta2_power", "step"], "optimizer state"),
        **dict.fromkeys([accumulator, f"{accumulator}_1", f"{accumulator}_2"], "accumulator"),
        "CrossReplicaGradientAccumulationOptimizerV2/mini_batch": "other",
    }
    # All of them are smaller than what goes to remote memory by default.
    assert records["kernel"] == VariableRecord("kernel", "float32", (5, 3), "weight", IN, 1, 60, 0)
    assert {record.memory for record in records.values()} == {IN}


def test_without_accumulation_everything_is_in_the_processor() -> None:
    training.configure(optimizations__minimum_remote_tensor_size=0)
    training.on_the_device(lambda loss: OPTIMIZERS["momentum"]().minimize(loss), 2)
    records = _variables()
    assert records["kernel"].role == "weight"
    assert records["kernel/Momentum"].role == "optimizer state"
    assert {record.memory for record in records.values()} == {IN}
    assert all(record.in_processor_bytes for record in records.values())


@pytest.mark.parametrize(
    ("offload", "sharding", "replicas", "memory", "split"),
    [
        (None, False, 1, REMOTE, 1),
        (False, False, 1, IN, 1),
        (True, False, 2, REMOTE, 1),
        (True, True, 1, REMOTE, 1),
        (True, True, 2, REMOTE, 2),
        (True, None, 2, REMOTE, 2),
        (None, None, 2, REMOTE, 2),
        (None, True, 2, REMOTE, 2),
        (False, None, 2, IN, 1),
    ],
)
def test_options_offload_and_split_the_optimizer_state(
    offload: bool | None, sharding: bool | None, replicas: int, memory: str, split: int
) -> None:
    records = _accumulate(offload, sharding, replicas, optimizations__minimum_remote_tensor_size=0)
    state = _of(records, "optimizer state")
    assert len(state) == 3
    for record in state:
        elements = int(np.prod(record.shape))
        size = -(-elements // split) * 4  # padded
        assert (record.memory, record.split) == (memory, split)
        assert record.in_processor_bytes == (size if memory == IN else 0)
        assert record.remote_bytes == (size if memory == REMOTE else 0)
    others = [record for record in records.values() if record.role != "optimizer state"]
    assert {(record.memory, record.split) for record in others} == {(IN, 1)}


def test_small_variables_stay_in_the_processor() -> None:
    records = _accumulate(True, True, 2, optimizations__minimum_remote_tensor_size=48)
    memory = {record.shape: record.memory for record in _of(records, "optimizer state")}
    assert memory == {(5, 3): REMOTE, (3,): IN, (4, 3): REMOTE}


def test_nothing_is_offloaded_automatically_without_remote_memory() -> None:
    records = _accumulate(
        None,
        True,
        optimizations__minimum_remote_tensor_size=0,
        device_connection__type=DeviceConnectionType.ON_DEMAND,
    )
    assert {(record.memory, record.split) for record in records.values()} == {(IN, 1)}


def test_each_optimizer_has_its_own_options() -> None:
    def train(loss: tf.Tensor) -> list[Any]:
        pairs = OPTIMIZERS["momentum"]().compute_gradients(loss)
        return [
            V2(OPTIMIZERS["momentum"](), 2, True).apply_gradients(pairs[:1]),
            V2(OPTIMIZERS["momentum"](), 2, False).apply_gradients(pairs[1:]),
        ]

    training.configure(optimizations__minimum_remote_tensor_size=0)
    training.on_the_device(train, 2)
    memory = {record.shape: record.memory for record in _of(_variables(), "optimizer state")}
    assert memory == {(5, 3): REMOTE, (3,): IN, (4, 3): IN}


def test_one_mini_batch_offloads_the_optimizer_state() -> None:
    training.configure(optimizations__minimum_remote_tensor_size=0)
    training.on_the_device(lambda loss: V2(OPTIMIZERS["adam"](), 1, True).minimize(loss), 2)
    records = _variables()
    assert not _of(records, "accumulator")
    assert {record.memory for record in _of(records, "optimizer state")} == {REMOTE}
    assert {record.memory for record in _of(records, "weight")} == {IN}


@pytest.mark.parametrize("first_generation", [False, True])
def test_first_generation_keeps_optimizer_state_in_processor(
    first_generation: bool,
) -> None:
    training.configure(optimizations__minimum_remote_tensor_size=0)
    cls = (
        optimizers.GradientAccumulationOptimizer
        if first_generation
        else optimizers.GradientAccumulationOptimizerV2
    )
    training.on_the_device(lambda loss: cls(OPTIMIZERS["momentum"](), 2).minimize(loss), 2)
    state = _of(_variables(), "optimizer state")
    assert {record.memory for record in state} == {IN if first_generation else REMOTE}


class TestPipelines:
    """Options that only pipelines have."""

    def test_by_default_a_pipeline_offloads_its_optimizer_state(self) -> None:
        records = _pipeline()
        assert [record.memory for record in _of(records, "optimizer state")] == [
            REMOTE,
            REMOTE,
            IN,
            IN,
        ]
        others = _of(records, "weight") + _of(records, "accumulator")
        assert len(others) == 8
        assert {record.memory for record in others} == {IN}

    def test_accumulators_are_offloaded_on_request(self) -> None:
        records = _pipeline(offload_gradient_accumulation_buffers=True)
        memory = {record.shape: record.memory for record in _of(records, "accumulator")}
        assert memory == {(5, 7): REMOTE, (7, 6): REMOTE, (6, 4): IN, (4, 3): IN}

    @pytest.mark.parametrize(
        ("options", "ipus", "memory", "split"),
        [
            ({"offload_weights": True}, 4, REMOTE, 2),
            ({"offload_weights": True}, 2, REMOTE, 1),
            ({"replicated_weight_sharding": True}, 4, REMOTE, 2),
            ({"replicated_weight_sharding": True, "offload_weights": True}, 4, REMOTE, 2),
            ({"replicated_weight_sharding": False, "offload_weights": True}, 4, IN, 1),
            (
                {"batch_serialization_iterations": 2, "device_mapping": [0, 0]},
                2,
                REMOTE,
                2,
            ),
        ],
    )
    def test_weights_are_offloaded_and_split_on_request(
        self, options: dict[str, Any], ipus: int, memory: str, split: int
    ) -> None:
        weights = {record.shape: record for record in _of(_pipeline(ipus, **options), "weight")}
        assert (weights[7, 6].memory, weights[7, 6].split) == (memory, split)
        assert weights[7, 6].remote_bytes == (168 // split if memory == REMOTE else 0)
        assert weights[4, 3].memory == IN

    def test_odd_sizes_are_padded(self) -> None:
        weights = _of(_pipeline(4, offload_weights=True), "weight")
        assert weights[0].shape == (5, 7)
        assert weights[0].remote_bytes == 18 * 4

    @pytest.mark.parametrize(
        "option",
        [
            "offload_weight_update_variables",
            "offload_activations",
            "offload_gradient_accumulation_buffers",
            "offload_weights",
        ],
    )
    def test_options_needing_remote_memory_are_refused_without_it(
        self, option: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def configure(ipus: int) -> None:
            training.configure(ipus, device_connection__type=DeviceConnectionType.ON_DEMAND)

        monkeypatch.setattr(pipelines, "configure", configure)
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=f"{option}=True.* not support remote memory"
        ):
            _pipeline(**{option: True})
        with pytest.raises(tf.errors.UnimplementedError, match="does not support remote memory"):
            _pipeline(replicated_weight_sharding=True)
        assert {record.memory for record in _pipeline().values()} == {IN}


class TestOptions:
    """Options that contradict each other in any configuration."""

    @pytest.mark.parametrize(
        "memory",
        [
            {},
            {"offload_weight_update_variables": None, "replicated_optimizer_state_sharding": True},
            {"offload_weight_update_variables": True, "replicated_optimizer_state_sharding": True},
            {"offload_weights": None, "replicated_weight_sharding": True},
            {"offload_weights": False, "replicated_weight_sharding": None},
        ],
    )
    def test_consistent_options_are_accepted(self, memory: dict[str, bool | None]) -> None:
        pipeline_plan.check_options(memory)

    def test_state_sharding_without_offloading_is_refused(self) -> None:
        with pytest.raises(ValueError, match="offload_weight_update_variables=False keeps them"):
            pipeline_plan.check_options(
                {
                    "offload_weight_update_variables": False,
                    "replicated_optimizer_state_sharding": True,
                }
            )

    def test_weight_sharding_without_offloading_is_refused(self) -> None:
        with pytest.raises(tf.errors.UnimplementedError, match="offload_weights is False"):
            pipeline_plan.check_options(
                {"offload_weights": False, "replicated_weight_sharding": True}
            )

    def test_other_values_of_options_are_refused(self) -> None:
        with pytest.raises(TypeError, match="offload_activations must be None, True or False"):
            pipeline_plan.check_options({"offload_activations": "always"})  # type: ignore[dict-item]


def test_the_listing_has_a_table_of_variables() -> None:
    _accumulate(True, True, 2, optimizations__minimum_remote_tensor_size=48)
    lines = str(cache.executables()[-1]).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("variable "))
    header = ["variable", "type", "role", "memory", "split", "in", "processor", "remote"]
    assert lines[start].split() == header
    rows = {line.split()[0]: line for line in lines[start + 1 :] if line}
    momentum = rows["kernel/Momentum"]
    assert " float32[5, 3] " in momentum
    assert momentum.split()[-6:] == ["remote", "2", "0", "B", "32", "B"]
    # Weights 120, accumulators 120, counter 4 and one small slot 12; slots of 8 and 6 elements.
    assert lines[-1] == "variables of one replica: 256 B in processor, 56 B remote"


def test_programs_say_themselves_where_variables_are() -> None:
    training.configure(2)
    with tf.device("/device:IPU:0"):
        total, weight = tf.Variable(tf.zeros([6])), tf.Variable(tf.zeros([6]))
    said = {"remote": True, "split": 2, "role": "accumulator"}
    mark = attr_value_pb2.AttrValue(s=json.dumps(said).encode())

    @tf.function(jit_compile=True)
    def program() -> None:
        value = weight + 1.0
        with tf.compat.v1.get_default_graph()._attr_scope({VARIABLE_ATTRIBUTE: mark}):
            total.assign_add(value)

    with ipu_scope("/device:IPU:0"):
        program()
    records = cache.executables()[-1].variables
    found = sorted((r.role, r.memory, r.split, r.remote_bytes) for r in records)
    assert found == [("accumulator", REMOTE, 2, 12), ("weight", IN, 1, 0)]


def test_text_has_no_table_for_weights_only() -> None:
    training.configure()
    training.on_the_device(lambda loss: OPTIMIZERS["descent"]().minimize(loss), 2)
    assert "variables of one replica" not in str(cache.executables()[-1])
