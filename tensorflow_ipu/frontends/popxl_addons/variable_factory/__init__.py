"""Makes variables where they may be made: the module `popxl_addons.variable_factory`."""

from tensorflow_ipu.frontends.popxl_addons.variable_factory.factory import VariableFactory
from tensorflow_ipu.frontends.popxl_addons.variable_factory.inputs import (
    add_replica_sharded_variable_input,
    add_variable_input,
)
from tensorflow_ipu.frontends.popxl_addons.variable_factory.named import NamedVariableFactories
from tensorflow_ipu.frontends.popxl_addons.variable_factory.values import (
    host_scalar_tensor_types,
)

__all__ = [
    "NamedVariableFactories",
    "VariableFactory",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "host_scalar_tensor_types",
]
