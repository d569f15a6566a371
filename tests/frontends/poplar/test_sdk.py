"""The folder of Poplar and the variables that name it."""

from __future__ import annotations

import pytest

from tensorflow_ipu.cli.main import main
from tensorflow_ipu.frontends.poplar import sdk


def test_paths_come_before_the_shells() -> None:
    variables = sdk.variables({"PATH": "/usr/bin", "LIBRARY_PATH": ""})
    assert variables["PATH"].endswith(":/usr/bin")
    assert variables["LIBRARY_PATH"] == str(sdk.folder() / "lib")


def test_paths_are_not_added_twice() -> None:
    once = sdk.variables({"PATH": "/usr/bin"})
    assert sdk.variables(once)["PATH"] == once["PATH"]


def test_command_prints_exports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sdk"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"export POPLAR_SDK_ENABLED={sdk.folder()}" in lines


def test_command_prints_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sdk", "--path"]) == 0
    assert capsys.readouterr().out.strip() == str(sdk.folder())
