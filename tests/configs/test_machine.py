"""The machine: its listing, the selection of configurations, the orders of IPUs."""

from __future__ import annotations

import re

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.enums import SelectionOrder
from tensorflow_ipu.configs.machine import Machine, selection_permutation

BUSES = {
    0: 0x1A,
    1: 0x1B,
    2: 0x23,
    3: 0x24,
    4: 0x3D,
    5: 0x3E,
    6: 0x43,
    7: 0x44,
    8: 0x8B,
    9: 0x8C,
    10: 0x8E,
    11: 0x8F,
    12: 0xB8,
    13: 0xB9,
    14: 0xBA,
    15: 0xBB,
}

MULTI = """
16: 5 7
17: 4 6
18: 3 1
19: 2 0
20: 13 15
21: 12 14
22: 9 11
23: 10 8
24: 5 7 4 6
25: 3 1 2 0
26: 13 15 12 14
27: 9 11 10 8
28: 5 7 4 6 3 1 2 0
29: 13 15 12 14 9 11 10 8
30: 5 7 4 6 3 1 2 0 13 15 12 14 9 11 10 8
"""


def padded(number):
    return f" [{number}]" if number < 10 else f"[{number}]"


def expected_listing():
    lines = ["Graphcore device listing:", ""]
    for ipu, bus in BUSES.items():
        lines.append(f"-+- Id: {padded(ipu)}, type:      [PCIe], PCI Domain: [0000:{bus:02x}:00.0]")
    for row in MULTI.strip().splitlines():
        identifier, members = row.split(": ")
        lines.append(f"-+- Id: [{identifier}], type: [Multi IPU]")
        for dnc, ipu in enumerate(map(int, members.split())):
            lines.append(
                f"|--- PCIe Id: {padded(ipu)}, DNC Id: [{dnc}], "
                f"PCI Domain: [0000:{BUSES[ipu]:02x}:00.0]"
            )
    return "\n".join(lines)


def test_the_listing_has_all_configurations():
    assert Machine().listing() == expected_listing()


def test_lines_of_the_listing_are_those_documented():
    lines = Machine().listing().splitlines()
    assert lines[2] == "-+- Id:  [0], type:      [PCIe], PCI Domain: [0000:1a:00.0]"
    assert lines[-1] == "|--- PCIe Id:  [8], DNC Id: [15], PCI Domain: [0000:8b:00.0]"
    assert sum(line.startswith("-+-") for line in lines) == 31


def test_machine_has_devices_of_up_to_16_ipus():
    assert Machine().sizes == (1, 2, 4, 8, 16)
    assert Machine().num_ipus == 16


@pytest.mark.parametrize(("count", "first"), [(1, 0), (2, 16), (4, 24), (8, 28), (16, 30)])
def test_the_first_device_of_a_size_is_selected(count, first):
    assert Machine().by_count(count).id == first


def test_selecting_by_count_avoids_busy_ipus():
    machine = Machine()
    assert machine.by_count(1, {0, 1}).id == 2
    assert machine.by_count(4, {5, 0}).id == 26
    assert machine.by_count(16, {3}) is None
    assert machine.by_count(3) is None


@pytest.mark.parametrize(("index", "ipus"), [(8, (8,)), (25, (3, 1, 2, 0)), (31, None), (-1, None)])
def test_a_device_is_selected_by_its_id(index, ipus):
    entry = Machine().by_id(index)
    assert (entry.ipus if entry else None) == ipus


def test_the_model_has_no_listing():
    machine = Machine(chips.MK1, is_model=True)
    assert machine.configurations == () and machine.sizes == () and machine.by_id(0) is None


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (SelectionOrder.AUTO, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"),
        (SelectionOrder.ZIGZAG, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"),
        (SelectionOrder.SNAKE, "0 1 3 2 4 5 7 6 8 9 11 10 12 13 15 14"),
        (SelectionOrder.HOOF, "0 2 4 6 8 10 12 14 15 13 11 9 7 5 3 1"),
    ],
)
def test_each_selection_order_gives_its_permutation(order, expected):
    assert " ".join(map(str, selection_permutation(order, 16))) == expected


@pytest.mark.parametrize("order", SelectionOrder)
@pytest.mark.parametrize("count", range(1, 17))
def test_orders_are_permutations(order, count):
    assert sorted(selection_permutation(order, count)) == list(range(count))


@pytest.mark.parametrize("order", [SelectionOrder.SNAKE, SelectionOrder.HOOF])
@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_neighbors_are_linked(order, count):
    """Linked are the two IPUs of a rung, and IPUs on the same side of rungs that touch."""
    permutation = selection_permutation(order, count)
    for left, right in zip(permutation, permutation[1:]):
        assert left // 2 == right // 2 or abs(left - right) == 2


@pytest.mark.parametrize("ipus", [1, 2, 4, 8, 16])
def test_advice_names_devices_that_there_are(ipus):
    machine = Machine()
    advised = re.search(r"auto_select_ipus to ([\d, or]+):", machine.advice(ipus)).group(1)
    sizes = [int(size) for size in re.findall(r"\d+", advised)]
    assert sizes == [size for size in machine.sizes if size >= ipus]


def test_advice_for_more_ipus_than_there_are():
    assert Machine().advice(32) == (
        "The machine has 16 IPUs and no device with more: use the IPUs 0 to 15 only."
    )


def test_the_offer_says_which_sizes_there_are():
    assert Machine().offer == "The machine of 16 IPUs has devices with 1, 2, 4, 8 or 16 IPUs."


def test_model_has_requested_ipus():
    assert "any number" in Machine(is_model=True).offer
    assert "a multiple of 32" in Machine(is_model=True).advice(32)
