"""Sphinx' settings: `python -m sphinx -W --keep-going docs build/docs` makes the site.

The README is its first page, the notebooks are pages as they were last run, and the reference comes
from the docstrings. Formulas become MathML, so that the site needs no network to be read.
"""

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import tf_layernorm

HERE = Path(__file__).parent
project = "tf_layernorm"
author = "the tf_layernorm authors"
copyright = author
version = release = tf_layernorm.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"tf_layernorm {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sphinx = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say more
autodoc_default_options = {
    "exclude-members": "get_config, from_config, build, build_from_config, compute_output_shape"
}
autodoc_class_signature = "mixed"
napoleon_custom_sections = [("Call arguments", "params_style"), ("Weights", "params_style")]
napoleon_custom_sections += ["Input shape", "Output shape", "Masking", "Stateful"]
napoleon_use_rtype = False
napoleon_use_ivar = True


def copy_notebooks() -> None:
    """The notebooks beside the pages, with their pictures found from there."""
    shutil.rmtree(HERE / "notebooks", ignore_errors=True)
    (HERE / "notebooks").mkdir()
    for path in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        text = path.read_text().replace("](../docs/", "](../")
        (HERE / "notebooks" / path.name).write_text(text)


MARKDOWN = re.compile(
    r"(?ms)^(?P<indent> *)\$\$(?P<block>.+?)\$\$"
    r"|``.+?``|`(?P<code>[^`]+)`"
    r"|(?<!\w)\$(?P<formula>[^$]+)\$"
    r"|\[(?P<text>[^\]]+)\]\((?P<url>https?://[^)\s]+)\)"
)


def markdown_to_rst(text: str) -> str:
    """The little Markdown that the docstrings use, and Keras' do, as reStructuredText."""

    def replace(match: re.Match[str]) -> str:
        part = {name: value for name, value in match.groupdict().items() if value is not None}
        if "block" in part:
            indent = part["indent"]
            lines = [f"{indent}    {line.strip()}" for line in part["block"].strip().splitlines()]
            return "\n".join([f"{indent}.. math::", "", *lines, ""])
        if "code" in part:
            return f"``{' '.join(part['code'].split())}``\\ "
        if "formula" in part:
            return f":math:`{' '.join(part['formula'].split())}`\\ "
        if "url" in part:
            return f"`{' '.join(part['text'].split())} <{part['url']}>`__"
        return match.group()

    return MARKDOWN.sub(replace, text)


def process_docstring(
    app: Any, what: str, name: str, symbol: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = markdown_to_rst("\n".join(lines)).splitlines()


def process_signature(
    app: Any, what: str, name: str, symbol: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Keras gives its classes a `__new__(*args, **kwargs)`; their own arguments are of interest."""
    if what != "class":
        return None
    shown = inspect.signature(symbol)
    parameters = [p.replace(annotation=p.empty) for p in shown.parameters.values()]
    return str(shown.replace(parameters=parameters, return_annotation=shown.empty)), returned


def mathml(node: Any, as_block: bool) -> str:
    return tex2mathml(node.astext().replace(r"\dots", r"\ldots"), as_block=as_block)


def write_inline(translator: Any, node: Any) -> None:
    translator.body.append(mathml(node, as_block=False))
    raise SkipNode


def write_block(translator: Any, node: Any) -> None:
    translator.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    copy_notebooks()
    # Before napoleon, which takes the sections apart.
    app.connect("autodoc-process-docstring", process_docstring, priority=100)
    app.connect("autodoc-process-signature", process_signature)
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
