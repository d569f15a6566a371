"""Tests of edits of a program's source: what is set, and that nothing else changes."""

from __future__ import annotations

import ast
import os

import pytest

from tensorflow_ipu.cli import config_edits

OPTIONS = {
    "allow_recompute": "True",
    'matmuls.poplar_options["availableMemoryProportion"]': '"0.1"',
}
PROGRAM = """\
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1  # one is enough
config.configure_ipu_system()
print("ready")
"""


def _edit(tmp_path, text, options=OPTIONS, line=None):
    path = tmp_path / "train.py"
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(data)
    if line is None:
        line = 1 + [b"configure_ipu_system(" in row for row in data.splitlines()].index(True)
    return config_edits.edit(path, line, options)


def test_options_are_set_right_before_the_call(tmp_path):
    edit = _edit(tmp_path, PROGRAM)
    assert edit.after.decode() == PROGRAM.replace(
        "config.configure_ipu_system()",
        "config.allow_recompute = True\n"
        'config.matmuls.poplar_options["availableMemoryProportion"] = "0.1"\n'
        "config.configure_ipu_system()",
    )
    assert "+config.allow_recompute = True" in edit.difference()
    assert (tmp_path / "train.py").read_text() == PROGRAM  # nothing is written yet


def test_constants_of_the_same_block_are_changed_in_place(tmp_path):
    edit = _edit(tmp_path, PROGRAM, {"auto_select_ipus": "4"})
    assert edit.after.decode() == PROGRAM.replace("= 1 ", "= 4 ")
    again = _edit(tmp_path, edit.after, {"auto_select_ipus": "4"})
    assert again.after == again.before and again.difference() == ""


def test_editing_twice_is_the_same_as_once(tmp_path):
    once = _edit(tmp_path, PROGRAM)
    assert _edit(tmp_path, once.after).after == once.after


@pytest.mark.parametrize(
    "line",
    [
        "config.auto_select_ipus = number()",
        "config.auto_select_ipus = 1 if small else 2",
        "config.auto_select_ipus = other = 1",
        "if small: config.auto_select_ipus = 1",
    ],
)
def test_what_is_no_constant_stays_and_is_overridden(tmp_path, line):
    program = PROGRAM.replace("config.auto_select_ipus = 1  # one is enough", line)
    after = _edit(tmp_path, program, {"auto_select_ipus": "4"}).after.decode()
    assert after == program.replace(
        "config.configure_ipu_system()",
        "config.auto_select_ipus = 4\nconfig.configure_ipu_system()",
    )


@pytest.mark.parametrize(
    "between",
    [
        "adapt(config)",
        "config.matmuls = other",
        "config.convolutions.poplar_options = change(config)",
        "if small:\n    config.auto_select_ipus = 2",
        "other = config",
    ],
)
def test_what_may_set_an_option_again_is_overridden(tmp_path, between):
    name = 'matmuls.poplar_options["partialsType"]'
    program = PROGRAM.replace(
        "config.configure", f'config.{name} = "float"\n{between}\nconfig.configure'
    )
    after = _edit(tmp_path, program, {name: '"half"'}).after.decode()
    assert after == program.replace(
        "config.configure_ipu", f'config.{name} = "half"\nconfig.configure_ipu'
    )


def test_the_last_of_several_assignments_counts(tmp_path):
    program = PROGRAM.replace("print", "config.auto_select_ipus = 9\nprint")
    program = program.replace("config.conf", "config.auto_select_ipus = 2\nconfig.conf")
    after = _edit(tmp_path, program, {"auto_select_ipus": "4"}).after.decode()
    assert after == program.replace("= 2", "= 4")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("cfg.configure_ipu_system()", "cfg"),
        ("self.config.configure_ipu_system('cpu')", "self.config"),
        ("ipu.utils.configure_ipu_system(cfg)", "cfg"),
        ("configure_ipu_system(cfg, reset_configuration=False)", "cfg"),
        ("cfg.configure_ipu_system(\n    device='cpu',\n)", "cfg"),
    ],
)
def test_calls_of_every_form_have_their_configuration(tmp_path, call, name):
    program = "def main(self):\n    " + call.replace("\n", "\n    ") + "\n"
    after = _edit(tmp_path, program, {"allow_recompute": "True"}).after.decode()
    assert after.splitlines()[1] == f"    {name}.allow_recompute = True"
    assert after.replace(f"    {name}.allow_recompute = True\n", "") == program


@pytest.mark.parametrize(
    "program",
    [
        "IPUConfig().configure_ipu_system()\n",
        "make()[0].configure_ipu_system()\n",
        "if True: cfg.configure_ipu_system()\n",
        "x = 1; cfg.configure_ipu_system()\n",
        "done = cfg.configure_ipu_system()\n",
        "def f(): return cfg.configure_ipu_system()\n",
    ],
)
def test_what_is_not_certain_is_refused(tmp_path, program):
    with pytest.raises(ValueError, match="train.py"):
        _edit(tmp_path, program)
    assert (tmp_path / "train.py").read_text() == program


def test_other_lines_and_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"train.py:6 does not call configure_ipu_system"):
        _edit(tmp_path, PROGRAM, line=6)
    with pytest.raises(ValueError, match="If the file has changed since the report was made"):
        _edit(tmp_path, PROGRAM, line=60)
    with pytest.raises(ValueError, match="no Python that can be read"):
        _edit(tmp_path, "config.configure_ipu_system() (\n")
    with pytest.raises(OSError, match="none.py"):
        config_edits.edit(tmp_path / "none.py", 1, OPTIONS)


@pytest.mark.parametrize(
    "program",
    [
        PROGRAM.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + PROGRAM.encode(),
        PROGRAM.replace("one is enough", "eins genügt").encode(),
        ("# -*- coding: latin-1 -*-\n" + PROGRAM.replace("one", "genügt")).encode("latin-1"),
    ],
    ids=["line ends of Windows", "byte order mark", "utf-8", "latin-1"],
)
def test_every_other_byte_stays(tmp_path, program):
    edit = _edit(tmp_path, program)
    new = [row for row in edit.after.splitlines(True) if row not in program.splitlines(True)]
    assert len(new) == len(OPTIONS)
    rest = edit.after
    for row in new:
        rest = rest.replace(row, b"")
    assert rest == program
    ast.parse(edit.after)


def test_constants_behind_letters_of_several_bytes_are_found(tmp_path):
    program = PROGRAM.replace("config", "größe")
    program = program.replace("größe.IPUConfig", "config.IPUConfig").replace(
        "größeure", "configure"
    )
    edit = _edit(tmp_path, program, {"auto_select_ipus": "4"})
    assert edit.after.decode() == program.replace("= 1 ", "= 4 ")


def test_a_file_is_written_with_its_mode(tmp_path):
    edit = _edit(tmp_path, PROGRAM)
    os.chmod(edit.path, 0o750)
    edit.write()
    assert edit.path.read_bytes() == edit.after
    assert edit.path.stat().st_mode & 0o777 == 0o750
    assert os.listdir(tmp_path) == ["train.py"]


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path):
    edit = _edit(tmp_path, PROGRAM)
    edit.path.write_text("print('new')\n")
    with pytest.raises(ValueError, match="has changed meanwhile"):
        edit.write()
    assert edit.path.read_text() == "print('new')\n"
