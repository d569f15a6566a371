"""Layers that are parts of another layer, such as attention projections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

# Parts with variables that a layer may have even if those are most of the program's: an attention
# layer has four.
_FEW = 4


def wholes(layers: Mapping[str, bool]) -> dict[str, str]:
    """Returns the layer that each part belongs to. Users cannot cut inside of one.

    A scope with ops of its own besides inner layers is one layer, such as attention: the ops
    between its projections are in its own scope. A scope with most layers of the program is the
    program, or the trunk of it, where users do cut.

    Args:
        layers: whether each layer has variables, by the names of the layers with ops of their own.
    """
    trained = sum(layers.values())
    inside: Counter[str] = Counter()
    for name, has_variables in layers.items():
        if has_variables:
            inside.update(_around(name, layers))
    found = {}
    for name in layers:
        for scope in _around(name, layers):
            if inside[scope] < trained and inside[scope] <= max(_FEW, trained // 2):
                found[name] = scope
                break
    return found


def _around(name: str, layers: Mapping[str, bool]) -> Iterator[str]:
    """Returns the layers whose scopes a layer is in, outermost first."""
    parts = name.split("/")
    scopes = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return (scope for scope in scopes if scope in layers)
