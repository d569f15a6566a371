"""`ModelOptions`: the IPU options of a Keras model, their setters and their checks."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.configs.enums import NamedEnum
from tensorflow_ipu.configs.ranges import COUNT, shown
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUInfeedQueue, check_prefetch_depth
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue, check_buffer_depth
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.optimizers.gradient_accumulation_optimizer import (
    GradientAccumulationOptimizerV2,
)

# --- Arguments ---


def positive_integer(name: str, value: Any) -> int:
    """Returns a number of steps.

    Args:
        name: name of the argument, for the error.
        value: the user's argument.

    Raises:
        ValueError: If it is no integer, or less than 1.
    """
    try:
        return COUNT.whole(name, value)
    except ValueError as error:
        raise ValueError(
            f"Expected `{name}` to be a positive integer, but got {shown(value)} instead. {error}"
        ) from None


def checked_device_mapping(value: Any) -> list[int]:
    """Returns a copy of a device mapping.

    Args:
        value: the user's argument: a list with the IPU of each stage.

    Raises:
        ValueError: If it is no list of integers.
    """
    if not isinstance(value, list) or not all(
        isinstance(ipu, numbers.Integral) and not isinstance(ipu, bool) for ipu in value
    ):
        raise ValueError(
            "Expected `device_mapping` to be a list of integers, the IPU of each pipeline stage. "
            f"Received: {value!r}"
        )
    return [int(ipu) for ipu in value]


_AUTOMATIC = "This argument is automatically set by Keras: leave it out."
_INCOMPATIBLE = "This argument is not compatible with Keras: leave it out."


def _set_instead(argument: str, setter: str = "set_pipelining_options") -> str:
    return f"Set the `{argument}` argument to `{setter}` instead."


_METHOD = "gradient_accumulation_reduction_method"
_STEPS = "gradient_accumulation_steps_per_replica"
# For each setter with further arguments: what takes them, and which of its arguments are refused.
_REFUSED: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "gradient_accumulation_optimizer_kwargs": (
        GradientAccumulationOptimizerV2.__init__,
        {
            "opt": _AUTOMATIC,
            "num_mini_batches": _set_instead(_STEPS, "set_gradient_accumulation_options"),
            "experimental_normalize_gradients": "It has been removed. Set the "
            "`gradient_accumulation_reduction_method` argument to 'mean' instead.",
            "reduction_method": _set_instead(_METHOD, "set_gradient_accumulation_options"),
        },
    ),
    "pipelining_kwargs": (
        pipelining_ops.pipeline,
        {
            "gradient_accumulation_count": _set_instead(_STEPS),
            "device_mapping": _set_instead("device_mapping"),
            "accumulate_outfeed": _set_instead("accumulate_outfeed"),
            "reduction_method": _set_instead(_METHOD),
            **dict.fromkeys(
                (
                    "computational_stages",
                    "repeat_count",
                    "inputs",
                    "infeed_queue",
                    "outfeed_queue",
                    "optimizer_function",
                ),
                _AUTOMATIC,
            ),
            **dict.fromkeys(
                ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations"), _INCOMPATIBLE
            ),
        },
    ),
    "infeed_kwargs": (
        IPUInfeedQueue.__init__,
        dict.fromkeys(("dataset", "infeed_spec", "element_spec", "device_ordinal"), _AUTOMATIC),
    ),
    "outfeed_kwargs": (
        IPUOutfeedQueue.__init__,
        dict.fromkeys(("outfeed_mode", "device_ordinal"), _AUTOMATIC),
    ),
}
# Arguments that say where variables are kept.
_MEMORY = (
    "offload_weight_update_variables",
    "replicated_optimizer_state_sharding",
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "replicated_weight_sharding",
    "offload_weights",
)
# What checks arguments that are numbers.
_NUMBERS: dict[str, Callable[[Any], object]] = {
    "prefetch_depth": check_prefetch_depth,
    "buffer_depth": check_buffer_depth,
}


def checked_kwargs(option: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of the further arguments that a setter got.

    Args:
        option: name of the option that they become: an attribute of `ModelOptions`.
        kwargs: the arguments.

    Raises:
        TypeError: If what they are for has no such argument, or a memory option is no bool.
        ValueError: If one of them is not for users of Keras to set, a number is out of its range,
            or memory options contradict each other.
        tf.errors.UnimplementedError: If weights are to be split, but not in remote memory.
    """
    function, refused = _REFUSED[option]
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    accepted = [name for name in names if name not in refused]
    for name in kwargs:
        if name in refused:
            raise ValueError(f"Found `{name}` key in `{option}`. {refused[name]}")
        if name not in accepted:
            raise TypeError(
                f"Found `{name}` key in `{option}`, which there is no such argument for. Expected "
                f"some of {', '.join(accepted)}."
            )
    for name, check in _NUMBERS.items():
        if name in kwargs:
            check(kwargs[name])
    memory = {name: kwargs[name] for name in _MEMORY if name in kwargs}
    pipeline_plan.check_options(memory)
    return dict(kwargs)


