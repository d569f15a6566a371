"""Keys of verified transfers."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.verification import KeyId, VerificationOptions


def test_keys_can_be_set_in_place_or_replaced():
    options = VerificationOptions()
    options.inputs.key = 1
    options.infeeds["infeed"].key = 3
    options.input_parameters = KeyId(1, 5)
    assert options.inputs == KeyId(1)
    assert options.infeeds == {"infeed": KeyId(3)}
    assert options.input_parameters.start_id == 5


def test_instances_share_nothing():
    VerificationOptions().inputs.key = 1
    VerificationOptions().infeeds["a"].key = 2
    assert VerificationOptions() == VerificationOptions()
    assert VerificationOptions().inputs.key == 0


@pytest.mark.parametrize("arguments", [("1",), (True,), (1, 2.0)])
def test_keys_must_be_integers(arguments):
    with pytest.raises(TypeError, match="but it must be of type int"):
        KeyId(*arguments)
