# make        lists the targets
# make run    is all that a first look needs

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The Python that .venv is made from: 3.11 to 3.13.
PYTHON ?= python3
# More words for `kedro run`: make run ARGS="--pipelines=ingestion --namespaces=dms_sample.person"
ARGS   ?=
# Options of the two benchmarks: make bench BENCH="--scale 10" BENCH_HISTORY="--keys 100000"
BENCH         ?=
BENCH_HISTORY ?=
# FORCE=1 lets clean-lake go ahead without asking.
FORCE  ?= 0
# How many commits `make crash` kills.
KILLS  ?= 200
# How many schedules `make simulate` runs, from which seed; without one the machine picks it.
SCHEDULES ?= 20000
SEED      ?=
# What test-slow runs: SLOW="slow or delta" runs test-delta's in the same run.
SLOW   ?= slow
# A file of cases for `make conformance`, by default the bundled ones; and the format of the tables, of `make crash` too.
CASES  ?=
FORMAT ?=

# What .venv and .venv-spark35 hold of the optional dependencies in pyproject.toml, beside a line of Spark.
EXTRAS := delta viz quality lineage aws deploy lance opensearch console docs dev

# What is run on Spark 3.5, which takes less than all tests take: SPARK35_TESTS=tests/spark names all but slow ones.
SPARK35_TESTS ?= tests/spark/test_smoke.py tests/spark/test_changes.py

# What a soak runs whole beside properties and rules.
IN_SOAK := tests/compat tests/contract/test_formats.py \
  $(addprefix tests/e2e/test_,bundled_data.py erasure_example.py dimension.py fifty_tables.py kinds_of_tables.py looking.py tutorial.py wide_tables.py) \
  $(wildcard tests/spark/test_small_batches*.py) \
  $(addprefix tests/spark/test_,canaries.py debezium_types.py delta.py derive.py derived_by_keys.py enrichment.py erasure.py erasure_requests.py extract_lives.py \
    extract_options.py few_messages.py lifetimes.py plan.py quality.py repair.py touched_keys.py) tests/unit/test_query_shape.py \
  tests/unit/test_json_schema.py

# One Spark waits for its driver most of the time: a second one beside it takes what is left of two cores.
TWO := -n 2 --dist loadfile --no-loadscope-reorder
# What each test took, for bench/lane_times.py.
RECORDED = --junitxml=.cache/tests/$@.xml

BIN := .venv/bin
BIN35 := .venv-spark35/bin
# Hudi has a line of Spark of its own.
BIN_OF_FORMAT := $(if $(filter hudi,$(FORMAT)),$(BIN35),$(BIN))
LANE          := $(if $(filter hudi,$(FORMAT)),classes-spark35,classes jars-delta)
# Shows what a step says in one line, which moves while it works.
SHOW := $(PYTHON) bin/progress.py
UV  := UV_PYTHON_DOWNLOADS=never $(BIN)/uv
COMPILE := $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes

export GX_ANALYTICS_ENABLED     := false
export DO_NOT_TRACK             := 1
export KEDRO_DISABLE_TELEMETRY  := 1
# Without compiled modules each of the hundred processes that the tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: setup jars model ## Set up, then run every pipeline on the data in data/01_raw
	@$(SHOW) --text "Running the pipelines (some 90 s the first time, then 15 s) ..." $(BIN)/kedro run $(ARGS)
	@if [ ! -e .cache/next-steps.told ]; then cat bin/next-steps.txt; touch .cache/next-steps.told; fi

.PHONY: test
test: classes jars-delta model ## Run the tests, two files at a time; slow ones and those of Delta, Hudi, AWS are below
	@KEDRO_LAKEHOUSE_CASES=beside-rules $(BIN)/pytest $(TWO) $(RECORDED)

.PHONY: test-slow
test-slow: classes jars-delta model ## Run what takes long: options, types, quality, repairs, upkeep, derived tables, the examples
	@$(UV) pip install -q --require-hashes --no-deps --python $(BIN)/python -r requirements/axe.txt
	@$(BIN)/pytest $(TWO) $(RECORDED) -m "$(SLOW)"

.PHONY: test-spark35
test-spark35: jars-spark35 ## Run the part of the tests that proves the second line, Spark 3.5 with Hudi
	@$(BIN35)/pytest $(TWO) $(RECORDED) $(SPARK35_TESTS)
	@KEDRO_LAKEHOUSE_FORMAT=hudi $(BIN35)/pytest $(TWO) --junitxml=.cache/tests/test-hudi.xml tests/hudi

.PHONY: test-delta
test-delta: classes jars-delta model ## Prove Delta: the suite of every format, small batches, some of the contract's cases
	@$(BIN)/pytest $(TWO) $(RECORDED) -m delta

