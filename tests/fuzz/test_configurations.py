"""Random values of random options are accepted and kept, or refused by the name of the option."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import strategies

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.configs import enums
from tensorflow_ipu.configs.ipu_config import OPTIONS
from tensorflow_ipu.runtime import system
from tests.fuzz import support

_ENUMS = [value for value in vars(enums).values() if isinstance(value, type)]
_MEMBERS = [member for kind in _ENUMS if hasattr(kind, "__members__") for member in kind]
_scalars = strategies.one_of(
    strategies.booleans(),
    strategies.integers(-3, 20),
    strategies.sampled_from([-(2**63), 2**31, 2**63, 2**64, 10**30]),
    strategies.floats(),
    strategies.floats(0, 1),
    strategies.text(max_size=8),
    strategies.sampled_from(["ipu1", "ipu2", "ipu21", "a\0b", "true"]),
    strategies.sampled_from(_MEMBERS),
    strategies.none(),
)
_values = strategies.one_of(
    _scalars,
    strategies.lists(_scalars, max_size=3),
    strategies.lists(_scalars, max_size=3).map(tuple),
    strategies.dictionaries(strategies.text(max_size=5), _scalars, max_size=2),
)
# Options that most programs set come first, so that configurations with several of them are seen.
SETTINGS = strategies.lists(
    strategies.tuples(
        strategies.one_of(
            strategies.sampled_from(["auto_select_ipus", "select_ipus"]),
            strategies.sampled_from(sorted(OPTIONS)),
        ),
        _values,
    ),
    min_size=1,
    max_size=5,
)


def _node(config: IPUConfig, name: str) -> tuple[Any, str]:
    """Returns the category that holds an option, and its own name."""
    *categories, leaf = name.split(".")
    node: Any = config
    for category in categories:
        node = getattr(node, category)
    return node, leaf


def _set(config: IPUConfig, name: str, value: Any) -> None:
    """Sets an option. Accepted values are kept, and refused ones change nothing."""
    node, leaf = _node(config, name)
    before = getattr(node, leaf)
    try:
        setattr(node, leaf, value)
    except (TypeError, ValueError) as error:
        assert leaf in str(error)
        assert getattr(node, leaf) == before
    else:
        assert repr(getattr(node, leaf)) == repr(value)


def _check(settings: list[tuple[str, Any]]) -> None:
    system.reset_ipu_configuration()
    config = IPUConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in settings:
            _set(config, name, value)
        try:
            config.configure_ipu_system()
        except tf.errors.OpError as error:  # IPUs that the machine lacks, or an option's value
            names = ["for ordinal", *(_node(config, name)[1] for name, _ in settings)]
            assert any(name in str(error) for name in names)
            assert not system.is_configured()
            return
        except Exception as error:
            # The reference raises Exception itself where two options contradict each other.
            assert type(error) in (TypeError, ValueError, Exception)
            assert any(_node(config, name)[1] in str(error) for name, _ in settings)
            assert not system.is_configured()
            return
    wanted = config.auto_select_ipus or config.select_ipus
    several = isinstance(wanted, (list, tuple)) and wanted
    assert len(system.current().devices) == (len(wanted) if several else 1)


def test_options_are_kept_or_refused(request: pytest.FixtureRequest) -> None:
    support.run(request, "configurations", SETTINGS, _check)
