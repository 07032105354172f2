"""The tables of the documentation are those of the results."""

import importlib.util
from pathlib import Path

import pytest

# By its path: the installed package is tested, so modules aren't looked for in the repository.
FILE = Path(__file__).parents[1] / "benchmarks" / "tables.py"
spec = importlib.util.spec_from_file_location("tables", FILE)
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)


@pytest.mark.parametrize("path", list(tables.pages()), ids=lambda path: path.name)
def test_tables_of_a_page_are_not_stale(path):
    text = path.read_text()
    assert tables.rewritten(text) == text, "run `python -m benchmarks.tables`"


@pytest.mark.parametrize("name", tables.names())
def test_every_table_is_whole_and_says_where_and_when(name):
    *lines, empty, measured = tables.table(name).splitlines()
    assert len({line.count("|") for line in lines}) == 1 and len(lines) > 2 and not empty
    assert measured.startswith("(") and measured[-5:-1].replace("-", "").isdigit()


def test_a_marked_table_is_replaced_and_the_rest_left():
    page = "before\n<!-- table: speed -->\n| old |\n<!-- end -->\nafter\n"
    text = tables.rewritten(page)
    assert text == f"before\n<!-- table: speed -->\n{tables.table('speed')}<!-- end -->\nafter\n"
    assert "old" not in text and tables.rewritten(text) == text
    with pytest.raises(ValueError, match="Received: 'sped'"):
        tables.rewritten(page.replace("speed", "sped"))


def test_speed_is_the_geometric_mean_of_the_files_own_times():
    assert tables.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    text = tables.speed({"times_fused": {"LSTM train": {"Keras plain": 1.407}}})
    assert text.splitlines()[-1] == "| Keras' layer, no norm | 1.41 |"
