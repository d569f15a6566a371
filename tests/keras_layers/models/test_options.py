"""The options of a model and their setters, without a model."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.keras_layers.models import model_options
from tensorflow_ipu.keras_layers.models.model_options import (
    ModelOptions,
    OptionSetters,
    ReplicatedMetricReductionMethod,
)
from tensorflow_ipu.ops.pipelining_ops import PipelineSchedule

STEPS = "gradient_accumulation_steps_per_replica"


class Model(OptionSetters):
    """Stands for a model: counts how often its programs are dropped."""

    dropped = 0

    def _drop_ipu_programs(self) -> None:
        self.dropped += 1


def changed(model: Model) -> dict[str, Any]:
    """Returns the options of a model that are not the defaults."""
    now, defaults = dataclasses.asdict(model._ipu_options), dataclasses.asdict(ModelOptions())
    return {name: now[name] for name in now if now[name] != defaults[name]}


def parameters(setter: str) -> dict[str, Any]:
    """Returns the arguments of a setter with their defaults."""
    signature = inspect.signature(getattr(OptionSetters, setter))
    return {
        name: parameter.kind if parameter.default is parameter.empty else parameter.default
        for name, parameter in signature.parameters.items()
        if name != "self"
    }


class TestSetters:
    """Effects of the setters."""

    @pytest.mark.parametrize(
        ("setter", "arguments"),
        [
            (
                "set_gradient_accumulation_options",
                {
                    STEPS: None,
                    "gradient_accumulation_reduction_method": "sum",
                    "use_v2_gradient_accumulation_optimizer": False,
                    "gradient_accumulation_optimizer_kwargs": inspect.Parameter.VAR_KEYWORD,
                },
            ),
            (
                "set_pipelining_options",
                {
                    STEPS: None,
                    "device_mapping": None,
                    "accumulate_outfeed": None,
                    "gradient_accumulation_reduction_method": "sum",
                    "pipelining_kwargs": inspect.Parameter.VAR_KEYWORD,
                },
            ),
            ("set_infeed_queue_options", {"kwargs": inspect.Parameter.VAR_KEYWORD}),
            ("set_outfeed_queue_options", {"kwargs": inspect.Parameter.VAR_KEYWORD}),
            ("set_replication_options", {"replicated_metric_reduction_method": "NONE"}),
            ("set_asynchronous_callbacks", {"asynchronous": False}),
            ("set_partial_batch_options", {"pad_in_fit": False}),
        ],
    )
    def test_setters_have_the_documented_arguments_and_defaults(
        self, setter: str, arguments: dict[str, Any]
    ) -> None:
        assert parameters(setter) == arguments
        model = Model()
        getattr(model, setter)()
        assert changed(model) == {}
        assert model.dropped == 1

    def test_options_of_models_are_their_own(self) -> None:
        first, second = Model(), Model()
        first.set_infeed_queue_options(prefetch_depth=2)
        assert changed(second) == {}

    def test_gradient_accumulation_options_are_kept(self) -> None:
        model = Model()
        model.set_gradient_accumulation_options(np.int64(4), "Mean", True, dtype=tf.float16)
        assert changed(model) == {
            STEPS: 4,
            "gradient_accumulation_reduction_method": GradientAccumulationReductionMethod.MEAN,
            "use_v2_gradient_accumulation_optimizer": True,
            "gradient_accumulation_optimizer_kwargs": {"dtype": tf.float16},
        }
        assert type(model._ipu_options.gradient_accumulation_steps_per_replica) is int

    def test_pipelining_options_are_kept(self) -> None:
        model = Model()
        mapping = [0, 1, 1, 0]
        model.set_pipelining_options(
            8,
            mapping,
            True,
            GradientAccumulationReductionMethod.RUNNING_MEAN,
            pipeline_schedule=PipelineSchedule.Interleaved,
            offload_weight_update_variables=False,
        )
        mapping.append(7)
        assert changed(model) == {
            f"pipelining_{STEPS}": 8,
            "pipelining_device_mapping": [0, 1, 1, 0],
            "pipelining_accumulate_outfeed": True,
            "gradient_accumulation_reduction_method": (
                GradientAccumulationReductionMethod.RUNNING_MEAN
            ),
            "pipelining_kwargs": {
                "pipeline_schedule": PipelineSchedule.Interleaved,
                "offload_weight_update_variables": False,
            },
        }

    def test_none_keeps_settings_and_others_are_replaced(self) -> None:
        model = Model()
        model.set_pipelining_options(8, [1, 0], False, "mean", recomputation_mode=None)
        model.set_gradient_accumulation_options(4, "mean", offload_weight_update_variables=True)
        model.set_gradient_accumulation_options()
        model.set_pipelining_options(accumulate_outfeed=True)
        assert changed(model) == {
            STEPS: 4,
            f"pipelining_{STEPS}": 8,
            "pipelining_device_mapping": [1, 0],
            "pipelining_accumulate_outfeed": True,
        }

    @pytest.mark.parametrize(
        "first", ["set_gradient_accumulation_options", "set_pipelining_options"]
    )
    def test_last_reduction_method_wins(self, first: str) -> None:
        setters = ["set_gradient_accumulation_options", "set_pipelining_options"]
        model = Model()
        getattr(model, first)(gradient_accumulation_reduction_method="mean")
        setters.remove(first)
        getattr(model, setters[0])(gradient_accumulation_reduction_method="running_mean")
        assert changed(model) == {
            "gradient_accumulation_reduction_method": (
                GradientAccumulationReductionMethod.RUNNING_MEAN
            )
        }

    def test_queue_options_are_kept_and_replaced(self) -> None:
        model = Model()
        model.set_infeed_queue_options(prefetch_depth=2, optimise_latency=True)
        model.set_infeed_queue_options(prefetch_depth=4)
        model.set_outfeed_queue_options(buffer_depth=5, optimise_latency=True)
        assert changed(model) == {
            "infeed_kwargs": {"prefetch_depth": 4},
            "outfeed_kwargs": {"buffer_depth": 5, "optimise_latency": True},
        }

    @pytest.mark.parametrize("method", ["LIST", "list", ReplicatedMetricReductionMethod.LIST])
    def test_the_metric_reduction_method_is_parsed(self, method: Any) -> None:
        model = Model()
        model.set_replication_options(method)
        assert changed(model) == {
            "replicated_metric_reduction_method": ReplicatedMetricReductionMethod.LIST
        }

    def test_the_custom_train_step_is_set_and_reset(self) -> None:
        assert parameters("set_custom_train_step") == {"enabled": True}
        model = Model()
        model.set_custom_train_step()
        assert changed(model) == {"custom_train_step": True}
        model.set_custom_train_step(False)
        assert changed(model) == {"custom_train_step": False}
        assert model.dropped == 2

    def test_asynchronous_callbacks_are_set_and_reset(self) -> None:
        model = Model()
        model.set_asynchronous_callbacks(True)
        assert changed(model) == {"asynchronous_callbacks": True}
        model.set_asynchronous_callbacks()
        assert changed(model) == {}

    def test_pad_in_fit_is_kept(self) -> None:
        model = Model()
        model.set_partial_batch_options(pad_in_fit=True)
        assert changed(model) == {"pad_in_fit": True}
        # Not a key that a configuration of the original has.
        assert set(model._ipu_options.to_config()) == {*model_options.CONFIG_KEYS, "pad_in_fit"}
        assert ModelOptions.from_config(model._ipu_options.to_config()) == model._ipu_options
        model.set_partial_batch_options()
        assert changed(model) == {}


class TestErrors:
    """Errors of the setters, which then change nothing."""

    @staticmethod
    def refuse(setter: str, error: type[Exception], match: str, **arguments: Any) -> None:
        model = Model()
        with pytest.raises(error, match=match):
            getattr(model, setter)(**arguments)
        assert changed(model) == {}
        assert model.dropped == 0

    @pytest.mark.parametrize("setter", ["gradient_accumulation", "pipelining"])
    @pytest.mark.parametrize("steps", [0, -1, 2.0, "2", True, [2]])
    def test_steps_must_be_positive_integers(self, setter: str, steps: Any) -> None:
        match = f"`{STEPS}` to be a positive integer"
        self.refuse(f"set_{setter}_options", ValueError, match, **{STEPS: steps})

    @pytest.mark.parametrize("setter", ["gradient_accumulation", "pipelining"])
    @pytest.mark.parametrize("method", ["median", None, 1])
    def test_unknown_reduction_methods_are_refused(self, setter: str, method: Any) -> None:
        self.refuse(
            f"set_{setter}_options",
            ValueError,
            "Cannot parse .* GradientAccumulationReductionMethod.*SUM",
            gradient_accumulation_reduction_method=method,
            **{STEPS: 2},
        )

    @pytest.mark.parametrize("method", ["median", None, 1])
    def test_unknown_metric_reduction_methods_are_refused(self, method: Any) -> None:
        self.refuse(
            "set_replication_options",
            ValueError,
            "Cannot parse .* ReplicatedMetricReductionMethod.*NONE, LIST, SUM, MEAN",
            replicated_metric_reduction_method=method,
        )

    @pytest.mark.parametrize("mapping", [0, (0, 1), "01", [0, "1"], [0, 1.0], [True], [None]])
    def test_device_mapping_must_be_a_list_of_integers(self, mapping: Any) -> None:
        self.refuse(
            "set_pipelining_options",
            ValueError,
            "Expected `device_mapping` to be a list of integers",
            device_mapping=mapping,
            **{STEPS: 2},
        )

    @pytest.mark.parametrize(
        ("setter", "name", "match"),
        [
            ("gradient_accumulation_options", "opt", "automatically set by Keras"),
            ("gradient_accumulation_options", "num_mini_batches", f"Set the `{STEPS}`"),
            ("gradient_accumulation_options", "experimental_normalize_gradients", "removed"),
            (
                "gradient_accumulation_options",
                "reduction_method",
                "Set the `gradient_accumulation_reduction_method`",
            ),
            ("pipelining_options", "gradient_accumulation_count", f"Set the `{STEPS}`"),
            (
                "pipelining_options",
                "reduction_method",
                "Set the `gradient_accumulation_reduction_method`",
            ),
            ("pipelining_options", "computational_stages", "automatically set by Keras"),
            ("pipelining_options", "repeat_count", "automatically set by Keras"),
            ("pipelining_options", "inputs", "automatically set by Keras"),
            ("pipelining_options", "infeed_queue", "automatically set by Keras"),
            ("pipelining_options", "outfeed_queue", "automatically set by Keras"),
            ("pipelining_options", "optimizer_function", "automatically set by Keras"),
            ("pipelining_options", "outfeed_loss", "not compatible with Keras"),
            ("pipelining_options", "outfeed_mask", "not compatible with Keras"),
            ("pipelining_options", "batch_serialization_iterations", "not compatible with Keras"),
            ("infeed_queue_options", "dataset", "automatically set by Keras"),
            ("infeed_queue_options", "infeed_spec", "automatically set by Keras"),
            ("infeed_queue_options", "element_spec", "automatically set by Keras"),
            ("infeed_queue_options", "device_ordinal", "automatically set by Keras"),
            ("outfeed_queue_options", "outfeed_mode", "automatically set by Keras"),
            ("outfeed_queue_options", "device_ordinal", "automatically set by Keras"),
        ],
    )
    def test_arguments_that_are_not_for_users(self, setter: str, name: str, match: str) -> None:
        self.refuse(f"set_{setter}", ValueError, f"Found `{name}` key in .*{match}", **{name: None})

    @pytest.mark.parametrize(
        ("setter", "others"),
        [
            ("gradient_accumulation_options", "offload_weight_update_variables, .*dtype"),
            ("pipelining_options", "pipeline_schedule, recomputation_mode"),
            ("infeed_queue_options", "prefetch_depth, optimise_latency"),
            ("outfeed_queue_options", "buffer_depth, optimise_latency"),
        ],
    )
    def test_arguments_that_there_are_not(self, setter: str, others: str) -> None:
        match = f"Found `prefetch` key in .*Expected some of .*{others}"
        self.refuse(f"set_{setter}", TypeError, match, prefetch=1)

    @pytest.mark.parametrize("setter", ["gradient_accumulation", "pipelining"])
    def test_wrong_memory_options_are_refused(self, setter: str) -> None:
        name = "offload_weight_update_variables"
        self.refuse(f"set_{setter}_options", TypeError, f"{name} must be", **{name: 1})
        self.refuse(
            f"set_{setter}_options",
            ValueError,
            "Set both or neither",
            replicated_optimizer_state_sharding=True,
            offload_weight_update_variables=False,
        )


class TestConfig:
    """Options as a configuration."""

    def test_the_configuration_has_all_keys_and_defaults(self) -> None:
        assert ModelOptions().to_config() == {
            STEPS: None,
            "gradient_accumulation_reduction_method": 0,
            "replicated_metric_reduction_method": 0,
            "asynchronous_callbacks": False,
            "custom_train_step": None,
            f"pipelining_{STEPS}": None,
            "pipelining_device_mapping": None,
            "pipelining_accumulate_outfeed": None,
            "infeed_kwargs": {},
            "outfeed_kwargs": {},
        }
        assert tuple(ModelOptions().to_config()) == model_options.CONFIG_KEYS

    def test_options_make_a_round_trip_through_the_configuration(self) -> None:
        model = Model()
        model.set_gradient_accumulation_options(4)
        model.set_pipelining_options(8, [1, 0], False, "running_mean")
        model.set_infeed_queue_options(prefetch_depth=2)
        model.set_outfeed_queue_options(buffer_depth=3)
        model.set_replication_options("MEAN")
        model.set_asynchronous_callbacks(True)
        model.set_custom_train_step()
        config = json.loads(json.dumps(model._ipu_options.to_config()))
        assert ModelOptions.from_config(config) == model._ipu_options

    def test_config_is_a_copy(self) -> None:
        model = Model()
        model.set_pipelining_options(device_mapping=[0, 1])
        config = model._ipu_options.to_config()
        config["pipelining_device_mapping"].append(2)
        config["infeed_kwargs"]["prefetch_depth"] = 2
        assert changed(model) == {"pipelining_device_mapping": [0, 1]}

    def test_missing_keys_are_defaults(self) -> None:
        config = {"asynchronous_callbacks": True, "name": "model", "layers": []}
        assert ModelOptions.from_config(config) == ModelOptions(asynchronous_callbacks=True)
        assert ModelOptions.from_config({}) == ModelOptions()

    @pytest.mark.parametrize("method", [3, "mean", ReplicatedMetricReductionMethod.MEAN])
    def test_methods_by_value_name_and_member(self, method: Any) -> None:
        read = ModelOptions.from_config({"replicated_metric_reduction_method": method})
        assert read.replicated_metric_reduction_method is ReplicatedMetricReductionMethod.MEAN

    @pytest.mark.parametrize(
        "config",
        [
            {STEPS: 0},
            {"pipelining_device_mapping": "01"},
            {"replicated_metric_reduction_method": 9},
            {"gradient_accumulation_reduction_method": "median"},
        ],
    )
    def test_values_that_there_are_not(self, config: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="9|median|01|positive"):
            ModelOptions.from_config(config)

    def test_what_is_not_saved(self) -> None:
        model = Model()
        assert model._ipu_options.not_saved() == []
        model.set_gradient_accumulation_options(dtype=tf.float32)
        model.set_pipelining_options(recomputation_mode=None)
        assert model._ipu_options.not_saved() == [
            "gradient_accumulation_optimizer_kwargs",
            "pipelining_kwargs",
        ]
