.PHONY: check test format docs

check:   ## everything that must hold before a change lands
	.ci/run

test:    ## the fast suite, in the environment that the README makes
	.venv/bin/python -m pytest

format:
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

docs:
	.venv/bin/mkdocs serve
