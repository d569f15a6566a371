"""Tests that notebooks run, and that they show their stored outputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import nbclient
import nbformat
import pytest

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 300_000

_spec = importlib.util.spec_from_file_location("make_notebooks", DOCS / "make_notebooks.py")
make_notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_notebooks)

CHECK = """
import runpy, sys
sys.argv = [{path!r}, "--check", {name!r}]
runpy.run_path({path!r}, run_name="__main__")
"""


def stored(name):
    return nbformat.read(DOCS / f"notebooks/{name}.ipynb", as_version=4)


def streams(cell):
    """Returns the text of a cell's streams."""
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


@pytest.mark.parametrize("name", make_notebooks.NAMES)
def test_a_notebook_runs_and_shows_what_is_stored(run_python, name):
    run_python(CHECK.format(path=str(DOCS / "make_notebooks.py"), name=name))


@pytest.mark.parametrize("name", make_notebooks.NAMES)
def test_stored_notebook_is_small_and_always_written_alike(name):
    path = DOCS / f"notebooks/{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    notebook = stored(name)
    source = make_notebooks.read_source(path.with_suffix(".py"))
    assert len(text) < LARGEST
    assert text == nbformat.writes(notebook) + "\n"
    assert notebook.metadata == source.metadata
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in source.cells]
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert "iframe srcdoc" not in text


def test_all_notebooks_are_made_and_on_the_page():
    page = (DOCS / "notebooks/index.md").read_text(encoding="utf-8")
    names = {path.stem for path in (DOCS / "notebooks").glob("*.ipynb")}
    assert names == set(make_notebooks.NAMES)
    assert all(f"]({name}.ipynb)" in page for name in names)


def test_fit_bars_are_one_line_per_epoch():
    (cell,) = [cell for cell in stored("keras_digits").cells if "model.fit(" in cell.source]
    lines = [line for line in streams(cell).splitlines() if line]
    assert [line.split(" - ")[0] for line in lines] == [
        text for epoch in range(1, 7) for text in (f"Epoch {epoch}/6", f"44/44 [{'=' * 30}]")
    ]


def test_a_compilation_is_one_line_of_the_cell():
    (cell,) = [cell for cell in stored("keras_digits").cells if "model.fit(" in cell.source]
    (display,) = [output for output in cell.outputs if output.output_type == "display_data"]
    assert display.data["text/plain"].startswith("Compiled cluster_0__function in ")


def test_reports_and_schedules_show_themselves():
    shown = {
        name: [kind for cell in stored(name).cells for kind in _kinds(cell)]
        for name in make_notebooks.NAMES
    }
    assert "image/png" in shown["keras_digits"]
    assert shown["pipeline"].count("image/svg+xml") == 2
    assert "image/png" in shown["popxl_from_nothing"]


def _kinds(cell):
    return [kind for output in cell.get("outputs", ()) for kind in output.get("data", ())]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\nb\n", "a\nb\n"),
        ("1/4 [=...]\r2/4 [==..]\n", "2/4 [==..]\n"),
        ("1/4 long\b\b\b\b\b\b\b\b\r4/4\n", "4/4 long\n"),
        ("ab  \n\rc", "ab\nc"),
    ],
)
def test_stored_output_equals_final_screen(written, shown):
    assert make_notebooks.screen_text(written) == shown


def test_a_cell_that_raises_is_an_error(tmp_path):
    source = tmp_path / "wrong.py"
    source.write_text(
        '"""Ignored."""\n\n# %% [markdown]\n# Text\n\n# %%\n1 / 0\n', encoding="utf-8"
    )
    notebook = make_notebooks.read_source(source)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        ("markdown", "Text"),
        ("code", "1 / 0"),
    ]
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        make_notebooks.run(notebook)


@pytest.mark.parametrize("printed", ["1", "2"])
def test_report_is_redrawn_if_shown_values_changed(monkeypatch, printed):
    def notebook(text, **shown):
        output = nbformat.v4.new_output("execute_result", {"text/plain": "report", **shown})
        cells = [nbformat.v4.new_code_cell(source, id=source) for source in ("report", "number")]
        cells[0].outputs = [output]
        cells[1].outputs = [nbformat.v4.new_output("stream", text=text)]
        return nbformat.v4.new_notebook(cells=cells)

    monkeypatch.setattr(make_notebooks, "_picture", lambda page: b"new")
    stored = notebook("1", **{"image/png": "old"})
    run = notebook(printed, **{"text/html": '<iframe srcdoc="page">'})
    (shown,) = make_notebooks.with_stored(run, stored).cells[0].outputs
    drawn = "old" if printed == "1" else "bmV3\n"
    assert shown.data == {"text/plain": "report", "image/png": drawn}
