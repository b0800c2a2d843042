# make demo: everything from nothing to a trained model, on data that ships with scikit-learn
# make test: lint, types and tests. Both set up .venv first, and re-use it when it is there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types tests bench faults house tables docs notebooks format clean

demo: $(VENV)/installed
	$(BIN)/python examples/few_labels.py

test: lint types tests

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	$(BIN)/mypy

# one thread per worker: two workers on two cores are faster than two threads each
tests: $(VENV)/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

# speed on this machine, beside other libraries where they are installed (benchmarks/peers)
bench: $(VENV)/installed
	$(BIN)/python -m benchmarks.speed

# attacks on files and processes, with counts; ends with a table whose last column is 0
faults: $(VENV)/installed
	$(BIN)/python -m benchmarks.faults

# the package on one page: folders in the flow of data, files, lines
house:
	@$(PYTHON) tests/house.py

# the paper's tables in README.md and docs/, from the result.json files in results/
tables: $(VENV)/installed
	$(BIN)/python results/publish.py

# the documentation as a site, in site/; a warning is an error
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# run the notebooks in docs/notebooks, and store what they print and show
notebooks: $(VENV)/installed
	$(BIN)/python docs/notebooks/execute.py

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) runs site .mypy_cache .pytest_cache .ruff_cache .hypothesis