# --- Options ---

_Method = TypeVar("_Method", bound=NamedEnum)


class ReplicatedMetricReductionMethod(NamedEnum):
    """How the values that replicas have for a metric or a loss are combined.

    Attributes:
        NONE: The value of the last replica.
        LIST: A list with the value of each replica.
        SUM: Their sum.
        MEAN: Their mean.

    Where data do not suffice for all replicas, those without data are left out, and a mean counts
    each replica by the rows that it has seen.
    """

    NONE = 0
    LIST = 1
    SUM = 2
    MEAN = 3


@dataclasses.dataclass
class ModelOptions:
    """The options of a model, as the setters of `OptionSetters` leave them.

    Attributes:
        gradient_accumulation_steps_per_replica: Mini-batches of a replica for one update; None if
            not set. For models without pipeline stages.
        gradient_accumulation_reduction_method: How the gradients of mini-batches become one, with
            and without pipeline stages.
        gradient_accumulation_optimizer_kwargs: Further arguments of the accumulation.
        use_v2_gradient_accumulation_optimizer: Has no effect: there is one accumulation.
        pipelining_gradient_accumulation_steps_per_replica: Like
            `gradient_accumulation_steps_per_replica`, for models with pipeline stages.
        pipelining_device_mapping: The IPU of each stage; None for stage `i` on IPU `i`.
        pipelining_accumulate_outfeed: Whether the host gets one value for each update; None if not
            set.
        pipelining_kwargs: Further arguments of `pipelining_ops.pipeline`.
        infeed_kwargs: Arguments of `IPUInfeedQueue`.
        outfeed_kwargs: Arguments of `IPUOutfeedQueue`.
        replicated_metric_reduction_method: What becomes of the values of several replicas.
        asynchronous_callbacks: Whether callbacks are called while the device runs.
        custom_train_step: Whether `fit` compiles a `train_step` of the model's own; None for what
            the strategy says.
        pad_in_fit: Whether `fit` pads batches that have fewer rows than others.
    """

    gradient_accumulation_steps_per_replica: int | None = None
    gradient_accumulation_reduction_method: GradientAccumulationReductionMethod = (
        GradientAccumulationReductionMethod.SUM
    )
    gradient_accumulation_optimizer_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    use_v2_gradient_accumulation_optimizer: bool = False
    pipelining_gradient_accumulation_steps_per_replica: int | None = None
    pipelining_device_mapping: list[int] | None = None
    pipelining_accumulate_outfeed: bool | None = None
    pipelining_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    infeed_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    outfeed_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    replicated_metric_reduction_method: ReplicatedMetricReductionMethod = (
        ReplicatedMetricReductionMethod.NONE
    )
    asynchronous_callbacks: bool = False
    custom_train_step: bool | None = None
    pad_in_fit: bool = False

    def to_config(self) -> dict[str, Any]:
        """Returns the options that are saved with a model, as values that JSON has.

        Those that the original does not have are among them only if they are set.
        """
        own = [key for key in OWN_CONFIG_KEYS if getattr(self, key)]
        return {key: _plain(getattr(self, key)) for key in (*CONFIG_KEYS, *own)}

    def update(self, config: Mapping[str, Any]) -> None:
        """Takes over the options that are in the configuration of a model.

        Args:
            config: the result of `to_config`, or a part of it. Other keys are ignored.

        Raises:
            ValueError: If there is no such option as a value says.
        """
        for key in _READ:
            if key in config:
                setattr(self, key, _READ[key](config[key]))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ModelOptions:
        """Returns the options of a configuration; those that it lacks have their defaults."""
        options = cls()
        options.update(config)
        return options

    def not_saved(self) -> list[str]:
        """Returns the names of options that are set, but not saved with a model."""
        names = ("gradient_accumulation_optimizer_kwargs", "pipelining_kwargs")
        return [name for name in names if getattr(self, name)]


