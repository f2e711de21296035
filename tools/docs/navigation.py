"""What the site shows, and in which order: every page once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chapter:
    """`pages` are paths in the repository; a folder stands for all pages in it, sorted."""

    title: str
    pages: tuple[str, ...]


#: The site's first page.
FRONT = "README.md"
CHAPTERS = (
    Chapter("Learn", ("docs/tutorial.md",)),
    Chapter(
        "Do",
        (
            "docs/install.md",
            "docs/how-to",
            "docs/latency-objective.md",
            "docs/user-defined-metrics.md",
            "docs/cpu-sets.md",
            "docs/normalization.md",
            "docs/dashboards.md",
        ),
    ),
    Chapter("Runbooks", ("docs/runbooks/README.md", "docs/runbooks")),
    Chapter("Look up", ("docs/reference/index.md", "docs/reference")),
    Chapter(
        "Understand",
        (
            "ARCHITECTURE.md",
            "docs/threat-model.md",
            "docs/measurements.md",
            "docs/differences.md",
            "GLOSSARY.md",
            "docs/adr",
        ),
    ),
    Chapter("Work on it", ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
)
