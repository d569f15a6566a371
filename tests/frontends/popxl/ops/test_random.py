"""Random numbers: distribution, and that they follow from the seed alone."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.random_seed import two_uint32_to_uint64, uint64_to_two_uint32
from popxl.transforms import autodiff

from tests.support.popxl import popxl_programs

SEED = np.array([7, 2**32 - 1], np.uint32)


def test_numbers_follow_distribution_and_seed():
    def build(seed):
        one, two, three = ops.split_random_seed(seed, 3)
        return {
            "uniform": ops.random_uniform(seed, (50, 40), -1.0, 3.0),
            "again": ops.random_uniform(seed, (50, 40), -1.0, 3.0),
            "other": ops.random_uniform(two, (50, 40), -1.0, 3.0),
            "integers": ops.random_uniform(one, (500,), 2, 5, popxl.int32),
            "normal": ops.random_normal(seed + 1, (50, 40), 5.0, 2.0, popxl.float16),
            "seeds": ops.concat([one, two, three]),
            "third": ops.random_seed.create_random_seed(seed, 2),
        }

    first, second = (popxl_programs.run(build, [SEED]) for _ in range(2))
    np.testing.assert_array_equal(first["third"], first["seeds"][4:])
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    uniform = first["uniform"]
    assert -1 <= uniform.min() < -0.9 and 2.9 < uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.1
    np.testing.assert_array_equal(uniform, first["again"])
    assert (uniform != first["other"]).mean() > 0.99
    assert set(first["integers"]) == {2, 3, 4}
    assert first["normal"].dtype == np.float16
    normal = first["normal"].astype(np.float32)
    assert abs(normal.mean() - 5) < 0.2 and abs(normal.std() - 2) < 0.2
    seeds = first["seeds"].reshape(3, 2)
    assert (seeds[:, 0] == 7).all() and len(set(seeds[:, 1])) == 3


def test_dropout_uses_one_mask_for_value_and_gradient():
    ones = np.ones((40, 50), np.float32)

    def build(x, seed):
        graph = popxl.gir().create_graph(
            lambda t, s: (ops.dropout(t, s, 0.25), ops.shaped_dropout(t, s, (40, 1), 0.5)), x, seed
        )
        info = autodiff(graph, grads_required=[graph.inputs[0]])
        forward = ops.call_with_info(graph, x, seed)
        (gradient,) = ops.call(info.graph, x, x, inputs_dict=info.inputs_dict(forward))
        dropped, rows = forward.outputs[:2]
        return {
            "dropped": dropped,
            "rows": rows,
            "gradient": gradient,
            "kept": ops.dropout(x, seed, 0.0),
        }

    found = popxl_programs.run(build, [ones, SEED])
    dropped, rows = found["dropped"], found["rows"]
    np.testing.assert_allclose(np.unique(dropped), [0, 4 / 3], rtol=1e-6)
    assert abs((dropped == 0).mean() - 0.25) < 0.05
    assert (rows == rows[:, :1]).all() and set(rows[:, 0]) == {0, 2}
    np.testing.assert_allclose(found["gradient"], dropped + rows, rtol=1e-6)
    np.testing.assert_array_equal(found["kept"], ones)


def test_seeds_of_the_host():
    seeds = popxl.create_seeds(1, 2, 3, 4, 2)
    assert seeds.shape == (3, 4, 2, 2) and seeds.dtype == np.uint32
    drawn = np.random.default_rng(3).integers(0, 2**64 - 1, endpoint=True, dtype=np.uint64)
    assert popxl.create_seeds(1, 2).tolist() == list(uint64_to_two_uint32(int(drawn)))
    assert two_uint32_to_uint64(*uint64_to_two_uint32(2**63 + 5)) == 2**63 + 5
    with pytest.raises(ValueError, match="negative or cannot be represented"):
        uint64_to_two_uint32(2**64)
    with pytest.raises(ValueError, match="Either `a` or `b` are negative"):
        two_uint32_to_uint64(-1, 0)


def test_other_seeds_and_masks_are_refused():
    with popxl.Ir().main_graph:
        x, seed = popxl.variable(np.ones((2, 3))), popxl.variable(SEED)
        with pytest.raises(ValueError, match=r"must be shape=\(2,\)"):
            ops.dropout(x, x, 0.1)
        with pytest.raises(popxl.errors.popart_exception, match="cannot be broadcast"):
            ops.shaped_dropout(x, seed, (2, 5, 3), 0.1)
