"""Sphinx's settings for the site; tools.docs runs it on the staged pages."""

project = "Slackwater"
copyright = "the Slackwater authors, Apache-2.0"  # noqa: A001
extensions = ["myst_parser"]
# As GitHub makes them of headings, so that links with an anchor work in both places.
myst_heading_anchors = 4
# Indented blocks are commands, outputs and YAML; a wrong guess would colour words at random.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
html_theme = "furo"
html_title = "Slackwater"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
