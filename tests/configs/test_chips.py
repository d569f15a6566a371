"""The chips: names, figures with sources, and the published totals they must reproduce."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import BOW, CHIPS, MK1, MK2, Source, Status


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("mk1", MK1),
        ("ipu1", MK1),
        ("mk2", MK2),
        ("ipu2", MK2),
        ("bow", BOW),
        ("ipu21", BOW),
        ("MK2", MK2),
        ("gc200", MK2),
    ],
)
def test_chips_are_found_by_their_names(name, chip):
    assert chips.get(name) is chip


@pytest.mark.parametrize("name", ["ipu3", "", "bwo"])
def test_an_unknown_name_lists_the_choices(name):
    with pytest.raises(ValueError, match=f"Unknown IPU chip '{name}': choose one of mk1, ipu1"):
        chips.get(name)


def test_a_near_miss_is_suggested():
    with pytest.raises(ValueError, match="Did you mean 'bow'?"):
        chips.get("bows")


def test_the_default_chip_is_mk2():
    assert chips.DEFAULT is MK2


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
def test_every_figure_has_unit_source_and_status(chip):
    figures = chip.figures()
    assert len(figures) > 20
    for figure in figures:
        # Not all have 8-bit floats and short convolutions.
        assert figure.value > 0 or figure.name.startswith(("quarter_", "short_"))
        assert figure.unit and figure.source.text
        assert isinstance(figure.source.status, Status)


def test_a_figure_without_source_is_rejected():
    sources = {name: source for name, source in MK2.sources.items() if name != "tiles"}
    with pytest.raises(ValueError, match="tiles"):
        dataclasses.replace(MK2, sources=sources)
    with pytest.raises(ValueError, match="colour"):
        dataclasses.replace(MK2, sources={**MK2.sources, "colour": Source("x", Status.DERIVED)})


@pytest.mark.parametrize(
    ("computed", "published"),
    [
        (MK1.memory, 304 * 1024**2),
        (MK2.memory, 897 * 1024**2),
        (MK1.worker_threads, 7296),
        (MK2.worker_threads, 8832),
        (MK1.peak_flops(MK1.mixed_macs_per_cycle), 124.5e12),
        (MK1.peak_flops(MK1.float_macs_per_cycle), 31.1e12),
        (MK2.peak_flops(MK2.half_macs_per_cycle), 250e12),
        (MK2.peak_flops(MK2.float_macs_per_cycle), 62.5e12),
        (BOW.peak_flops(BOW.half_macs_per_cycle), 350e12),
        (BOW.peak_flops(BOW.float_macs_per_cycle), 22.31e15 / 256),
        (MK2.exchange_bandwidth, 7.8e12),
        (BOW.exchange_bandwidth, 10.9e12),
        (MK2.tiles * MK2.clock * (MK2.load_rate + MK2.store_rate), 47e12),
        (2 * MK2.link_bandwidth_total, 320e9),
    ],
)
def test_computed_totals_equal_the_published_ones(computed, published):
    assert computed == pytest.approx(published, rel=0.01)


def test_the_number_of_tiles_can_be_changed():
    assert MK2.with_tiles(4).memory == 4 * 624 * 1024
    for tiles in (0, 1473):
        with pytest.raises(ValueError, match="1 to 1472"):
            MK2.with_tiles(tiles)


def test_chips_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MK2.tiles = 1
