"""The names under which PopXL is imported."""

from __future__ import annotations

import importlib
import sys
from typing import get_args

import numpy as np
import popxl
import popxl.ops as same_ops
import pytest
from popxl import ops

from tensorflow_ipu.import_hook import tables


def test_modules_are_the_same_under_all_names():
    assert same_ops is ops is popxl.ops is sys.modules["popxl.ops"]
    roots = {"popxl": tables.POPXL_MODULES, "popxl_addons": tables.POPXL_ADDONS_MODULES}
    roots["popxl"] = {**roots["popxl"], **tables.POPXL_FUNCTION_PATHS}
    for root, table in roots.items():
        for name, module in table.items():
            public = importlib.import_module(f"{root}.{name}".rstrip("."))
            assert public is importlib.import_module(f"tensorflow_ipu.{module}")


def test_there_are_no_other_modules():
    with pytest.raises(ModuleNotFoundError, match=r"popxl\.builder"):
        importlib.import_module("popxl.builder")
    with pytest.raises(ModuleNotFoundError, match=r"popxl_addons\.builder"):
        importlib.import_module("popxl_addons.builder")


def test_functions_with_name_of_their_module_stay_functions():
    import popxl_addons as addons

    module = importlib.import_module("popxl_addons.seed_variable")
    assert module.seed_variable is addons.seed_variable
    for name in ("cross_entropy", "fp8_amax_scale"):
        module = importlib.import_module(f"popxl_addons.ops.{name}")
        assert getattr(module, name) is getattr(addons.ops, name)
    for name in tables.POPXL_FUNCTION_PATHS:
        module, (*path, function) = importlib.import_module(f"popxl.{name}"), name.split(".")
        package = importlib.import_module(".".join(["popxl", *path]))
        assert callable(getattr(package, function))
        assert getattr(module, function) is getattr(package, function)


def test_names_of_modules_by_path():
    from popart._internal import ir as internal
    from popxl.ops.call import CallSiteInfo
    from popxl.ops.collectives.collectives import (
        CollectiveOps,
        CommGroup,
        CommGroupType,
        to_collective_op,
    )
    from popxl.ops.conv import PadType
    from popxl.ops.negative_log_likelihood import REDUCTION_TYPE
    from popxl.random_seed import MAX_UINT64
    from popxl.session import StreamBufferMaps, d2hStreamBufferMaps, h2dStreamBufferMaps
    from popxl.tensor import TensorSpec, host_tensor_types
    from popxl.tensorlocation import TensorLocation
    from popxl.testing import get_all_dtypes, get_all_int_dtypes
    from popxl.transforms import autodiff
    from popxl.transforms.autodiff import ExpectedConnectionType, GradGraphInfo
    from popxl.typing_ import NewAliasAnnotation
    from pva import pva_core
    from pva.pva_core import ExecutionStep

    assert CallSiteInfo is ops.CallSiteInfo
    assert autodiff is popxl.transforms.autodiff
    assert TensorLocation is popxl.TensorLocation
    assert TensorSpec is popxl.TensorSpec
    assert CommGroup(CommGroupType.All).replicaGroupSize == 0
    assert set(get_args(PadType)) == {"not_set", "same_upper", "same_lower", "valid"}
    assert set(get_args(REDUCTION_TYPE)) == {"mean", "sum", "none"}
    assert {d2hStreamBufferMaps, h2dStreamBufferMaps} == set(get_args(StreamBufferMaps))
    assert isinstance([1.0], host_tensor_types)
    assert MAX_UINT64 == np.iinfo(np.uint64).max
    assert popxl.utils.downcast_np_dtypes[np.dtype("int64")] == np.int32
    assert popxl.dtypes.np_dtype_float8_143 == popxl.float8_143.as_numpy()
    assert popxl.float8_152 in get_all_dtypes()
    assert get_all_int_dtypes(include_signed=False) == [
        *(popxl.uint8, popxl.uint16, popxl.uint32, popxl.uint64)
    ]
    assert {GradGraphInfo, ExpectedConnectionType}
    assert ExecutionStep is pva_core.ExecutionStep
    for op in get_args(CollectiveOps):
        assert to_collective_op(op).name.lower().endswith(op.replace("_", ""))
    with pytest.raises(ValueError, match="Not a valid op: 'local'. Must choose from:"):
        to_collective_op("local")
    with pytest.raises(NotImplementedError):
        NewAliasAnnotation("Ref", popxl.Tensor)()
    assert internal.ExecutionContext.WeightsFromHostFragment is (
        popxl.ExecutionContext.WeightsFromHostFragment
    )