def _plain(value: Any) -> Any:
    """Copies a value into the types of JSON."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list) else value


def _member(methods: type[_Method]) -> Callable[[Any], _Method]:
    """Returns a function that reads a member of an enum: its value, its name, or itself."""

    def read(value: Any) -> _Method:
        if isinstance(value, int):
            return methods(value)
        parsed = methods.parse(value)
        return parsed

    return read


def _steps_or_none(value: Any) -> int | None:
    name = "gradient_accumulation_steps_per_replica"
    return None if value is None else positive_integer(name, value)


def _mapping_or_none(value: Any) -> list[int] | None:
    return None if value is None else checked_device_mapping(value)


def _bool_or_none(value: Any) -> bool | None:
    return None if value is None else bool(value)


# The keys that options have in the configuration of a model, with what reads their values.
_READ: dict[str, Callable[[Any], Any]] = {
    "gradient_accumulation_steps_per_replica": _steps_or_none,
    "gradient_accumulation_reduction_method": _member(GradientAccumulationReductionMethod),
    "replicated_metric_reduction_method": _member(ReplicatedMetricReductionMethod),
    "asynchronous_callbacks": bool,
    "custom_train_step": _bool_or_none,
    "pipelining_gradient_accumulation_steps_per_replica": _steps_or_none,
    "pipelining_device_mapping": _mapping_or_none,
    "pipelining_accumulate_outfeed": _bool_or_none,
    "infeed_kwargs": dict,
    "outfeed_kwargs": dict,
    "pad_in_fit": bool,
}
OWN_CONFIG_KEYS = ("pad_in_fit",)
CONFIG_KEYS = tuple(key for key in _READ if key not in OWN_CONFIG_KEYS)


# --- Setters ---


class OptionSetters:
    """Mixin of models: the setters of options.

    Options can be set before and after `compile`. The next call of `fit`, `evaluate` or `predict`
    uses them; programs that were compiled with others are dropped.
    """

    # Of the model.
    _drop_ipu_programs: Any

    @property
    def _ipu_options(self) -> ModelOptions:
        """The options of the model, which Keras does not track."""
        created: ModelOptions = self.__dict__.setdefault("_ipu_options", ModelOptions())
        return created

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: GradientAccumulationReductionMethod | str = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: Any,
    ) -> None:
        """Makes `fit` update the weights once for several mini-batches.

        Models with pipeline stages are set with `set_pipelining_options` instead.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of each replica for one update.
                It has to divide `steps_per_execution`. None for what was set before.
            gradient_accumulation_reduction_method: how the gradients of mini-batches become one:
                a `GradientAccumulationReductionMethod` or its name. Shared with
                `set_pipelining_options`.
            use_v2_gradient_accumulation_optimizer: changes nothing, since there is one
                accumulation for all optimizers; `fit` refuses it with one of TensorFlow 1.
            **gradient_accumulation_optimizer_kwargs: further arguments of
                `GradientAccumulationOptimizerV2`. They replace those of the last call, and are not
                saved with the model.

        Raises:
            TypeError: If there is no such further argument, or one is of the wrong type.
            ValueError: If the number of steps is no positive integer, there is no such method, or
                a further argument is not for users of Keras to set or contradicts another.
        """
        steps = gradient_accumulation_steps_per_replica
        if steps is not None:
            steps = positive_integer("gradient_accumulation_steps_per_replica", steps)
        method = GradientAccumulationReductionMethod.parse(gradient_accumulation_reduction_method)
        kwargs = checked_kwargs(
            "gradient_accumulation_optimizer_kwargs", gradient_accumulation_optimizer_kwargs
        )
        self._set_ipu_options(
            gradient_accumulation_steps_per_replica=steps,
            gradient_accumulation_reduction_method=method,
            use_v2_gradient_accumulation_optimizer=bool(use_v2_gradient_accumulation_optimizer),
            gradient_accumulation_optimizer_kwargs=kwargs,
        )

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: GradientAccumulationReductionMethod | str = "sum",
        **pipelining_kwargs: Any,
    ) -> None:
        """Sets how a model with pipeline stages runs.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of each replica for one update,
                which are what one execution of the pipeline in `fit` takes. None for what was set
                before.
            device_mapping: the IPU of each stage. None for what was set before: at first, stage
                `i` is on IPU `i`.
            accumulate_outfeed: whether the host gets losses and metrics once for each update, as
                they are at its end. None for what was set before: at first, it does not.
            gradient_accumulation_reduction_method: how the gradients of mini-batches become one:
                a `GradientAccumulationReductionMethod` or its name. Shared with
                `set_gradient_accumulation_options`.
            **pipelining_kwargs: further arguments of `pipelining_ops.pipeline`. They replace those
                of the last call, and are not saved with the model.

        Raises:
            TypeError: If there is no such further argument, or one is of the wrong type.
            ValueError: If the number of steps is no positive integer, the mapping is no list of
                integers, there is no such method, or a further argument is not for users of Keras
                to set or contradicts another.
            tf.errors.UnimplementedError: If weights are to be split over replicas, but not in
                remote memory.
        """
        steps = gradient_accumulation_steps_per_replica
        if steps is not None:
            steps = positive_integer("gradient_accumulation_steps_per_replica", steps)
        mapping = None if device_mapping is None else checked_device_mapping(device_mapping)
        method = GradientAccumulationReductionMethod.parse(gradient_accumulation_reduction_method)
        kwargs = checked_kwargs("pipelining_kwargs", pipelining_kwargs)
        self._set_ipu_options(
            pipelining_gradient_accumulation_steps_per_replica=steps,
            pipelining_device_mapping=mapping,
            pipelining_accumulate_outfeed=(
                None if accumulate_outfeed is None else bool(accumulate_outfeed)
            ),
            gradient_accumulation_reduction_method=method,
            pipelining_kwargs=kwargs,
        )

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Sets how data reach the device.

        Args:
            **kwargs: arguments of `IPUInfeedQueue`, such as `prefetch_depth` and
                `optimise_latency`. They replace those of the last call.

        Raises:
            TypeError: If the queue has no such argument.
            ValueError: If one of them is for Keras to set.
        """
        self._set_ipu_options(infeed_kwargs=checked_kwargs("infeed_kwargs", kwargs))

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Sets how results reach the host.

        Args:
            **kwargs: arguments of `IPUOutfeedQueue`, such as `buffer_depth` and
                `optimise_latency`. They replace those of the last call.

        Raises:
            TypeError: If the queue has no such argument.
            ValueError: If one of them is for Keras to set.
        """
        self._set_ipu_options(outfeed_kwargs=checked_kwargs("outfeed_kwargs", kwargs))

    def set_replication_options(
        self, replicated_metric_reduction_method: ReplicatedMetricReductionMethod | str = "NONE"
    ) -> None:
        """Sets how losses and metrics of several replicas are reduced.

        Args:
            replicated_metric_reduction_method: a `ReplicatedMetricReductionMethod` or its name.

        Raises:
            ValueError: If there is no such method.
        """
        method = ReplicatedMetricReductionMethod.parse(replicated_metric_reduction_method)
        self._set_ipu_options(replicated_metric_reduction_method=method)

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Sets whether callbacks are called while the device runs.

        Args:
            asynchronous: whether the hooks for batches are called for each step, as soon as its
                results are there. Otherwise they are called once for each execution.
        """
        self._set_ipu_options(asynchronous_callbacks=bool(asynchronous))

    def set_custom_train_step(self, enabled: bool = True) -> None:
        """Sets whether `fit` compiles the model's own `train_step` into its program.

        The step may do what Keras lets it do: several tapes and optimizers, losses and metrics of
        its own. On each replica it gets that replica's batch. Keras's optimizers add up the
        gradients of all replicas, as in `fit` without a step of its own.

        Args:
            enabled: whether it does. Otherwise `fit` refuses such a model, as it does at first
                unless the strategy was made with `enable_custom_train_step=True`.
        """
        self._set_ipu_options(custom_train_step=bool(enabled))

    def set_partial_batch_options(self, pad_in_fit: bool = False) -> None:
        """Sets how `fit` treats batches with fewer rows than the others.

        `evaluate` and `predict` run them in any case.

        Args:
            pad_in_fit: whether `fit` takes such data. It pads these batches, and where replicas and
                gradient accumulation need more batches, adds some of padding only. What is padding
                has no part in losses, metrics and gradients. Otherwise such data are an error.
        """
        self._set_ipu_options(pad_in_fit=bool(pad_in_fit))

    def _set_ipu_options(self, **values: Any) -> None:
        """Sets all options that are not None, and drops programs compiled before."""
        for name, value in values.items():
            if value is not None:
                setattr(self._ipu_options, name, value)
        self._drop_ipu_programs()
