"""Tests of `gc-info`: its answers have the forms of Graphcore's public documentation."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tensorflow_ipu.cli import devices
from tensorflow_ipu.cli.main import main
from tensorflow_ipu.configs.machine import Machine


def printed(capsys, *arguments):
    """Returns the standard output; the standard error says that the machine is simulated."""
    assert devices.gc_info(arguments) == 0
    output = capsys.readouterr()
    assert "simulates" in output.err
    return output.out


@pytest.mark.parametrize("option", ["-l", "--list-devices", "--list-all-devices"])
def test_devices_are_listed_by_id(capsys, option):
    out = printed(capsys, option)
    assert out.splitlines()[0] == "Graphcore device listing:"
    ids = [int(number) for number in re.findall(r"^-\+- Id: +\[(\d+)\]", out, re.MULTILINE)]
    assert ids == list(range(31))
    assert printed(capsys, option, "--all-partitions") == out


@pytest.mark.parametrize("arguments", [["-i", "-d", "3"], ["--device-info", "--device-id=3"]])
def test_attributes_of_an_ipu_are_names_and_values(capsys, arguments):
    first, *lines = printed(capsys, *arguments).splitlines()
    values = dict(line.strip().split(": ", 1) for line in lines)
    assert first == "Device Info:" and all(line.startswith("  ") for line in lines)
    assert values["id"] == "3" and values["target"] == "PCIe"
    # What scripts look for.
    assert values["remote buffers supported"] == "1"
    assert values["pci id"] == "0000:24:00.0" and values["board type"] == "simulated"


def test_device_of_several_ipus_has_attributes_of_each(capsys):
    out = printed(capsys, "-i", "-d", "30")
    ids = {int(number) for number in re.findall(r"^  id: (\d+)$", out, re.MULTILINE)}
    assert out.count("Device Info:") == 16 and ids == set(range(16))


@pytest.mark.parametrize(
    "chip, architecture, clock",
    [("mk1", "ipu1", "1600MHz"), ("mk2", "ipu2", "1325MHz"), ("bow", "ipu21", "1850MHz")],
)
def test_the_chip_is_that_of_the_environment(capsys, monkeypatch, chip, architecture, clock):
    monkeypatch.setenv("TENSORFLOW_IPU_CHIP", chip)
    assert printed(capsys, "--ipu-arch") == f"{architecture}\n"
    assert printed(capsys, "--tile-clock-speed", "-d", "24") == f"{clock}\n"
    assert int(printed(capsys, "--ipu-count")) == Machine().num_ipus


@pytest.mark.parametrize("device", ["31", "-1"])
def test_a_device_that_is_not_there(capsys, device):
    assert devices.gc_info(["-i", f"--device-id={device}"]) == 2
    assert "0 to 30" in capsys.readouterr().err
    assert main(["devices", "--device-info", device]) == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "required"),
        (["-l", "-i"], "not allowed with"),
        (["--tile-overview", "-d", "0"], "simulated"),
        (["--ipu-cuont"], "did you mean '--ipu-count'"),
    ],
    ids=str,
)
def test_what_it_cannot_tell_is_a_usage_error(capsys, arguments, words):
    with pytest.raises(SystemExit, match="2"):
        devices.gc_info(arguments)
    assert words in capsys.readouterr().err


def test_a_wrong_chip_is_a_line(capsys, monkeypatch):
    monkeypatch.setenv("TENSORFLOW_IPU_CHIP", "mk9")
    assert devices.gc_info(["-l"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_examples_of_its_help_run(capsys):
    with pytest.raises(SystemExit, match="0"):
        devices.gc_info(["--help"])
    examples = re.findall(r"^  gc-info (.+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(examples) == 3
    for example in examples:
        assert printed(capsys, *example.split())


def test_a_reader_that_has_enough_is_no_error():
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m tensorflow_ipu.cli.devices -l | :"],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and process.stderr.count("\n") == 1