.PHONY: test-aws
test-aws: setup jars-aws ## Run the default pipeline with --env=aws, leases and deploy on moto's S3 and Glue
	@$(BIN)/pytest $(TWO) $(RECORDED) -m aws tests/aws tests/contract

# What the lanes need that `make run` does not: fetching and unpacking leave a core to mypy (make -j).
.PHONY: ready
ready: classes jars-delta jars-aws jars-spark35 ## Fetch and archive what the tests of all lanes need

.PHONY: test-cluster
test-cluster: classes model ## Run with --env=cluster on a master and two workers of Spark standalone; kill one
	@$(BIN)/pytest $(RECORDED) -m cluster tests/cluster

# Their packages and the servers' jars are no part of the default set-up: `.cache/ivy-servers` is filled by the tests.
.PHONY: test-streams
test-streams: classes jars-delta ## Make tables of topics: Kafka, Debezium on PostgreSQL and MariaDB, the loop; kill each once
	@$(UV) pip install -q --require-hashes --python $(BIN)/python -r requirements/streams.txt
	@$(BIN)/pytest $(TWO) $(RECORDED) -m streams tests/streams

# Their packages are no part of the default set-up either.
.PHONY: packages-sources
packages-sources: setup
	@$(UV) pip install -q --require-hashes --python $(BIN)/python -r requirements/sources.txt

.PHONY: test-sources
test-sources: classes packages-sources ## Pull from PostgreSQL, MariaDB, SQL Server, MongoDB and REST, and serve what was pulled
	@$(BIN)/pytest $(TWO) $(RECORDED) -m sources tests/sources

.PHONY: soak-streams
soak-streams: classes jars-delta ## 2,000 transactions in PostgreSQL and in MariaDB, whole and with ten kills of each part; 200 of customer_summary (40 minutes)
	@$(UV) pip install -q --require-hashes --python $(BIN)/python -r requirements/streams.txt
	@KEDRO_LAKEHOUSE_SOAK=1 $(BIN)/pytest -rP -m streams $$(grep -l harness.soak tests/streams/test_*.py)

.PHONY: soak-sources
soak-sources: classes packages-sources ## 2,000 transactions in each database while pulls run, 200 kills of each kind of source, 60 loads and a back-test, 500 moving pages, 100,000 documents
	@KEDRO_LAKEHOUSE_SOAK=1 KEDRO_LAKEHOUSE_KILLS=40 $(BIN)/pytest -rP -m sources \
	  $$(grep -lE "harness.soak|KEDRO_LAKEHOUSE_KILLS" tests/sources/test_*.py)

.PHONY: conformance
conformance: $(LANE) ## Run the contract's cases (CASES=file names others; FORMAT=delta or hudi)
	@KEDRO_LAKEHOUSE_SOAK=1 KEDRO_LAKEHOUSE_CASES="$(CASES)" KEDRO_LAKEHOUSE_FORMAT="$(FORMAT)" \
	  $(BIN_OF_FORMAT)/pytest tests/model tests/conformance

.PHONY: soak
soak: classes jars-delta classes-spark35 jars-aws jars-aws-spark35 ## Run what CI leaves out: 20,000 histories, all tables and options, AWS, a cluster
	@KEDRO_LAKEHOUSE_SOAK=1 $(BIN)/pytest -s -m cluster tests/cluster
	@KEDRO_LAKEHOUSE_SOAK=1 $(BIN)/pytest -s -m "not aws" tests/property tests/rules $(IN_SOAK)
	@KEDRO_LAKEHOUSE_SOAK=1 $(BIN)/pytest -s -m aws tests/aws tests/contract/test_ops_tables.py
	@$(BIN35)/pytest -s tests/spark/test_extracts.py
	@KEDRO_LAKEHOUSE_SOAK=1 KEDRO_LAKEHOUSE_FORMAT=hudi $(BIN35)/pytest -s tests/compat \
	  $(addprefix tests/hudi/test_,bundled_data.py notebook.py aws.py erasure.py lifetimes.py references.py)
	@KEDRO_LAKEHOUSE_SOAK=1 KEDRO_LAKEHOUSE_FORMAT=hudi $(BIN35)/pytest -s -m "not aws" \
	  tests/property/test_erasures.py tests/property/test_erased_lakes.py tests/e2e/test_erasure_example.py

.PHONY: crash
crash: $(LANE) ## Kill 200 commits (KILLS=N, FORMAT=delta or hudi) at every phase and at random times
	@KEDRO_LAKEHOUSE_KILLS=$(KILLS) KEDRO_LAKEHOUSE_FORMAT="$(FORMAT)" \
	  $(BIN_OF_FORMAT)/pytest -n 2 --dist load -rP tests/crash

