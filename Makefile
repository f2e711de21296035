# Everything a person or a CI needs, by name. It takes Python >= 3.11, make and a shell;
# tools/setup.py fetches the rest. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help test check cluster demo docs bench house assurance versions release clean have-python

help: ## this list
	@sed -n 's/^\([a-z][a-z]*\):[^#]*## \(.*\)/  make \1#\2/p' Makefile | while IFS='#' read -r name what; do printf '%-14s %s\n' "$$name" "$$what"; done

test: have-python ## every test, on real kernels too; ARGS="--stage unit" for a part
	@$(PYTHON) -m tools.setup test
	@$(VENV)/python -m tools.run_tests $(ARGS)

check: have-python ## the fast half: lint, types, layers and unit tests, under a minute
	@$(PYTHON) -m tools.setup check
	@$(VENV)/python -m tools.run_tests --fast $(ARGS)

cluster: have-python ## a real cluster with a node on this machine, until Ctrl-C; ARGS="--kwok 100 --name b"
	@$(PYTHON) -m tools.setup cluster
	@$(VENV)/python -m tools.cluster run --node $(ARGS)

demo: have-python ## a service, a hog and the agent on this machine, for a minute; a picture
	@$(PYTHON) -m tools.setup demo
	@$(VENV)/slackwater demo $(ARGS)

docs: have-python ## all pages as a site with search, in build/docs; broken links are errors
	@$(PYTHON) -m tools.docs $(ARGS)

bench: have-python ## every program in benchmarks/, one after another
	@$(PYTHON) -m tools.setup check
	@status=0; found=0; for program in benchmarks/[!_]*.py; do \
		[ -e "$$program" ] || continue; found=1; \
		echo "bench: $$program"; PYTHONPATH=. $(VENV)/python "$$program" || status=1; \
	done; \
	[ $$found = 1 ] || echo "bench: there are no programs in benchmarks/"; exit $$status

house: have-python ## the shape of the source tree, measured; ARGS=--places lists what was counted
	@$(PYTHON) -m tools.house $(ARGS)

assurance: have-python ## what security and reliability promise, each figure measured now
	@$(PYTHON) -m tools.setup check
	@PYTHONPATH=. $(VENV)/python -m tools.assurance $(ARGS)

versions: have-python ## cluster tests with the oldest Kubernetes that the docs promise
	@$(PYTHON) -m tools.setup cluster
	@$(VENV)/python -m tools.run_tests --stage kubernetes-1.30 $(ARGS)

release: have-python ## wheel, images, SBOMs and checksums, made twice, into dist; ARGS="--base sha256:..."
	@$(PYTHON) -m tools.setup test
	@PYTHONPATH=. $(VENV)/python -m tools.release $(ARGS)

clean: ## removes what make made in this folder; downloads in the cache folder stay
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

have-python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "setup: $(PYTHON) is not installed; Slackwater needs Python 3.11 or newer." >&2; exit 2; }
