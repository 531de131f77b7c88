"""The configuration of Sphinx, with which `make docs` builds the site from `docs/`.

Invariant: the site loads no fonts, scripts or pictures of other hosts. Pages stay plain Markdown: tables of contents
and the reference are inserted while Sphinx reads them.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

SITE = Path(__file__).resolve().parent
PAGES = SITE.parent
sys.path.insert(0, str(PAGES.parent))

import holdfast  # noqa: E402  # found by the paths above

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Holdfast"
author = "the authors of Holdfast"
version = release = holdfast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
smartquotes = False  # quoted texts are often commands

myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}
autodoc_preserve_defaults = True
napoleon_use_rtype = False
python_display_short_literal_types = True
highlight_language = "text"

html_theme = "furo"
html_title = f"Holdfast {release}"
html_static_path = [str(SITE / "static")]
html_css_files = ["holdfast.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

NAVIGATION = {
    "Start": ["tutorial", "dashboard", "notebooks", "notebooks/index", "notebooks/README"],
    "How to": [
        *(
            "how_to/files",
            "how_to/kafka_json",
            "how_to/kafka_upsert",
            "how_to/debezium",
            "how_to/debezium_unwrapped",
            "how_to/delta",
        ),
        *(
            "how_to/rules",
            "how_to/queries",
            "how_to/near",
            "alerts_and_metrics",
            "how_to/pipelines",
            "how_to/discover",
            "how_to/replay",
        ),
        *("how_to/python", "operations", "evolution", "clusters", "scaling"),
    ],
    "Reference": [
        *("semantics", "reference/commands", "reference/configuration", "reference/tables"),
        *("reference/python", "reference/errors", "limits"),
    ],
    "How it works": [
        *("explanation/evidence", "explanation/certificate", "explanation/search", "explanation/order"),
        *("explanation/inclusion", "explanation/counting", "explanation/commit"),
        *("architecture", "streaming", "algorithms/denial", "algorithms/order", "algorithms/near"),
        *("algorithms/inclusion", "algorithms/rules", "reliability", "security"),
    ],
    "Background": ["comparison", "decisions", "references", "contributing"],
}
"""The pages by section. A page that does not exist is left out; a page without a section breaks the build."""


def setup(app: "Sphinx") -> None:
    """Register the functions that fill pages and convert docstrings."""
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _as_restructured, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", _without_private)


def _fill(app: "Sphinx", name: str, source: list[str]) -> None:  # noqa: ARG001  # Sphinx's form of a callback
    from docs.site.reference import filled

    source[0] = filled(source[0])
    if name == "index":
        source[0] += "\n" + "\n".join(_contents(title, pages) for title, pages in NAVIGATION.items())


def _as_restructured(app: "Sphinx", what: str, name: str, thing: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    """Convert docstrings for Sphinx: parameters have descriptions and no types, and single backticks are code."""
    text, examples, rest = "\n".join(lines).partition("\nExamples\n")
    text = re.sub(r"(?<!`)`([^`\n]+)`(?!`)(\w?)", lambda m: f"``{m[1]}``" + (f"\\ {m[2]}" if m[2] else ""), text)
    head, parameters, described = text.partition("\nParameters\n----------\n")
    described = re.sub(r"^([\w, *]+) : (.*)$", r"\1\n    \2", described, flags=re.MULTILINE)
    lines[:] = (head + parameters + described + examples + rest).split("\n")


def _without_private(
    app: "Sphinx",  # noqa: ARG001
    what: str,
    name: str,  # noqa: ARG001
    thing: object,  # noqa: ARG001
    options: object,  # noqa: ARG001
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Remove the constructor arguments of classes that only Holdfast creates."""
    return ("", returned) if what == "class" and ", _" in (signature or "") else (signature, returned)


def _contents(title: str, pages: list[str]) -> str:
    there = [page for page in pages if (PAGES / f"{page}.md").is_file()]
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *there, "```", ""])
