"""`ModelOptions`: all that users can set on a Keras model for the IPU."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.configs.enums import NamedEnum
from tensorflow_ipu.keras_layers.models.options import arguments

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
            config: what `to_config` returned, or a part of it. Other keys are ignored.

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
    """Returns a copy of a value, made of what JSON has."""
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
    return None if value is None else arguments.positive_integer(name, value)


def _mapping_or_none(value: Any) -> list[int] | None:
    return None if value is None else arguments.device_mapping(value)


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