.PHONY: faults
faults: classes jars-delta model ## Plant sixty faults one after the other, and run the tests that must find them
	@PYTHONPATH=src:tests $(BIN)/python -m faults

.PHONY: simulate
simulate: setup ## Run the commit protocol under random schedules, in memory (SCHEDULES=20000 SEED=n)
	@PYTHONPATH=src:tests $(BIN)/python -m simulator $(SCHEDULES) $(SEED)

.PHONY: demo-stream
demo-stream: classes model ## Follow a database (DEMO="--database mariadb"): Debezium, Kafka, the loop, the console, until Ctrl-C
	@$(UV) pip install -q --require-hashes --python $(BIN)/python -r requirements/streams.txt
	@$(BIN)/python examples/stream/demo.py $(DEMO)

.PHONY: demo-erasure
demo-erasure: classes ## Erase a person while others keep coming: before, after, and the evidence
	@$(BIN)/python examples/erasure/demo.py

.PHONY: demo-sources
demo-sources: classes packages-sources ## Pull from two databases, MongoDB and an API into one model, and serve it, until Ctrl-C
	@$(BIN)/python examples/ticket-platform/demo.py $(DEMO)

.PHONY: demo-lake
demo-lake: setup model ## Add the small tables of data/ to the column search, with two models
	@$(BIN)/kedro lakehouse search --add data/demo_lake --add data/column_eval
	@$(BIN)/python bin/demo_lake.py vectors
	@$(BIN)/kedro lakehouse search --add data/demo_lake --add data/column_eval --model glove:demo.300d.txt
	@echo 'Try: $(BIN)/kedro lakehouse search --mode name district'

.PHONY: clean-lake
clean-lake: ## Delete the tables in data/lakehouse (asks first; FORCE=1 does not)
	@if [ ! -e data/lakehouse ]; then echo "There is no data/lakehouse."; exit 0; fi; \
	if [ "$(FORCE)" != 1 ]; then \
	  read -r -p "Delete every table in data/lakehouse? [y/N] " answer || answer=; \
	  case "$$answer" in y|Y|yes) ;; *) echo "Kept. To delete it unasked: make clean-lake FORCE=1"; exit 0 ;; esac; \
	fi; \
	rm -rf data/lakehouse; echo "Deleted data/lakehouse."

.PHONY: bench
bench: setup jars ## Measure one merge and one history beside other ways (BENCH="--scale 10")
	@$(UV) pip install -q --require-hashes --python $(BIN)/python -r requirements/bench.txt
	@$(BIN)/python bench/merge.py $(BENCH)
	@$(BIN)/python bench/history.py $(BENCH_HISTORY)

##@ Develop

.PHONY: docs
docs: setup ## Build the documentation into site/ (index.html is its start)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: test-unit
test-unit: setup ## Run the tests that need no JVM
	@$(BIN)/pytest tests/unit

.PHONY: lint
lint: setup ## Check format, lint, types, imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: check
check: lint ## The same, and run the unit tests
	$(BIN)/pytest $(TWO) tests/unit

.PHONY: format
format: setup ## Format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: lock
lock: setup ## Resolve the dependencies again into requirements/ and bin/
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(COMPILE) $(addprefix --extra ,spark41 $(EXTRAS)) pyproject.toml -o requirements/spark41.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(COMPILE) $(addprefix --extra ,spark35 $(EXTRAS)) pyproject.toml -o requirements/spark35.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(COMPILE) --no-annotate --extra bench -c requirements/spark41.txt pyproject.toml -o requirements/bench.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(COMPILE) --no-annotate --extra kafka -c requirements/spark41.txt pyproject.toml -o requirements/streams.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(COMPILE) --no-annotate $(addprefix --extra ,sql sqlserver oracle rest sap mongodb service sources-tests) -c requirements/spark41.txt pyproject.toml -o requirements/sources.txt
	printf 'axe-playwright-python==0.1.*\n' | $(COMPILE) --no-deps --no-header --no-annotate - -o requirements/axe.txt
	printf 'uv\n' | $(COMPILE) --no-header --no-annotate - -o bin/uv.txt
	printf 'hatchling>=1.27\neditables\n' | $(COMPILE) --no-header --no-annotate - -o bin/build.txt

.PHONY: lock-jars
lock-jars: jars jars-delta jars-aws jars-spark35 jars-aws-spark35 ## Pin Spark's jars anew: the sha256 of each, in both lines, with AWS
	@{ for env in test delta aws; do KEDRO_ENV=$$env $(BIN)/python -m kedro_lakehouse.cli.jars --sums; done; \
	  for env in test delta hudi aws_hudi; do KEDRO_ENV=$$env $(BIN35)/python -m kedro_lakehouse.cli.jars --sums; done; } \
	  | LC_ALL=C sort -u -k 2 > .cache/jars.sha256
	@mv .cache/jars.sha256 src/kedro_lakehouse/session/jars.sha256

