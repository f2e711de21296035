"""The docs as a site: pages of this repository in, HTML with search out (docs/adr/0064)."""
