"""Losses, training steps and hyperparameters of `tensorflow.contrib`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

# --- Losses and training steps ---

_v1 = tf.compat.v1


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the weighted cross entropy of sequences.

    Args:
        logits: floats, shape [batch, time, classes].
        targets: integers, shape [batch, time].
        weights: floats, shape [batch, time].
        average_across_timesteps: whether to divide by the weights over time.
        average_across_batch: whether to divide by the weights over the batch.
        softmax_loss_function: with the arguments `labels` and `logits`; else the sparse one.
        name: of the op.

    Returns:
        Floats, without the dimensions that were averaged.

    Raises:
        ValueError: an argument has another rank.
    """
    for what, value, rank in (("Logits", logits, 3), ("Targets", targets, 2)):
        if len(value.shape) != rank:
            raise ValueError(
                f"{what} must be a {rank}-dimensional tensor. Received: shape {value.shape}."
            )
    if len(weights.shape) != 2:
        raise ValueError(
            f"Weights must be a 2-dimensional tensor. Received: shape {weights.shape}."
        )
    function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with _v1.name_scope(name, "sequence_loss", [logits, targets, weights]):
        losses = function(labels=targets, logits=logits) * weights
        axes = [
            int(axis)
            for axis, on in enumerate((average_across_batch, average_across_timesteps))
            if on
        ]
        if not axes:
            return losses
        # Against a division by zero, where all weights are.
        return tf.reduce_sum(losses, axes) / (tf.reduce_sum(weights, axes) + 1e-12)


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = None,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Any], Any] | None = None,
    check_numerics: bool = True,
) -> tf.Tensor:
    """Returns the loss, evaluated after a training step.

    Args:
        total_loss: shape [].
        optimizer: of the TensorFlow 1 kind.
        global_step: counts steps; the graph's, if not given.
        update_ops: ops to run before; the collection `UPDATE_OPS`, if not given.
        variables_to_train: the trainable ones, if not given.
        transform_grads_fn: changes the list of gradients and variables.
        check_numerics: whether a loss that is not finite is an error.
    """
    step = global_step if global_step is not None else _v1.train.get_or_create_global_step()
    updates = update_ops if update_ops is not None else _v1.get_collection(_v1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(list(updates)):
        total_loss = tf.identity(total_loss)
    gradients = optimizer.compute_gradients(total_loss, variables_to_train)
    if transform_grads_fn is not None:
        gradients = transform_grads_fn(gradients)
    applied = optimizer.apply_gradients(gradients, global_step=step)
    if check_numerics:
        total_loss = tf.debugging.check_numerics(total_loss, "LossTensor is inf or nan")
    with tf.control_dependencies([applied]):
        train_op = tf.identity(total_loss, name="train_op")
    _v1.add_to_collection(_v1.GraphKeys.TRAIN_OP, train_op)
    return train_op


_OPTIMIZERS = {
    "Adagrad": _v1.train.AdagradOptimizer,
    "Adam": _v1.train.AdamOptimizer,
    "Ftrl": _v1.train.FtrlOptimizer,
    "Momentum": lambda rate: _v1.train.MomentumOptimizer(rate, momentum=0.9),
    "RMSProp": _v1.train.RMSPropOptimizer,
    "SGD": _v1.train.GradientDescentOptimizer,
}


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    clip_gradients: float | None = None,
    learning_rate_decay_fn: Callable[..., Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the loss, evaluated after a training step.

    Args:
        loss: shape [].
        global_step: counts steps.
        learning_rate: number or tensor of shape [].
        optimizer: its name, class, or an instance.
        clip_gradients: largest norm of all gradients together.
        learning_rate_decay_fn: of the learning rate and the step.
        variables: the trainable ones, if not given.
        name: of the scope.

    Raises:
        ValueError: there is no optimizer of this name.
    """
    with _v1.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        rate = learning_rate
        if learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, global_step)
        if isinstance(optimizer, str):
            if optimizer not in _OPTIMIZERS:
                raise ValueError(
                    f"Optimizer name should be one of [{', '.join(_OPTIMIZERS)}], you provided "
                    f"{optimizer}."
                )
            optimizer = _OPTIMIZERS[optimizer]
        instance = optimizer if isinstance(optimizer, _v1.train.Optimizer) else optimizer(rate)

        def clipped(gradients: Any) -> Any:
            values, trained = zip(*gradients)
            return zip(tf.clip_by_global_norm(values, clip_gradients)[0], trained)

        return create_train_op(
            loss,
            instance,
            global_step,
            variables_to_train=variables,
            transform_grads_fn=clipped if clip_gradients is not None else None,
            check_numerics=False,
        )


# --- Hyperparameters ---

_CLAUSE = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(?:\[(?P<values>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)

_TRUE, _FALSE = ("true", "True", "1"), ("false", "False", "0")


def parse_values(values: str, type_map: Mapping[str, type]) -> dict[str, Any]:
    """Reads assignments such as `lr=0.1,layers=[8,4],decay[0]=0.5`.

    Args:
        values: the assignments.
        type_map: type of each name, of an element for a list.

    Returns:
        The values by name: one, a list, or a dictionary of elements by index.

    Raises:
        ValueError: it cannot be read, a name is unknown, or assigned twice.
    """
    results: dict[str, Any] = {}
    position = 0
    while position < len(values):
        clause = _CLAUSE.match(values, position)
        if clause is None:
            raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
        position = clause.end()
        _assign(results, clause, type_map)
    return results


def _assign(results: dict[str, Any], clause: re.Match[str], types: Mapping[str, type]) -> None:
    """Adds one assignment."""
    name, index = clause["name"], clause["index"]
    if name not in types:
        raise ValueError(f"Unknown hyperparameter type for {name}. Known are: {', '.join(types)}.")
    if clause["values"] is not None:
        if index is not None:
            raise ValueError(f"Assignment of a list to a list index in: {clause[0]}")
        parts = [part.strip() for part in clause["values"].split(",") if part.strip()]
        value: Any = [_converted(name, part, types[name]) for part in parts]
    else:
        value = _converted(name, clause["value"].strip(), types[name])
    if index is not None:
        elements = results.setdefault(name, {})
        if not isinstance(elements, dict) or int(index) in elements:
            raise ValueError(f"Multiple assignments to variable '{name}' in {clause[0]}")
        elements[int(index)] = value
    elif name in results:
        raise ValueError(f"Multiple assignments to variable '{name}' in {clause[0]}")
    else:
        results[name] = value


def _converted(name: str, text: str, kind: type) -> Any:
    """Reads one value."""
    try:
        if kind is bool:
            if text not in (*_TRUE, *_FALSE):
                raise ValueError(text)
            return text in _TRUE
        return kind(text)
    except ValueError:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}'."
        ) from None


class HParams:
    """Hyperparameters as attributes, with changes of them read from text.

    Args:
        hparam_def: not supported: a message of hyperparameters.
        model_structure: anything that describes the model.
        **kwargs: the hyperparameters: int, float, bool, str, None, or lists of one type.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise ValueError(
                "HParams takes no hparam_def here: give the hyperparameters as arguments. "
                f"Received: {hparam_def!r}."
            )
        self._types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter.

        Args:
            name: its name.
            value: its value.

        Raises:
            ValueError: the name is in use, or the value is an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
        self._types[name] = (type(value[0]) if is_list else type(value), is_list)
        setattr(self, name, list(value) if is_list else value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a hyperparameter, whose type stays.

        Args:
            name: its name.
            value: its new value.

        Raises:
            KeyError: there is no such hyperparameter.
            ValueError: it has another type.
        """
        kind, is_list = self._types[name]
        if isinstance(value, list) != is_list:
            wanted = "a list" if is_list else "not a list"
            raise ValueError(f"Hyperparameter {name!r} must be {wanted}. Received: {value!r}.")
        values = [_cast(name, kind, part) for part in (value if is_list else [value])]
        setattr(self, name, values if is_list else values[0])

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if it is there."""
        if name in self._types:
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> HParams:
        """Sets hyperparameters from text such as `lr=0.1,layers=[8,4]`; returns itself."""
        types = {name: kind for name, (kind, _) in self._types.items()}
        for name, value in parse_values(values, types).items():
            if isinstance(value, dict):
                changed = list(getattr(self, name))
                for index, element in value.items():
                    changed[index] = element
                value = changed
            self.set_hparam(name, value)
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets hyperparameters from a dictionary; returns itself."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Sets hyperparameters from a JSON object; returns itself."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        """Returns the hyperparameters as JSON; takes arguments of `json.dumps`."""
        return json.dumps(
            {name: value for name, value in self.values().items() if not callable(value)},
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    def values(self) -> dict[str, Any]:
        """Returns the hyperparameters by name."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a hyperparameter, or `default` if there is none of this name."""
        return getattr(self, key) if key in self._types else default

    def get_model_structure(self) -> Any:
        """Returns the description of the model."""
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        """Sets the description of the model."""
        self._model_structure = model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"HParams({self})"


def _cast(name: str, kind: type, value: Any) -> Any:
    """Returns a value in the type of a hyperparameter, if the conversion is exact."""
    if value is None or kind is type(None) or isinstance(value, kind):
        both_int = isinstance(value, bool) and kind is not bool
        if not both_int or not isinstance(value, kind):
            return value
    numbers = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and numbers:
        return float(value)
    if kind is int and numbers and int(value) == value and not isinstance(value, float):
        return int(value)
    raise ValueError(
        f"Could not cast hparam '{name}' of type '{kind.__name__}' from value {value!r}."
    )
