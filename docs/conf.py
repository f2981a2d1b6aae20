"""The documentation as a site: `make docs` builds `docs/` with Sphinx, and a warning is an error."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "wfcore"
author = "The wfcore developers"
version = release = version_of("wfcore")
language = "en"

extensions = ["myst_parser", "sphinx_parts.outside", "sphinx_parts.pictures", "sphinx_parts.generated"]
exclude_patterns = ["sphinx_parts"]
show_warning_types = True

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence"]
highlight_language = "text"

html_theme = "furo"
html_title = f"wfcore {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
