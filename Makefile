# Everything a newcomer needs; each target sets up what is missing and does no work twice.
#   make demo [FILE=film.mp4]   make run   make test   make bench   make check   make soak   make package
#   make corpus DIR=films       make fuzz MINUTES=10

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
HLS_JS := .judges/node_modules/hls.js/package.json
FILE ?=
DIR ?=

MINUTES ?= 10

.PHONY: demo run test check bench soak corpus fuzz package clean system judges

demo: $(READY) system
	$(BIN)/hearthreel demo $(if $(FILE),"$(FILE)")

run: $(READY) system
	$(BIN)/hearthreel

# What CI runs, fastest first.
test: $(READY) system judges check
	QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -q

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: $(READY) system
	$(BIN)/python -m tests.bench

# Histories of many devices with lossy networks, crashes and restores, on the real queue code, for MINUTES minutes.
soak: $(READY)
	$(BIN)/python -m tests.simulation --minutes $(MINUTES)

# Makes a film of every file in DIR (or of inputs of our own) and compares it with its source; one line for each.
corpus: $(READY) system
	@packaging/install-system-libraries ffmpeg
	$(BIN)/python -m tests.corpus $(if $(DIR),"$(DIR)")

# Breaks small films for MINUTES minutes and sees what the media child does with them; keeps what fails in .fuzz/.
fuzz: $(READY) system
	@packaging/install-system-libraries ffmpeg
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

# One folder under dist/ with the program and all it needs; it must play a film before it counts as built.
package: $(READY) system
	$(BIN)/pyinstaller --noconfirm --log-level WARN packaging/hearthreel.spec
	@packaging/check-package dist/hearthreel/hearthreel

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hearthreel needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(READY)

# Libraries that Qt needs on Debian and Ubuntu; installed only as root, and only what is missing.
system:
	@packaging/install-system-libraries

# The players that judge results: hls.js from npm, Chromium and ffmpeg from the system.
judges: $(HLS_JS)
	@packaging/install-system-libraries ffmpeg chromium

$(HLS_JS):
	npm install --prefix .judges --no-save --no-package-lock --no-audit --no-fund --silent hls.js@1.6

clean:
	rm -rf $(VENV) .demo .judges .bench build dist *.egg-info
