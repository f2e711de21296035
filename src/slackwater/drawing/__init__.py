"""Pictures as SVG text: one page, one style sheet, and the pieces of all charts."""
