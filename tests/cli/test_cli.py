"""Tests of the command line tool: each command on reports of hand-made programs, and bad input."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys

import pytest

from tensorflow_ipu.cli import console
from tensorflow_ipu.cli.main import main
from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler import comparison, json_schema
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import workloads


def with_layers(workload):
    """The same program, with `dense0` as the layer of `gradients/dense0/MatMul` and so on."""
    ops = []
    for op in workload.ops:
        layer = next((part for part in op.name.split("/") if part.startswith("dense")), "")
        phase = "backward" if op.name.startswith("gradients") else op.phase
        ops.append(dataclasses.replace(op, layer=layer, phase=phase))
    return dataclasses.replace(workload, ops=tuple(ops))


def write(path, width=256, **settings):
    """Writes the report of a training step; returns its file."""
    plan = planning.plan(with_layers(workloads.training_step(width)), Settings(**settings))
    Report.from_plan(plan).save(path)
    return str(path)


@pytest.fixture
def report(tmp_path):
    return write(tmp_path / "report.json")


@pytest.fixture
def wider(tmp_path):
    return write(tmp_path / "wider.json", 512)


def run(capsys, *arguments):
    """Runs the tool; returns the exit code and the output."""
    code = main(arguments)
    return code, capsys.readouterr().out


class TestDevices:
    def test_prints_the_listing_of_the_machine(self, capsys):
        code, out = run(capsys, "devices")
        assert code == 0 and out == Machine().listing() + "\n"
        assert "-+- Id: [30], type: [Multi IPU]" in out

    def test_json_has_31_configurations(self, capsys):
        data = json.loads(run(capsys, "devices", "--json")[1])
        assert len(data["configurations"]) == 31
        assert len(data["configurations"][30]["ipus"]) == 16

    @pytest.mark.parametrize("chip", ["mk1", "mk2", "bow"])
    def test_figures_have_names_units_and_sources(self, capsys, chip):
        data = json.loads(run(capsys, "devices", "--chip", chip, "--figures", "--json")[1])
        figures = chips.get(chip).figures()
        assert list(data["figures"]) == [figure.name for figure in figures]
        text = run(capsys, "devices", "--chip", chip, "--figures")[1]
        assert all(figure.source.text in text for figure in figures)

    def test_the_environment_chooses_the_chip(self, capsys, monkeypatch):
        monkeypatch.setenv("TENSORFLOW_IPU_CHIP", "bow")
        assert json.loads(run(capsys, "devices", "--json")[1])["chip"] == "bow"


class TestReport:
    def test_report_prints_its_sections_as_text(self, capsys, report):
        code, out = run(capsys, "report", report)
        assert code == 0 and "Memory usage" in out and "Execution" in out

    @pytest.mark.parametrize("form, begin", [("json", "{"), ("html", "<!DOCTYPE"), ("trace", "{")])
    def test_a_report_is_written_in_other_forms(self, capsys, report, tmp_path, form, begin):
        path = tmp_path / "out"
        assert run(capsys, "report", report, "--format", form, "-o", str(path))[0] == 0
        assert path.read_text().lower().startswith(begin.lower())

    def test_slices_bound_a_trace(self, capsys, report):
        code, out = run(capsys, "report", report, "--format", "trace", "--slices", "100")
        assert code == 0 and json.loads(out)["otherData"]["short_slices_merged"] >= 0

    @pytest.mark.parametrize("form, slices", [("html", "100"), ("trace", "3")])
    def test_slices_that_no_trace_has_are_an_error(self, capsys, report, form, slices):
        assert main(["report", report, "--format", form, "--slices", slices]) == 2
        assert "--slices" in capsys.readouterr().err

    def test_a_folder_stands_for_the_report_in_it(self, capsys, report, tmp_path):
        assert run(capsys, "report", str(tmp_path))[0] == 0
        assert run(capsys, "report", str(tmp_path.parent))[0] in (0, 2)


class TestDiff:
    def test_a_report_does_not_differ_from_itself(self, capsys, report):
        assert run(capsys, "diff", report, report) == (0, "no differences\n")
        assert json.loads(run(capsys, "diff", "--json", report, report)[1])["differences"] == []

    def test_the_summary_comes_first_then_the_largest_changes(self, capsys, report, wider):
        lines = run(capsys, "diff", report, wider)[1].splitlines()
        assert lines[0].split() == ["before", "after"]
        speeds = [
            f"{Report.load(path).insights['items_per_second']:,.0f} elements/s"
            for path in (report, wider)
        ]
        assert lines[1] == f"throughput{' ' * (lines[1].index(speeds[0]) - 10)}" + "  ".join(speeds)
        assert lines[2].split() == ["fits", "yes", "yes"]
        shares = [
            abs(float(line.split()[-2]))
            for line in lines
            if line.startswith("(program)") and line.endswith("%")
        ]
        sizes = [share / (100 + share) for share in shares]  # of the larger of both
        assert len(sizes) > 3 and sizes == sorted(sizes, reverse=True)
        assert any(line.startswith("live at the peak") for line in lines)
        few = run(capsys, "diff", "--top", "1", report, wider)[1]
        assert few.count("(program)") == 1 and few.count("more: --top N") >= 2

    def test_several_reports_have_a_column_each(self, capsys, report, wider, tmp_path):
        third = write(tmp_path / "third.json", 384)
        out = run(capsys, "diff", report, wider, third)[1]
        assert out.splitlines()[0].split()[1:] == ["wider", "third"]
        row = next(
            line for line in out.splitlines() if line.split()[:2] == ["(program)", "variables"]
        )
        sizes = [4 * 3 * width**2 for width in (256, 512, 384)]
        assert [int(cell.replace(",", "")) for cell in row.split()[-3:]] == sizes
        live = out.partition("live at the peak")[2].splitlines()
        weights = next(line for line in live if line.startswith("w0 "))
        assert weights.split()[1:] == ["256", "KiB", "1", "MiB", "576", "KiB"]
        data = json.loads(run(capsys, "diff", "--json", report, wider, third)[1])
        assert len(data["reports"]) == 3 and len(data["others"]) == 2

    def test_differences_name_layers_and_totals(self, capsys, report, wider):
        data = json.loads(run(capsys, "diff", "--json", report, wider)[1])["differences"]
        grown = {(change["layer"], change["metric"]): change["growth"] for change in data}
        assert grown[None, "cycles"] > 0
        assert grown[None, "variables bytes"] > 0
        assert any(layer is not None for layer, _ in grown)

    def test_exit_code_is_for_scripts(self, capsys, report, wider):
        assert run(capsys, "diff", report, wider)[0] == 0
        assert run(capsys, "diff", "--exit-code", report, wider)[0] == 1
        assert run(capsys, "diff", "--exit-code", report, report)[0] == 0

    def test_a_page_shows_both_sides(self, capsys, report, wider, tmp_path):
        file = tmp_path / "diff.html"
        plain = run(capsys, "diff", report, wider)[1]
        assert run(capsys, "diff", "--html", str(file), report, wider) == (
            0,
            f"{plain}wrote {file}\n",
        )
        assert file.read_text().startswith("<!DOCTYPE html>") and file.stat().st_mode & 0o77 == 0
        json.loads(run(capsys, "diff", "--json", "--html", str(file), report, wider)[1])


class TestWhatif:
    def test_every_combination_has_a_line(self, capsys, report):
        out = run(
            capsys, "whatif", report, "--json", "--chip", "mk2", "bow", "--replicas", "1", "8"
        )[1]
        outcomes = json.loads(out)["outcomes"]
        assert [o["changes"] for o in outcomes] == [
            {"chip": chip, "replicas": replicas} for chip in ("mk2", "bow") for replicas in (1, 8)
        ]
        # The same cycles take less time on the chip with the faster clock.
        assert outcomes[2]["seconds"] < outcomes[0]["seconds"]

    def test_fewer_tiles_are_fuller(self, capsys, report):
        out = run(capsys, "whatif", report, "--json", "--tiles", "1472", "64")[1]
        many, few = json.loads(out)["outcomes"]
        assert few["worst"] > many["worst"]

    def test_says_what_it_is_now(self, capsys, report):
        code, out = run(capsys, "whatif", report)
        assert code == 0 and out.startswith("now:") and "with changes" not in out

    def test_what_is_not_possible_has_a_reason(self, capsys, report):
        code, out = run(capsys, "whatif", report, "--schedule", "grouped")
        assert code == 1 and "has no pipeline" in out

    @pytest.mark.parametrize(
        "arguments",
        [("--tiles", "0"), ("--chip", "mk9"), ("--recompute", "perhaps"), ("--schedule", "x")],
        ids=lambda arguments: arguments[0],
    )
    def test_wrong_values_are_usage_errors_that_name_option(self, capsys, report, arguments):
        assert main(["whatif", report, *arguments]) == 2
        assert arguments[1] in capsys.readouterr().err

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (("--batch", "9" * 29), "at most 1,000,000,000,000"),
            (("--replicas", "9" * 29), "at most 1,000,000,000,000"),
            (("--count", "20000000", "--stages", "2"), "at most 100,000"),
            (("--tiles", "1.5"), "expected a whole number, got '1.5'"),
        ],
        ids=lambda value: value[0] if isinstance(value, tuple) else None,
    )
    def test_numbers_that_nothing_is_planned_with(self, capsys, report, arguments, message):
        with pytest.raises(SystemExit) as stopped:
            main(["whatif", report, *arguments])
        assert stopped.value.code == 2 and message in capsys.readouterr().err


class TestSplit:
    def test_stages_have_balance_and_bubbles(self, capsys, report):
        data = json.loads(run(capsys, "split", report, "--stages", "2", "--json")[1])
        assert len(data["stages"]) == 2
        assert 0 < data["balance"] <= 1 and 0 <= data["bubble_share"] < 1
        out = run(capsys, "split", report, "--stages", "2")[1]
        assert "balance" in out and "bubbles" in out

    def test_more_stages_than_layers_are_a_usage_error(self, capsys, report):
        assert main(["split", report, "--stages", "50"]) == 2
        assert "50" in capsys.readouterr().err


class TestCheck:
    @pytest.fixture
    def budget(self, capsys, report, tmp_path):
        path = str(tmp_path / "budget.json")
        assert run(capsys, "check", path, "--report", report, "--update")[0] == 0
        return path

    def test_the_same_program_is_within_budget(self, capsys, report, budget):
        assert run(capsys, "check", budget, "--report", report) == (0, "within budget\n")

    def test_a_grown_program_fails_with_what_grew(self, capsys, wider, budget):
        code, out = run(capsys, "check", budget, "--report", wider)
        assert code == 1 and "cycles" in out and "+" in out
        data = json.loads(run(capsys, "check", budget, "--report", wider, "--json")[1])
        assert data["passed"] is False and data["exceeded"]

    def test_the_budget_may_name_its_report(self, capsys, report, budget, tmp_path):
        data = json.loads((tmp_path / "budget.json").read_text())
        (tmp_path / "budget.json").write_text(json.dumps({**data, "report": "report.json"}))
        assert run(capsys, "check", budget)[0] == 0
        # Renewing keeps the name and the tolerance.
        run(capsys, "check", budget, "--update", "--tolerance", "3")
        run(capsys, "check", budget, "--update")
        data = json.loads((tmp_path / "budget.json").read_text())
        assert data["report"] == "report.json" and data["tolerance_percent"] == 3

    @pytest.mark.parametrize("tolerance", ["-5", "nan", "inf"])
    def test_a_tolerance_that_no_check_would_take(self, capsys, report, tmp_path, tolerance):
        path = tmp_path / "new.json"
        arguments = ["check", str(path), "--report", report, "--update", "--tolerance", tolerance]
        assert main(arguments) == 2 and not path.exists()
        assert "tolerance_percent" in capsys.readouterr().err

    def test_check_without_a_report_is_a_usage_error(self, capsys, budget):
        assert main(["check", budget]) == 2
        assert "--report" in capsys.readouterr().err

    def test_a_tolerance_without_update_is_a_usage_error(self, capsys, report, budget):
        assert main(["check", budget, "--report", report, "--tolerance", "3"]) == 2


class TestFiles:
    @pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "x"}'])
    def test_what_is_no_report(self, capsys, tmp_path, content):
        path = tmp_path / "report.json"
        path.write_text(content)
        assert main(["report", str(path)]) == 2
        assert str(path) in capsys.readouterr().err

    def test_missing_files_are_usage_errors(self, capsys, tmp_path):
        assert main(["report", str(tmp_path / "none.json")]) == 2
        assert main(["report", str(tmp_path)]) == 2
        assert "autoReport.directory" in capsys.readouterr().err

    def test_reports_nearby_are_named(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert main(["report", "nosuch"]) == 2
        assert "There are none nearby: programs write them with" in capsys.readouterr().err
        (tmp_path / "reports" / "first").mkdir(parents=True)
        write(tmp_path / "reports" / "first" / "report.json")
        for wrong in ("nosuch", "reports/secnd"):
            assert main(["report", wrong]) == 2
            assert "Reports nearby: reports/first." in capsys.readouterr().err

    def test_a_slip_in_a_file_gets_a_suggestion(self, capsys, report):
        assert main(["report", report.replace("report.json", "reprot.json")]) == 2
        assert "'reprot.json' is unknown: did you mean 'report.json'?" in capsys.readouterr().err

    def test_folder_with_several_reports_is_a_usage_error(self, capsys, tmp_path):
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            write(tmp_path / name / "report.json")
        assert main(["report", str(tmp_path)]) == 2
        assert "2 reports" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "content",
        [b"\xff\xfe\x00", b"\x00" * 100, "\u00e4".encode("latin-1"), b"[" * 100_000, b"NaN"],
        ids=["utf-16", "zeros", "latin-1", "deep", "NaN"],
    )
    @pytest.mark.parametrize("command", ["report", "whatif", "split", "diff", "check"])
    def test_bytes_that_are_no_json(self, capsys, tmp_path, report, command, content):
        path = tmp_path / "other.json"
        path.write_bytes(content)
        more = {"split": ["--stages", "2"], "diff": [report], "check": ["--report", report]}
        assert main([command, str(path), *more.get(command, [])]) == 2
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1 and str(path) in printed.err and not printed.out

    def test_folders_replacing_files_are_usage_errors(self, capsys, tmp_path, report):
        (tmp_path / "folder" / "report.json").mkdir(parents=True)
        folder = str(tmp_path / "folder")
        for arguments in (
            ["report", folder],
            ["report", f"{folder}/report.json"],
            ["check", folder, "--report", report],
            ["check", folder, "--report", report, "--update"],
            ["report", report, "-o", folder],
            ["report", report, "-o", f"{report}/below/a/file"],
            ["report", report, "-o", "/dev/full"],
        ):
            assert main(arguments) == 2
            assert capsys.readouterr().err.count("\n") == 1

    def test_what_goes_on_for_ever(self, capsys, monkeypatch):
        monkeypatch.setattr(json_schema, "_LARGEST", 1000)
        assert main(["report", "/dev/zero"]) == 2
        assert "more than 1000 bytes" in capsys.readouterr().err

    def test_reports_of_many_lines_of_error_are_one(self, capsys, tmp_path):
        name = str(tmp_path / "two\nlines")
        assert main(["report", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    def test_unexplained_failure_is_one_line_with_advice(self, capsys, report, monkeypatch):
        monkeypatch.setattr(comparison, "of_report", lambda _: {}["missing"])
        assert main(["diff", report, report]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "KeyError: 'missing'" in error and "--traceback" in error
        with pytest.raises(KeyError):
            main(["--traceback", "diff", report, report])

    def test_an_interrupt_is_no_traceback(self, capsys, report, monkeypatch):
        def interrupted(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(comparison, "of_report", interrupted)
        assert main(["diff", report, report]) == 130
        assert capsys.readouterr().err == ""


class TestWidth:
    @pytest.mark.parametrize("width", [80, 120])
    def test_tables_fit_the_terminal(self, capsys, report, wider, monkeypatch, width):
        wide = {command: run(capsys, *command)[1] for command in self.commands(report, wider)}
        monkeypatch.setattr(console, "width", lambda: width)
        for command, whole in wide.items():
            out = run(capsys, *command)[1]
            rows = [line for line in out.splitlines() if re.search(r"\S  +\S", line)]
            assert max(map(len, rows)) <= width, command
            assert "no room for" not in whole and len(max(whole.splitlines(), key=len)) > 80
            # Numbers are never cut.
            numbers = set(re.findall(r"\d[\d,]{4,}", out))
            assert numbers and numbers <= set(re.findall(r"\d[\d,]{4,}", whole))

    def commands(self, report, wider):
        yield "report", report
        yield "remedies", report, "--plans", "4"
        yield "whatif", report, "--batch", "16", "32", "--replicas", "1", "8"
        yield "split", report, "--stages", "2"

    def test_columns_that_name_rows_stay(self, capsys, report, monkeypatch):
        monkeypatch.setattr(console, "width", lambda: 80)
        whatif = run(capsys, "whatif", report, "--batch", "16", "32", "--replicas", "1", "8")[1]
        assert re.search(r"^replicas +batch +IPUs", whatif, re.MULTILINE)
        assert re.search(r"bound by +operation", run(capsys, "report", report)[1])
        assert re.search(r"IPUs.* changes$", run(capsys, "remedies", report)[1], re.MULTILINE)

    def test_sentences_of_a_report_fit_too(self, capsys, report, monkeypatch):
        monkeypatch.setattr(console, "width", lambda: 80)
        out = run(capsys, "report", report)[1].partition("Remedies:")[0]
        assert max(map(len, out.splitlines())) <= 80


class TestOutput:
    """Outputs that a shell closes, redirects or pipes, in processes of their own."""

    def shell(self, command, report):
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.replace("REPORT", report)],
            env={**os.environ, "TOOL": f"{sys.executable} -m tensorflow_ipu.cli"},
            capture_output=True,
            text=True,
        )

    @pytest.mark.parametrize(
        ("command", "code", "error"),
        [
            ("$TOOL report REPORT --format json | head -c 10", 0, ""),
            ("$TOOL --help | head -c 10", 0, ""),
            ("$TOOL report REPORT > /dev/full", 2, "No space left"),
            ("$TOOL report REPORT >&-", 0, ""),
            ("$TOOL report /dev/stdin < REPORT | tail -n 1", 0, ""),
            ("LC_ALL=C PYTHONIOENCODING=ascii $TOOL report REPORT | tail -n 1", 0, ""),
        ],
        ids=["pipe", "help", "full", "closed", "stdin", "ascii"],
    )
    def test_that_cannot_be_written(self, tmp_path, command, code, error):
        workload = dataclasses.replace(workloads.training_step(8, 4, 1), name="m\u00f6del")
        Report.from_plan(planning.plan(workload, Settings())).save(tmp_path / "report.json")
        done = self.shell(command, str(tmp_path / "report.json"))
        assert done.returncode == code, done.stderr
        assert done.stderr.count("\n") <= 1 and error in done.stderr
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["whatif", "REPORT", "--tiles", "9" * 5000],
        ["whatif", "REPORT", "--proportion", "nan"],
        ["whatif", "REPORT", "--proportion", "1e999"],
        ["whatif", "REPORT", "--batch", "-3"],
        ["whatif", "REPORT", "--chip", ""],
        ["whatif", "REPORT", "--chip", "\ud800"],
        ["whatif", "REPORT", "--io-tiles", "1472"],
        ["split", "REPORT", "--stages", "0"],
        ["split", "REPORT", "--stages", "-1"],
        ["split", "REPORT", "--stages", "1000000000000"],
        ["split", "REPORT", "--stages", "2", "--count", "0"],
        ["split", "REPORT", "--stages", "2", "--schedule", ""],
        ["split", "REPORT"],
        ["report", "REPORT", "--format", "pdf"],
        ["devices", "--chip", "mk9"],
        ["check", "REPORT", "--update", "--tolerance", "1e999"],
        ["nonsense"],
    ],
    ids=range(17),
)
def test_mistakes_on_the_command_line_are_usage_errors(capsys, report, arguments):
    arguments = [word.replace("REPORT", report) for word in arguments]
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    error = capsys.readouterr().err
    assert code in (1, 2) and "Traceback" not in error
    assert code == 1 or error.splitlines()[-1].startswith("tensorflow-ipu")


def test_a_missing_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])


def test_commands_work_without_tensorflow(run_python, report):
    process = run_python(
        "import sys; from tensorflow_ipu.cli.main import main; main(['whatif', sys.argv[1], "
        "'--tiles', '64']); print('tensorflow' in sys.modules)",
        args=[report],
    )
    assert process.stdout.splitlines()[-1] == "False"
