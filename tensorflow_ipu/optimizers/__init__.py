"""Optimizers for IPU programs: wrappers of `tf.compat.v1.train.Optimizer` objects."""

from __future__ import annotations

import importlib
from typing import Any

from tensorflow_ipu import _api

# Class -> module of this package that it is in.
_CLASSES = {
    "CrossReplicaGradientAccumulationOptimizer": "gradient_accumulation_optimizer",
    "CrossReplicaGradientAccumulationOptimizerV2": "gradient_accumulation_optimizer",
    "CrossReplicaOptimizer": "cross_replica_optimizer",
    "GradientAccumulationOptimizer": "gradient_accumulation_optimizer",
    "GradientAccumulationOptimizerV2": "gradient_accumulation_optimizer",
    "IpuOptimizer": "ipu_optimizer",
    "MapGradientOptimizer": "map_gradient_optimizer",
    "ShardedOptimizer": "sharded_optimizer",
}

_module_attribute, _module_names = _api.lazy_modules(__name__)


def __getattr__(name: str) -> Any:
    """Imports a class or a module when it is first used."""
    if name in _CLASSES:
        return getattr(importlib.import_module(f"{__name__}.{_CLASSES[name]}"), name)
    return _module_attribute(name)


def __dir__() -> list[str]:
    """Lists the classes and modules too."""
    return sorted({*_module_names(), *_CLASSES})