.PHONY: clean
clean: ## Delete caches and build output; keeps .venv, .cache and the tables
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .viz \
	  spark-warehouse metastore_db derby.log
	@find src tests bin -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

##@ Steps that the others take by themselves

.PHONY: setup
setup: ## Bring .venv in line with its hashed lock file
	@$(PYTHON) bin/setup.py spark41

.PHONY: setup-spark35
setup-spark35: ## Bring .venv-spark35 in line with the lock of Spark 3.5 (Python 3.11)
	@$(PYTHON) bin/setup.py spark35

.PHONY: jars
jars: .cache/jars.ok ## Fetch Spark's jars into .cache/ivy

# A session whose environment loads Delta fetches its jars itself; tests must not each begin to.
.PHONY: jars-delta
jars-delta: .cache/jars-delta.ok ## Fetch the jars of Delta too (88 MB)

.PHONY: classes
classes: .cache/classes-spark41.jsa ## Archive Spark's classes: every session then starts some four seconds sooner

.PHONY: classes-spark35
classes-spark35: .cache/classes-spark35.jsa ## The same for Spark 3.5

.PHONY: jars-aws
jars-aws: .cache/jars-aws.ok ## The same for --env=aws (756 MB)

# Without the model only the column index says that it is missing; everything else runs.
.PHONY: model
model: setup ## Fetch the embedding model of the column search into .cache/models
	@$(SHOW) --expect "Looking for the embedding model ..." $(BIN)/python -m kedro_lakehouse.cli.model || true

# Order-only: set-up always looks, but looking does not make the jars stale.
.cache/jars.ok: conf/base/spark.yml $(if $(wildcard .cache/ivy),,refetch) | setup
	@$(SHOW) --expect "Looking for jars ..." $(BIN)/python -m kedro_lakehouse.cli.jars
	@mkdir -p $(@D) && touch $@

.cache/jars-delta.ok: conf/base/spark.yml conf/delta/spark.yml $(if $(wildcard .cache/ivy),,refetch) | setup
	@KEDRO_ENV=delta $(SHOW) --expect "Looking for jars ..." $(BIN)/python -m kedro_lakehouse.cli.jars
	@mkdir -p $(@D) && touch $@

.PHONY: jars-spark35
jars-spark35: .cache/jars-spark35.ok ## Fetch the jars of Spark 3.5, with Iceberg and with Hudi

.PHONY: jars-aws-spark35
jars-aws-spark35: .cache/jars-aws-spark35.ok ## The same for --env=aws_hudi

.cache/jars-aws-spark35.ok: conf/base/spark.yml conf/aws_hudi/spark.yml $(if $(wildcard .cache/ivy),,refetch) | setup-spark35
	@KEDRO_ENV=aws_hudi $(SHOW) --expect "Looking for jars ..." $(BIN35)/python -m kedro_lakehouse.cli.jars
	@mkdir -p $(@D) && touch $@

.cache/jars-spark35.ok: conf/base/spark.yml conf/delta/spark.yml conf/hudi/spark.yml $(if $(wildcard .cache/ivy),,refetch) | setup-spark35
	@$(SHOW) --expect "Looking for jars ..." $(BIN35)/python -m kedro_lakehouse.cli.jars
	@KEDRO_ENV=delta $(SHOW) --expect "Looking for jars ..." $(BIN35)/python -m kedro_lakehouse.cli.jars
	@KEDRO_ENV=hudi $(SHOW) --expect "Looking for jars ..." $(BIN35)/python -m kedro_lakehouse.cli.jars
	@mkdir -p $(@D) && touch $@

.cache/classes-spark41.jsa: requirements/spark41.txt conf/base/spark.yml | setup jars
	@$(SHOW) $(BIN)/python -m kedro_lakehouse.cli.class_archive

.cache/classes-spark35.jsa: requirements/spark35.txt conf/base/spark.yml | setup-spark35 jars-spark35
	@$(SHOW) $(BIN35)/python -m kedro_lakehouse.cli.class_archive

.cache/jars-aws.ok: conf/base/spark.yml conf/aws/spark.yml $(if $(wildcard .cache/ivy),,refetch) | setup
	@KEDRO_ENV=aws $(SHOW) --expect "Looking for jars ..." $(BIN)/python -m kedro_lakehouse.cli.jars
	@mkdir -p $(@D) && touch $@

.PHONY: refetch
refetch:
