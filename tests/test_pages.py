"""The code of the README and of each page of the docs runs, from the top of the page down."""

import re
import shlex
from pathlib import Path

import pytest

from tf_layernorm import cli
from tf_layernorm.experiments import runner

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for name in re.findall(r"runs/(\w+)-small/curves", "".join(blocks(page, "python"))):
        runner.run(name, "smoke", out=f"runs/{name}-small")  # that the page goes on from
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def commands(page: Path) -> list[str]:
    """The lines of the page's shell blocks, each command of a line by itself."""
    lines = "\n".join(blocks(page, "bash")).splitlines()
    return [part.strip() for line in lines for part in line.split("#")[0].split("&&")]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "bash")], ids=lambda page: page.stem
)
def test_commands_of_a_page_are_known(page):
    for command in commands(page):
        program, *arguments = shlex.split(command) or [""]
        if program == "tf-layernorm" and "--help" not in arguments:
            cli.build_parser().parse_args(arguments)
        if program == "python" and arguments[0].endswith(".py"):
            assert (ROOT / arguments[0]).exists(), command


def test_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 9_000


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text())
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
