"""Makes and runs the notebooks: `python docs/make_notebooks.py [NAME ...] [--check]`.

A source is `docs/notebooks/NAME.py`, in the percent format that editors and jupytext know: a line
`# %%` begins a cell of code, `# %% [markdown]` one of text. The notebook beside it is the source,
with what its cells show. With `--check` nothing is written, and a notebook that is out of date, or
a cell that raises, is an error. What differs from run to run, such as times of the host, is not
compared, and is not written anew.

A report fills a frame in a notebook that is open. In the stored notebook there is a picture of it,
which is drawn with Chromium when the report changes.
"""

from __future__ import annotations

import argparse
import base64
import copy
import difflib
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbclient
import nbformat
from nbformat.notebooknode import NotebookNode

FOLDER = Path(__file__).with_name("notebooks")
NAMES = ("keras_digits", "pipeline", "popxl_from_nothing")

_CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_SECONDS = 300
_PICTURE_SIZE = {"width": 1000, "height": 700}
# Times of the host, and when a report was made.
_VARIES = re.compile(r"\d+(\.\d+)?[mu]?s(/step|/epoch)?|\d+\.\d+ s\b|created='[^']*'|- ETA: [\d:]+")


def read_source(path: Path) -> NotebookNode:
    """Returns the notebook of a source, without outputs.

    Args:
        path: a Python file in the percent format.
    """
    notebook = nbformat.v4.new_notebook()
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    # What stands before the first cell is for who reads the source.
    _, *parts = _CELL.split(path.read_text(encoding="utf-8"))
    for markdown, text in zip(parts[::2], parts[1::2]):
        text = text.strip()
        if markdown:
            cell = nbformat.v4.new_markdown_cell(re.sub(r"^# ?", "", text, flags=re.MULTILINE))
        else:
            cell = nbformat.v4.new_code_cell(text)
        # Of the contents, so that a new cell changes no others.
        cell.id = hashlib.sha256(text.encode()).hexdigest()[:12]
        notebook.cells.append(cell)
    return notebook


def run(notebook: NotebookNode) -> NotebookNode:
    """Returns a notebook with its cells' outputs, in the stored form.

    Args:
        notebook: what `read_source` returns.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell raises.
    """
    notebook = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory() as folder:
        # Neither the user's settings nor those of an editor have a part in it.
        os.environ.update(IPYTHONDIR=f"{folder}/ipython", JUPYTER_RUNTIME_DIR=f"{folder}/runtime")
        client = nbclient.NotebookClient(
            notebook,
            timeout=_SECONDS,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = list(_merged(cell.outputs))
    return notebook


def _merged(outputs: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yields outputs, with consecutive texts of one stream merged."""
    stream: NotebookNode | None = None
    for output in outputs:
        if stream is not None and output.get("name") == stream.name:
            stream.text += output.text
            continue
        if stream is not None:
            yield _on_screen(stream)
        stream = output if output.output_type == "stream" else None
        if stream is None:
            yield output
    if stream is not None:
        yield _on_screen(stream)


def _on_screen(stream: NotebookNode) -> NotebookNode:
    """Returns a stream as shown on a screen: progress bars overwrite themselves."""
    stream.text = screen_text(stream.text)
    return stream


def screen_text(text: str) -> str:
    """Applies CR and backspace to a text, as a notebook displays it.

    Args:
        text: what a program wrote.
    """
    shown = []
    for line in text.split("\n"):
        characters: list[str] = []
        at = 0
        for character in line:
            if character == "\r":
                at = 0
            elif character == "\b":
                at = max(at - 1, 0)
            else:
                characters[at : at + 1] = character
                at += 1
        shown.append("".join(characters).rstrip())
    return "\n".join(shown)


def with_stored(notebook: NotebookNode, stored: NotebookNode | None) -> NotebookNode:
    """Returns a notebook with the outputs of the stored one where nothing of meaning differs.

    Args:
        notebook: what was run.
        stored: what is in the file; None if there is none.
    """
    known = {cell.id: cell for cell in stored.cells} if stored else {}
    same = {
        cell.id: cell.id in known and _meaning(known[cell.id]) == _meaning(cell)
        for cell in notebook.cells
    }
    for cell in notebook.cells:
        before = known.get(cell.id)
        # The text of a report says little of it: it is the same if all that is printed is.
        if before is not None and same[cell.id] and (all(same.values()) or not _has_page(cell)):
            cell.outputs = before.outputs if cell.cell_type == "code" else []
        if cell.cell_type == "code":
            cell.outputs = [_with_picture(output) for output in cell.outputs]
        else:
            cell.pop("outputs", None)
    return notebook


def _meaning(cell: NotebookNode) -> str:
    """Returns the compared parts of a cell: its text, and its outputs as text."""
    shown = [cell.source]
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        shown.append(_VARIES.sub("~", output.get("text", "") or data.get("text/plain", "")))
        # A picture that is drawn from the same numbers is the same.
        shown.append(data.get("image/svg+xml", ""))
    return "\n".join(shown)


def _page(output: NotebookNode) -> str:
    """Returns the page of a report that an output shows, empty if it shows none."""
    page = str(output.get("data", {}).get("text/html", ""))
    return page if "<iframe srcdoc=" in page else ""


def _has_page(cell: NotebookNode) -> bool:
    return any(_page(output) for output in cell.get("outputs", ()))


def _with_picture(output: NotebookNode) -> NotebookNode:
    """Replaces a report's page in an output by a picture."""
    page = _page(output)
    if page:
        del output.data["text/html"]
        output.data["image/png"] = base64.b64encode(_picture(page)).decode() + "\n"
    return output


def _picture(page: str) -> bytes:
    """Renders HTML in a browser and returns it as PNG."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport=_PICTURE_SIZE, color_scheme="light")
        tab.set_content(page)
        tab.wait_for_timeout(500)
        picture = tab.screenshot()
        browser.close()
    return picture


def renew(name: str, check: bool) -> list[str]:
    """Runs a notebook, and renews or checks the stored one.

    Args:
        name: of the notebook.
        check: whether to write nothing.

    Returns:
        What differs, as lines; nothing if it was renewed.
    """
    path = FOLDER / f"{name}.ipynb"
    stored = nbformat.read(path, as_version=4) if path.exists() else None
    made = run(read_source(path.with_suffix(".py")))
    if check:
        before = [_meaning(cell) for cell in stored.cells] if stored else []
        after = [_meaning(cell) for cell in made.cells]
        lines = ("\n".join(cells).splitlines() for cells in (before, after))
        return list(difflib.unified_diff(*lines, "stored", "run", lineterm=""))
    made = with_stored(made, stored)
    nbformat.validate(made)
    path.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
    return []


def main() -> None:
    """Renews the notebooks, or checks them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, help="notebooks; all of them if none")
    parser.add_argument("--check", action="store_true", help="write nothing, and compare")
    arguments = parser.parse_args()
    failed = False
    for name in arguments.names:
        differences = renew(name, arguments.check)
        print(*differences, sep="\n", end="\n" * bool(differences))
        failed |= bool(differences)
    if failed:
        sys.exit("out of date: run python docs/make_notebooks.py")


if __name__ == "__main__":
    main()
