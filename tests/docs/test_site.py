"""Tests that the site is built without a warning, and that its search works without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.checkout.repository import ROOT
from tests.support.reports import browser as browsers

# Pages as they are, two of which show files of the repository; of the others only the titles.
PAGES = ("index.md", "names.md", "overview.md", "numerics.md", "contributing.md")
MODULE = "tensorflow.python.ipu.nn_ops"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site with some pages, and the reference of one module."""
    pytest.importorskip("furo", reason="needs the extra `docs`")
    checkout = tmp_path_factory.mktemp("site") / "checkout"
    docs = checkout / "docs"
    shutil.copytree(ROOT / "docs" / "sphinx_ext", docs / "sphinx_ext")
    shutil.copytree(ROOT / "docs" / "pictures", docs / "pictures")
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs"))
        text = page.read_text(encoding="utf-8") if name in PAGES else f"# {page.stem}\n"
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    for name in ("README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, checkout)
    built = checkout / "built"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    settings = ["-D", f"reference_modules={MODULE}", "-d", str(checkout / "doctrees")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [*command, *settings, str(docs), str(built)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return built


def test_names_on_pages_lead_to_reference_and_back(site):
    page = (site / "api" / f"{MODULE}.html").read_text(encoding="utf-8")
    assert f'id="{MODULE}.ctc_loss_v2"' in page
    assert f'href="#{MODULE}.ctc_loss_v2"' in page, "the table of names links"
    assert "tensorflow_ipu.ops.ctc" not in re.sub("<[^>]+>", "", page), "names are the public ones"
    names = (site / "names.html").read_text(encoding="utf-8")
    assert f'href="api/{MODULE}.html#module-{MODULE}"' in names


def test_arguments_results_and_errors_are_shown(site):
    page = (site / "api" / f"{MODULE}.html").read_text(encoding="utf-8")
    gelu = page[page.index(f'id="{MODULE}.gelu"') : page.index(f'id="{MODULE}.hard_sigmoid"')]
    text = re.sub("<[^>]+>", "", gelu)
    assert re.search(r"Parameters:\s+x\s+– a tensor of floats", text)
    assert re.search(r"Returns:\s+A tensor like x\.", text)
    assert re.search(r"Raises:\s+TypeError\s+– x has another type", text)


def test_the_page_of_a_command_shows_its_options(site):
    text = re.sub("<[^>]+>", "", (site / "api" / "poprun.html").read_text(encoding="utf-8"))
    assert "--num-instances" in text and "processes to start" in text


def test_search_finds_a_name_without_a_network(site):
    with browsers.launched() as browser, browsers.opened(browser, site / "index.html") as page:
        page.set_default_timeout(30_000)
        page.fill("input[name=q]", "ctc_loss_v2")
        page.press("input[name=q]", "Enter")
        page.wait_for_selector("ul.search li a")
        results = page.locator("ul.search li a")
        assert f"{MODULE}.ctc_loss_v2" in results.all_inner_texts()
        results.filter(has_text=f"{MODULE}.ctc_loss_v2").first.click()
        page.wait_for_selector("h1:has-text('ipu.nn_ops')")


def test_search_finds_a_word_of_a_page(site):
    with browsers.launched() as browser, browsers.opened(browser, site / "search.html") as page:
        page.set_default_timeout(30_000)
        page.goto(f"{page.url.split('#')[0]}?q=stochastic")
        page.wait_for_selector("ul.search li a")
        assert "Numerics" in page.locator("ul.search li a").all_inner_texts()


def test_search_ranks_guides_before_the_project_pages(site):
    names = ["keras", "guides/host_embeddings", "errors", "api/ipu.embedding_ops", "changelog"]
    titles = ["Keras", "Host embeddings", "Errors", "ipu.embedding_ops", "Changelog"]
    rank = "([page, title]) => Scorer.score([page, title, '', null, 15, `${page}.md`])"
    with browsers.launched() as browser, browsers.opened(browser, site / "search.html") as page:
        page.goto(f"{page.url.split('#')[0]}?q=host+embedding")
        scores = [page.evaluate(rank, list(each)) for each in zip(names, titles)]
        name = page.evaluate("Scorer.score(['api/x', 'x.HostEmbedding', '#x', '', 15, ''])")
    keras, guide, errors, module, project = scores
    assert guide > keras > errors == module > name > project


def test_the_landing_page_leads_to_the_reference(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(r'href="api/index.html"[^>]*>(<[^>]+>)*the API reference', text)
