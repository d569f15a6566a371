"""`Optimizer`, the base of all optimizers, its values and the clipping of gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common.enums import DataType
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.util.notices import warn_once


class ClipNormSettings:
    """A group of weights and the largest norm of their gradients."""

    def __init__(self, weightIds: Iterable[str], maxNorm: float) -> None:
        """Takes the group; `clipWeights` and `clipAllWeights` are newer.

        Args:
            weightIds: the weights.
            maxNorm: the largest norm.
        """
        warn_once(
            "ClipNormSettings(weightIds, maxNorm) is deprecated. Use ClipNormSettings.clipWeights."
        )
        self._set(tuple(weightIds), maxNorm)

    def __repr__(self) -> str:
        weights = "all weights" if self.weights is None else ", ".join(self.weights)
        return f"ClipNormSettings[{weights}: {self.max_norm}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClipNormSettings) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.weights, self.max_norm))

    @staticmethod
    def clipWeights(arg0: list[str], arg1: float) -> ClipNormSettings:
        """Returns settings for some weights.

        Args:
            arg0: the weights.
            arg1: the largest norm.
        """
        made = object.__new__(ClipNormSettings)
        made._set(tuple(arg0), arg1)
        return made

    @staticmethod
    def clipAllWeights(arg0: float) -> ClipNormSettings:
        """Returns settings for all weights.

        Args:
            arg0: the largest norm.
        """
        made = object.__new__(ClipNormSettings)
        made._set(None, arg0)
        return made

    def _set(self, weights: tuple[str, ...] | None, max_norm: float) -> None:
        self.weights = weights
        self.max_norm = float(max_norm)


def groups_of(
    settings: Sequence[ClipNormSettings], trained: Sequence[str]
) -> list[tuple[tuple[str, ...], float]]:
    """Returns the weights of each group, and the largest norm of their gradients.

    Args:
        settings: the groups.
        trained: the weights that are updated.

    Raises:
        popart_exception: If a group has a weight that is not updated, or all weights are clipped
            together and some again.
    """
    if len(settings) > 1 and any(group.weights is None for group in settings):
        raise popart_exception(
            "Multiple clip groups specified, and one of them has all weights. Pass either "
            "clipAllWeights or groups made by clipWeights."
        )
    found = []
    for group in settings:
        weights = tuple(trained) if group.weights is None else group.weights
        for weight in weights:
            if weight not in trained:
                raise popart_exception(
                    f"Could not find a varupdate op for tensor {weight}, whose gradient is to be "
                    f"clipped. Weights that are updated: {', '.join(trained) or 'none'}."
                )
        found.append((weights, group.max_norm))
    return found


class OptimizerValue:
    """A number of an optimizer, and whether it never changes."""

    def __init__(self, val: Any = None, isConst: bool | None = None) -> None:
        """Takes the number.

        Args:
            val: the number, or a pair of it and `isConst`; 0 that can change by default.
            isConst: whether it never changes; True by default, if there is a number.
        """
        if isinstance(val, tuple):
            val, isConst = val
        if val is None:
            val, isConst = 0.0, False
        self._value = float(val)
        self._is_const = True if isConst is None else bool(isConst)

    def __repr__(self) -> str:
        return f"OptimizerValue({self._value}, {self._is_const})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptimizerValue) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._value, self._is_const))

    def val(self) -> float:
        """Returns the number."""
        return self._value

    def isConst(self) -> bool:
        """Returns whether it never changes."""
        return self._is_const


class OptimizerValueMap:
    """A number of an optimizer: its default, and the values of single weights."""

    def __init__(
        self, default: OptimizerValue, specific: Mapping[str, OptimizerValue] | None = None
    ) -> None:
        """Takes the numbers.

        Args:
            default: that of all weights.
            specific: values of single weights, by weight.
        """
        self._default = default
        self._specific = dict(specific or {})

    def __repr__(self) -> str:
        return f"OptimizerValueMap[{self._default}, {len(self._specific)} specific]"

    def getDefault(self) -> OptimizerValue:
        """Returns the number of all weights that have none of their own."""
        return self._default

    def get(self, weight: str) -> OptimizerValue:
        """Returns the number of a weight.

        Args:
            weight: its id.
        """
        return self._specific.get(weight, self._default)

    @property
    def specific(self) -> Mapping[str, OptimizerValue]:
        """The numbers of weights that have one of their own."""
        return self._specific


def pair(key: Any, value: Any) -> OptimizerValue:
    """Returns the number of an entry of a dict that a user passes.

    Args:
        key: its name.
        value: a pair: the number, and whether it never changes.

    Raises:
        popart_exception: If the name is no text, or the value is no pair.
    """
    if not isinstance(key, str):
        raise popart_exception(f"A key of an optimizer must be a py::str. Received: {key!r}")
    if not isinstance(value, tuple) or len(value) != 2:
        raise popart_exception(
            f"The value of {key} must be a py::tuple (number, isConst). Received: {value!r}"
        )
    return OptimizerValue(*value)


# Returns a number of one weight by name, as a float32 tensor; see `Optimizer.compounds`.
Number = Callable[[str], Any]
LOSS_SCALING = "lossScaling"
#: Id of the tensor with the loss scaling, if that can change.
LOSS_SCALING_TENSOR = f"{LOSS_SCALING}_FLOAT"


class Optimizer:
    """An optimizer: numbers by name, and a formula."""

    #: Name of the class in errors.
    kind = ""
    #: Name of each number that weights can have of their own -> its default.
    defaults: Mapping[str, float] = {}
    #: Name of each number -> a function that returns the fault of a value, or None.
    rules: Mapping[str, Callable[[float], str]] = {}

    def __init__(
        self, values: Mapping[str, Any], clip_norm_settings: list[ClipNormSettings]
    ) -> None:
        """Takes the numbers.

        Args:
            values: for each name, with "default" before it, a pair of number and whether it never
                changes; and "lossScaling".
            clip_norm_settings: groups of weights whose gradients are clipped.

        Raises:
            popart_exception: If a name is unknown, or a number does not fit it.
        """
        allowed = {f"default{name[0].upper()}{name[1:]}": name for name in self.defaults}
        if "nesterov" in self.defaults:
            allowed["nesterov"] = allowed.pop("defaultNesterov")
        #: Type of accumulated gradients; undefined for that of the weight.
        self.accumulator_type = DataType.UNDEFINED
        self._loss_scaling = OptimizerValue(1.0)
        self._defaults = {name: OptimizerValue(value) for name, value in self.defaults.items()}
        self._specific: dict[str, dict[str, OptimizerValue]] = {}
        self.clip_norm_settings = list(clip_norm_settings)
        for key, value in values.items():
            number = pair(key, value)
            if key == LOSS_SCALING:
                self._loss_scaling = number
            elif key in allowed:
                self._defaults[allowed[key]] = number
            else:
                raise popart_exception(
                    f"Invalid {self.kind} key, {key}, the allowed keys are "
                    f"{', '.join([*allowed, LOSS_SCALING])}."
                )
        if self._loss_scaling.val() == 0:
            raise popart_exception("Loss scaling cannot be 0.")
        self._check(self._defaults)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{len(self._specific)} weights with values of their own]"

    def getLossScalingVal(self) -> float:
        """Returns the loss scale."""
        return self._loss_scaling.val()

    @property
    def loss_scaling(self) -> OptimizerValue:
        """The loss scale."""
        return self._loss_scaling

    def insertSpecific(self, arg0: str, arg1: Mapping[str, Any]) -> None:
        """Gives a weight numbers of its own.

        Args:
            arg0: the weight.
            arg1: for each name a pair of number and whether it never changes.

        Raises:
            popart_exception: If the weight has some, a name is unknown, or a number does not fit.
        """
        if arg0 in self._specific:
            raise popart_exception(f"There is already a specific value for {arg0}.")
        numbers = dict(self._defaults)
        for key, value in arg1.items():
            if key not in self.defaults:
                raise popart_exception(
                    f"Invalid key {key} in {self.kind}::insertSpecific. Permitted keys are "
                    f"{', '.join(self.defaults)}."
                )
            numbers[key] = pair(key, value)
        self._check(numbers)
        self._specific[arg0] = numbers

    def values_of(self, name: str) -> OptimizerValueMap:
        """Returns a number of all weights.

        Args:
            name: its name.
        """
        specific = {weight: numbers[name] for weight, numbers in self._specific.items()}
        return OptimizerValueMap(self._defaults[name], specific)

    def number(self, name: str, weight: str) -> OptimizerValue:
        """Returns a number of a weight.

        Args:
            name: its name.
            weight: the weight.
        """
        if name == LOSS_SCALING:
            return self._loss_scaling
        return self._specific.get(weight, self._defaults)[name]

    def compounds(self, weight: str, count: int) -> dict[str, OptimizerValue]:
        """Returns the numbers that the update of a weight takes, by the prefixes of their tensors.

        Args:
            weight: the weight.
            count: the divisor of accumulated gradients; 1 for the sum.
        """
        raise NotImplementedError

    def scalar_of(self, name: str, weight: str, type_: str) -> str:
        """Returns the id of the tensor that holds a number which can change.

        Args:
            name: its prefix.
            weight: the weight that it is for.
            type_: name of the weight's type.
        """
        if name == LOSS_SCALING:
            return LOSS_SCALING_TENSOR
        if weight in self._specific:
            return f"{name}___specific___{weight}"
        return f"{name}___default___{type_}"

    def scalars(self, weights: Mapping[str, str], count: int) -> dict[str, np.ndarray]:
        """Returns the numbers that can change, by the ids of their tensors.

        Args:
            weights: the types of the weights that are trained.
            count: see `compounds`.
        """
        found = {}
        if not self._loss_scaling.isConst():
            found[LOSS_SCALING_TENSOR] = np.array(self._loss_scaling.val(), np.float32)
        for weight, type_ in weights.items():
            for name, value in self.compounds(weight, count).items():
                if not value.isConst():
                    key = self.scalar_of(name, weight, type_)
                    found[key] = np.array(value.val(), np.float32)
        return found

    def copied(self) -> Optimizer:
        """Returns an optimizer that later changes of this one do not reach."""
        return copy.deepcopy(self)

    def described(self) -> tuple[Any, ...]:
        """Returns the parts that change a program: values of constant numbers, names of others."""
        numbers = [
            (name, weight, value.val() if value.isConst() else None)
            for name, weight, value in self._numbers()
        ]
        others = {
            name: value
            for name, value in vars(self).items()
            if name not in ("_defaults", "_specific", "_loss_scaling")
        }
        return (type(self).__name__, numbers, sorted((k, repr(v)) for k, v in others.items()))

    def is_zero(self, name: str, weight: str) -> bool:
        """Returns whether a number of a weight is 0 and stays so.

        Args:
            name: name of the number.
            weight: the weight.
        """
        value = self.number(name, weight)
        return value.isConst() and value.val() == 0

    def state(self, weight: str, value: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the state of a weight at the start, by tensor id.

        Args:
            weight: the weight.
            value: its value.
        """
        raise NotImplementedError

    def direction(
        self, weight: str, value: Any, gradient: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the first half of an update, before clipping. All tensors are float32.

        Args:
            weight: its id.
            value: the weight.
            gradient: the sum of its gradients, of the loss times the loss scaling.
            state: the state, by tensor id.
            number: returns a number of this weight; see `compounds`.

        Returns:
            The direction to clip, and the new state.
        """
        raise NotImplementedError

    def moved(
        self, weight: str, value: Any, direction: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the second half of an update. All tensors are float32.

        Args:
            weight: its id.
            value: the weight.
            direction: the direction, clipped.
            state: the new state.
            number: returns a number of this weight; see `compounds`.

        Returns:
            The weight after the update, and its state.
        """
        raise NotImplementedError

    #: Whether the state is scaled by the loss scaling.
    has_scaled_state = False

    def rescaled(self, state: Mapping[str, Any], ratio: Any) -> dict[str, Any]:
        """Rescales the state of a weight after a change of the loss scaling.

        Args:
            state: the state, by tensor id.
            ratio: the new loss scaling divided by the one before, as a tensor.
        """
        return dict(state)

    def check_replaceable(self, new: Optimizer) -> None:
        """Refuses an optimizer that cannot take the place of this one in a program.

        Args:
            new: the other optimizer.

        Raises:
            popart_runtime_error: If it cannot.
        """
        if type(new) is not type(self):
            raise popart_runtime_error(
                f"Can not replace optimizer of type {type(self).__name__} with one of type "
                f"{type(new).__name__}."
            )
        if new.clip_norm_settings != self.clip_norm_settings:
            raise popart_runtime_error("Clip norm settings do not match.")
        if len(new._specific) != len(self._specific):
            raise popart_runtime_error(
                "Can not replace an optimizer with one that has a different number of specific "
                f"tensors: {len(self._specific)} and {len(new._specific)}."
            )
        for name, weight, value in self._numbers():
            if weight and weight not in new._specific:
                raise popart_runtime_error(f"Could not find tensor {weight} in the new optimizer.")
            _check_value(name, weight, value, new.number(name, weight))

    def _numbers(self) -> Iterator[tuple[str, str, OptimizerValue]]:
        """Yields the name of each number, the weight that it is for ("" for all), and it."""
        for weight, numbers in (("", self._defaults), *self._specific.items()):
            for name, value in numbers.items():
                yield name, weight, value
        yield LOSS_SCALING, "", self._loss_scaling

    def _check(self, numbers: Mapping[str, OptimizerValue]) -> None:
        """Refuses numbers that do not fit their names."""
        for name, rule in self.rules.items():
            wrong = rule(numbers[name].val())
            if wrong:
                raise popart_exception(f"{wrong} in {self.kind}. Received: {numbers[name].val()}")
        rate = numbers["learningRate"]
        if rate.isConst() and rate.val() == 0:
            raise popart_exception(f"Constant, zero learning rate in {self.kind}.")


def negative(told: str) -> Callable[[float], str]:
    """Returns a rule against negative numbers.

    Args:
        told: its name in errors.
    """
    return lambda value: f"Negative {told}" if value < 0 else ""


def not_positive(told: str) -> Callable[[float], str]:
    """Returns a rule for positive numbers.

    Args:
        told: its name in errors.
    """
    return lambda value: f"Non-positive {told}" if value <= 0 else ""


def compound(value: float, parts: Iterable[OptimizerValue]) -> OptimizerValue:
    """Returns a number that is made of others: it never changes if none of them does.

    Args:
        value: the number.
        parts: its parts.
    """
    return OptimizerValue(value, all(part.isConst() for part in parts))


def _words(name: str) -> str:
    """Returns the name of a number in errors: learningRate -> learning rates."""
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return spaced if name in (LOSS_SCALING, "nesterov") else f"{spaced}s"


def _check_value(name: str, weight: str, old: OptimizerValue, new: OptimizerValue) -> None:
    whose = f"Value specific to {weight}" if weight else "Default value"
    told = f"Problem with {_words(name)}. {whose} is not a valid replacement."
    if old.isConst() and not new.isConst():
        raise popart_runtime_error(
            f"{told} Can not replace a constant value with a non constant value."
        )
    if not old.isConst() and new.isConst():
        raise popart_runtime_error(
            f"{told} Can not replace a non constant value with a constant value."
        )
    if old.isConst() and old.val() != new.val():
        raise popart_runtime_error(f"{told} Values are constant but do not match.")
