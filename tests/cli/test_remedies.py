"""Tests of `tensorflow-ipu remedies`: its output, its options, and edits of programs."""

from __future__ import annotations

import ast
import io
import json
import os
import re

import pytest

from tensorflow_ipu.cli import main as cli
from tensorflow_ipu.cli import remedies
from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipeline

# --- Edits of programs ---

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
    return remedies.config_edit(path, line, options)


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


def test_constants_of_same_block_are_changed_in_place(tmp_path):
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
        remedies.config_edit(tmp_path / "none.py", 1, OPTIONS)


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


# --- Command ---

PROGRAM_REMEDIES = """\
from tensorflow.python import ipu

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
"""

SMALL = dense([256, 256, 256], batch=1024)


def _report(path, workload=SMALL, tiles=16, configured_at="", **settings):
    """Writes the report of a program; returns its file."""
    chosen = Settings(chip=chips.MK2.with_tiles(tiles), **settings)
    options = {"configured_at": configured_at}
    Report.from_plan(planning.plan(workload, chosen), options).save(path / "report.json")
    return str(path / "report.json")


def _run(capsys, *arguments):
    code = cli.main(["remedies", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def _found(capsys, *arguments):
    code, out, _ = _run(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_what_it_finds_is_faster_and_fits(capsys, tmp_path):
    report = _report(tmp_path, dense([256] * 13, batch=16), 3)
    code, found = _found(capsys, report, "--ipus", "4", "--plans", "30")
    assert code == 0
    assert not found["now"]["fits"]
    assert found["best"]["fits"] and found["best"]["ipus"] <= 4
    assert found["best"]["worst_bytes"] <= found["best"]["capacity"]
    assert found["best"]["items_per_second"] > found["now"]["items_per_second"]
    assert found["best"]["memory_label"] in ("modelled", "assumed")
    assert all(other["fits"] for other in found["others"])
    speeds = [other["items_per_second"] for other in (found["best"], *found["others"])]
    assert speeds == sorted(speeds, reverse=True)
    assert found["plans"] <= 31


def test_text_has_before_after_and_changes(capsys, tmp_path):
    report = _report(tmp_path, dense([256] * 13, batch=16), 3)
    code, out, _ = _run(capsys, report, "--ipus", "4", "--plans", "30")
    assert code == 0
    head, now, best = out.splitlines()[:3]
    assert head.split()[:3] == ["IPUs", "items/s", "label"]
    assert now.startswith("now") and " no " in now
    assert best.startswith("best") and " yes " in best
    assert "Changes:\n  1. float16\n" in out
    assert "Others that fit:" in out and "Changes alone:" in out
    assert re.search(r"^Planned \d+ of at most", out, re.MULTILINE)
    assert "An update keeps its 16 elements of data" in out
    assert "Nothing to change of convolution_proportion: it has no convolutions." in out
    assert "TF_POPLAR_FLAGS=--capacity_policy=mark" in out


def test_without_ipu_count_number_grows_until_fit(capsys, tmp_path):
    report = _report(tmp_path, dense([256] * 13, batch=16), 3)
    code, found = _found(capsys, report, "--plans", "12", "--without", "precision")
    assert code == 0
    assert found["tried_ipus"] == [2**n for n in range(len(found["tried_ipus"]))]
    assert found["tried_ipus"] and found["ipus"] == 2 * found["tried_ipus"][-1]


def test_nothing_that_fits_is_the_exit_code_1(capsys, tmp_path):
    report = _report(tmp_path, dense([256] * 13, batch=16), 3)
    code, out, _ = _run(capsys, report, "--ipus", "1", "--only", "batch", "--plans", "5")
    assert code == 1
    assert "Nothing that was planned fits on 1 IPU." in out


def test_a_program_that_is_the_fastest_already_stays(capsys, tmp_path):
    report = _report(tmp_path, tiles=64)
    code, out, _ = _run(capsys, report, "--ipus", "1", "--only", "recompute")
    assert code == 0
    assert "Nothing that was planned is faster and fits." in out
    assert "Changes:" not in out


def test_what_may_be_changed_can_be_chosen(capsys, tmp_path):
    report = _report(tmp_path)
    _, found = _found(capsys, report, "--ipus", "1", "--only", "batch", "precision", "--plans", "9")
    chosen = [found["best"], *found["others"], *found["single_changes"]]
    assert {name for one in chosen for name in one["choices"]} <= {"batch", "precision"}
    _, bound = _found(capsys, report, "--ipus", "1", "--most-items", "1024", "--plans", "12")
    assert bound["best"]["items_of_an_update"] <= 1024


def test_an_update_keeps_its_elements_unless_told(capsys, tmp_path):
    """As a pipeline of 2 IPUs, with twice the mini-batches for half the size, and the like."""
    report = _report(tmp_path, pipeline(2, batch=256, width=128), 16)
    asked = (report, "--ipus", "4", "--plans", "40")
    _, kept = _found(capsys, *asked)
    now = kept["now"]["items_of_an_update"]
    assert kept["kept_items_of_an_update"] == now == 8 * 256
    found = [kept["best"], *kept["others"]]
    assert {one["items_of_an_update"] for one in found} == {now}
    assert any("batch" in one["choices"] for one in (*found, *kept["single_changes"]))
    _, free = _found(capsys, *asked, "--most-items", "any")
    assert free["kept_items_of_an_update"] is None
    assert any(one["items_of_an_update"] != now for one in (free["best"], *free["others"]))


def test_progress_is_on_a_terminal_only(capsys, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    asked = (_report(tmp_path), "--ipus", "1", "--plans", "3")
    assert _run(capsys, *asked)[2] == ""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert _run(capsys, *asked)[0] == 0
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[1:4] == [f"planned {i} of 3 configurations for 1 IPU" for i in (1, 2, 3)]
    assert lines[-1] == ""


def test_plans_and_items_are_numbers_from_1(capsys, tmp_path):
    report = _report(tmp_path)
    for option in ("--plans", "--most-items"):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["remedies", report, option, "0"])
        assert stopped.value.code == 2
        assert "expected a whole number from 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "size"], "Unknown change 'size': choose from precision, partials"),
        (["--without", "size"], "Unknown change 'size'"),
        (["--ipus", "0"], "Expected 1 to 16 IPUs for 1 instance"),
        (["--ipus", "17"], "received 17"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, arguments, message):
    code, _, err = _run(capsys, _report(tmp_path), *arguments)
    assert code == 2
    assert message in err and len(err.splitlines()) == 1


@pytest.fixture
def program(tmp_path):
    """A program, and the report that it has written."""
    path = tmp_path / "train.py"
    path.write_text(PROGRAM_REMEDIES)
    return path, _report(tmp_path, configured_at=f"{path}:5")


class TestApply:
    ONLY = ("--ipus", "4", "--plans", "8", "--only", "replicas")

    def test_options_are_shown_as_a_difference_first(self, capsys, program):
        path, report = program
        code, out, _ = _run(capsys, report, *self.ONLY)
        assert code == 0
        assert "-cfg.auto_select_ipus = 1\n+cfg.auto_select_ipus = 4" in out
        assert "--apply writes this." in out
        assert path.read_text() == PROGRAM_REMEDIES

    def test_options_are_written_when_that_is_wanted(self, capsys, program):
        path, report = program
        code, out, _ = _run(capsys, report, *self.ONLY, "--apply")
        assert code == 0 and f"wrote {path}" in out
        assert path.read_text() == PROGRAM_REMEDIES.replace("= 1", "= 4")
        _, out, _ = _run(capsys, report, *self.ONLY, "--apply")
        assert "has these options already" in out

    def test_ipus_of_stages_are_left_to_caller(self, capsys, tmp_path):
        path = tmp_path / "train.py"
        path.write_text(PROGRAM_REMEDIES)
        report = _report(tmp_path, dense([256] * 13, batch=16), 5, configured_at=f"{path}:5")
        only = ("--only", "stages", "recompute", "--ipus", "8", "--plans", "12", "--apply")
        code, out, _ = _run(capsys, report, *only)
        assert code == 0 and "pipeline with 8 stages" in out
        assert path.read_text() == PROGRAM_REMEDIES
        assert "none of the changes is an option of IPUConfig alone" in out

    def test_what_is_left_by_hand_is_said(self, capsys, program):
        path, report = program
        only = ("--only", "precision", "partials", "--ipus", "1", "--plans", "12", "--apply")
        code, out, _ = _run(capsys, report, *only)
        assert code == 0
        assert "Left to do by hand, without which the program may not fit: float16." in out
        assert 'cfg.matmuls.poplar_options["partialsType"] = "half"' in path.read_text()

    def test_a_program_that_has_changed_is_left_alone(self, capsys, program):
        path, report = program
        changed = "import os\n" + PROGRAM_REMEDIES
        path.write_text(changed)
        code, out, _ = _run(capsys, report, *self.ONLY, "--apply")
        assert code == 0
        assert "Nothing can be written into the program" in out
        assert "If the file has changed since the report was made" in out
        assert path.read_text() == changed

    @pytest.mark.parametrize("place", ["", "/nowhere/train.py:5", "nonsense"])
    def test_program_that_is_not_here_is_a_reason(self, capsys, tmp_path, place):
        code, out, _ = _run(capsys, _report(tmp_path, configured_at=place), *self.ONLY, "--apply")
        assert code == 0
        assert "Nothing can be written into the program" in out
