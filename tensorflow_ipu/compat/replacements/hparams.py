"""`HParams` of `tensorflow.contrib.training`: hyperparameters by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

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
