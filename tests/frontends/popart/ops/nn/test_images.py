"""Normalization of images against NumPy."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

OFFSETS, SCALES = np.array([0.1, 0.2, 0.3], np.float32), np.array([2, 1, 0.5], np.float32)


@pytest.mark.parametrize("dtype, wanted", [(np.uint8, np.float16), (np.float32, np.float32)])
def test_images_get_a_fourth_channel(dtype, wanted):
    image = np.random.RandomState(0).randint(0, 255, (2, 3, 3, 3)).astype(dtype)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(image))
    given = [builder.aiOnnx.constant(array.astype(wanted)) for array in (OFFSETS, SCALES)]
    y = builder.aiGraphcore.normalize_image([x, *given], 1 / 255)
    found = popart_models.infer(builder.getModelProto(), {x: image}, [y])[y]
    expected = np.pad((image / 255 - OFFSETS) * SCALES, [(0, 0)] * 3 + [(0, 1)])
    assert found.dtype == wanted
    np.testing.assert_allclose(found, expected, 2e-3, 1e-3)


def test_other_channels_are_refused():
    builder = popart.Builder()
    x, v = builder.addInputTensor("FLOAT", [2, 2, 4]), builder.addInputTensor("FLOAT", [3])
    y = builder.aiGraphcore.normalize_image([x, v, v])
    with pytest.raises(popart.popart_exception, match="with 3 channels last"):
        popart_models.infer(builder.getModelProto(), {}, [y])
