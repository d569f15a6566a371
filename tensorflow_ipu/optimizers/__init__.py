"""Optimizers for IPU programs: wrappers of `tf.compat.v1.train.Optimizer` objects."""

from __future__ import annotations

import importlib
from typing import Any

from tensorflow_ipu.import_hook import lazy, tables

# Class -> module of `tensorflow_ipu` that it is in.
_CLASSES = {
    "CrossReplicaGradientAccumulationOptimizer": "optimizers.gradient_accumulation_optimizer",
    "CrossReplicaGradientAccumulationOptimizerV2": "optimizers.gradient_accumulation_optimizer",
    "CrossReplicaOptimizer": "optimizers.cross_replica_optimizer",
    "GradientAccumulationOptimizer": "optimizers.gradient_accumulation_optimizer",
    "GradientAccumulationOptimizerV2": "optimizers.gradient_accumulation_optimizer",
    "GradientAccumulationReductionMethod": "api.gradient_accumulation",
    "IpuOptimizer": "optimizers.ipu_optimizer",
    "MapGradientOptimizer": "optimizers.map_gradient_optimizer",
    "ShardedOptimizer": "optimizers.sharded_optimizer",
}

_module_attribute, _module_names = lazy.lazy_modules("optimizers")


def __getattr__(name: str) -> Any:
    """Imports a class or a module when it is first used."""
    if name in _CLASSES:
        return getattr(importlib.import_module(f"{tables.PACKAGE}.{_CLASSES[name]}"), name)
    return _module_attribute(name)


def __dir__() -> list[str]:
    """Lists the classes and modules too."""
    return sorted({*_module_names(), *_CLASSES})
