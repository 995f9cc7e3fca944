# Needs Python 3.11 or newer, git, make and gcc; everything else is installed into .venv from the lock file.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
# More than cores: many tests wait for servers that they have stopped.
WORKERS ?= 3

.PHONY: up setup test bench lint format page clean

# On one's own machine the chat needs no key; other sites and other machines are refused (docs/architecture/chat.md).
up: export SLIPWAY_CHAT_WITHOUT_KEY ?= true
up: setup ## Start everything; Ctrl-C stops it
	@exec $(BIN)/slipway up

setup: $(INSTALLED) ## Install what is needed; does nothing when nothing changed

$(INSTALLED): uv.lock pyproject.toml runtime/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Slipway needs Python 3.11 or newer; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet "uv>=0.13"
	@$(BIN)/uv sync --quiet --locked --all-packages
	@touch $@

test: lint ## Everything that must hold
	# Once again for a test that failed: hundreds of them wait for real servers on whatever machine this is. What was run
	# again is counted in the last line; a test that needs it often is a defect.
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --reruns 1

bench: setup ## Every figure of docs/PERFORMANCE.md, on a stack of its own; half an hour
	$(BIN)/python -m bench

lint: setup ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

page: ## Build the chat page into the package; needs Node and npm
	cd web && npm install --no-fund --no-audit && npm run build

clean: ## Remove the environment; state in .slipway stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
