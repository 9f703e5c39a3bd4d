# Everything that a person or CI does here. `make` alone prints help.

.DEFAULT_GOAL := help
SHELL := /bin/bash

# The environment's programs first; Spark's workers run its Python, and nothing listens outside.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
export SPARK_LOCAL_IP := 127.0.0.1
export GX_ANALYTICS_ENABLED := false
# Uncompiled, `import great_expectations` and Airflow's processes take twice as long to start.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME

PYTEST := .venv/bin/python -m pytest
# Tests wait for disks, for Java and for programs that they start: more of them than two cores.
WORKERS ?= 3
# The months, or only the first DAYS days, of 2013 that the demo takes in.
DAYS ?= 365
cluster-demo: DAYS = 14
FUZZ_SECONDS ?= 600
MINUTES ?= 20
bench: MINUTES = 25
PACE ?= 1
SCALE ?= 0.2
ROWS ?= 1000000
PEER_ROWS ?= 400000

##@ Start here

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  \033[36m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo

.PHONY: demo
demo: .venv/.runtime ## Run the whole pipeline on a year of flights, through Airflow and Spark
	.venv/bin/python -m demo.run --days $(DAYS)

.PHONY: cluster-demo
cluster-demo: .venv/.dev pack ## The same on a Spark cluster, S3 and PostgreSQL, all on this machine
	STRATA_DEMO=$(CURDIR)/.strata/cluster .venv/bin/python -m demo.cluster --days $(DAYS)

.PHONY: demo-lie
demo-lie: .venv/.runtime ## Inject one wrong statistic and watch soft evaluation find it
	.venv/bin/python -m demo.lie

.PHONY: demo-rollout
demo-rollout: .venv/.runtime ## Lead a shard from off to on in minutes, lie to it, and lead it back
	.venv/bin/python -m demo.rollout

.PHONY: test
test: .venv/.dev ## Set everything up and pass all tests
	@command -v "$${CHROMIUM:-chromium}" > /dev/null || \
	  echo "There is no Chromium here (package chromium, or CHROMIUM=program): no page is looked at in a browser."
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not long and not browser"

.PHONY: up
up: .venv/.runtime ## Start Airflow with the DAGs and the demo's shards; print its address: PEOPLE="ann bob"
	STRATA_DEMO_PEOPLE="$(PEOPLE)" .venv/bin/python -m demo.airflow up

.PHONY: down
down: ## Stop what `make up` started
	@if [ -x .venv/bin/python ]; then .venv/bin/python -m demo.airflow down; fi

##@ Set-up

.PHONY: setup
setup: .venv/.dev ## Make .venv with everything, developers' tools too

.venv/.runtime: requirements/runtime.txt requirements/build.txt requirements/install.sh pyproject.toml
	requirements/install.sh runtime
	@touch $@

.venv/.dev: requirements/dev.txt requirements/build.txt requirements/install.sh pyproject.toml
	requirements/install.sh dev
	@touch $@ .venv/.runtime

.PHONY: lock
lock: ## Compile requirements/*.in into the hashed lists
	cd requirements && \
	  compile() { ../.venv-uv/bin/uv pip compile --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --quiet "$$@"; } && \
	  compile --excludes excludes.txt runtime.in -o runtime.txt && \
	  compile --excludes excludes.txt -c runtime.txt dev.in -o dev.txt && \
	  compile build.in -o build.txt && \
	  compile debezium.in -o debezium.txt && \
	  compile fuzz.in -o fuzz.txt && \
	  compile --excludes excludes-benchmarks.txt benchmarks.in -o benchmarks.txt && \
	  compile walks.in -o walks.txt && \
	  compile readers.in -o readers.txt && \
	  compile sbom.in -o sbom.txt && \
	  compile docs.in -o docs.txt && \
	  compile uv.in -o uv.txt && \
	  compile dist.in -o dist.txt

# Tools beside the packages of .venv, which they must not change: requirements/NAME.txt in .venv-NAME.
.venv-%/.ready: requirements/%.txt | .venv/.dev
	.venv/bin/python -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --require-hashes --no-deps -r $<
	@touch $@

# These two also see the packages of .venv and this checkout, behind their own.
.venv-fuzz/.beside .venv-benchmarks/.beside: %/.beside: %/.ready
	.venv/bin/python -c 'import pathlib, sysconfig; print(sysconfig.get_path("purelib")); print(pathlib.Path.cwd())' \
	  > "$$($*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/strata.pth"
	@touch $@

##@ Tests

LOOP_TESTS = strata tests/unit tests/conformance tests/scripts tests/formats tests/spec tests/docs tests/demo tests/attacks

.PHONY: test-unit
test-unit: .venv/.dev ## Unit tests, conformance suites and doctests: no Java, no Airflow
	HYPOTHESIS_PROFILE=loop $(PYTEST) -n $(WORKERS) --dist loadfile $(LOOP_TESTS) \
	  -m "not spark and not dags and not long and not slow and not browser"

.PHONY: test-laws
test-laws: .venv/.dev ## The laws of the design, with Hypothesis
	$(PYTEST) tests/laws -m "not long"

.PHONY: test-spark
test-spark: .venv/.dev ## Whatever needs a Spark session
	$(PYTEST) tests/spark -m "not long"

.PHONY: test-dags
test-dags: .venv/.dev ## The DAGs, loaded by Airflow
	$(PYTEST) tests/dags $(wildcard tests/attacks) -m "dags and not long and not browser"

.PHONY: test-browser
test-browser: .venv/.dev ## Hostile reports and the console in a real browser (needs Debian's chromium): PICTURES=folder
	$(PYTEST) tests/attacks/test_report_in_browser.py tests/attacks/test_console_in_browser.py

.PHONY: test-long
test-long: .venv/.dev ## The laws with thousands of examples, and the long tests
	HYPOTHESIS_PROFILE=long $(PYTEST) tests/laws tests/unit tests/wall tests/spark -m "not long"
	$(PYTEST) -m long
	$(MAKE) --no-print-directory test-browser
	$(MAKE) --no-print-directory fuzz

.PHONY: explore
explore: .venv/.dev ## Draw new cases for the laws, keep what fails: MINUTES=20, SEED=
	.venv/bin/python -m tools.explore --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Readers of source files: coverage finds ways into them, plain damage is a hundred times as fast.
FUZZ_SOURCES = csv csv_escaped csv_padded jsonl array avro orc parquet_file debezium records

.PHONY: fuzz
fuzz: .venv/.dev .venv-fuzz/.beside ## Fuzz what reads bytes from outside: FUZZ_SECONDS=600 each
	for target in protobuf json parquet $(FUZZ_SOURCES); do \
	  NUMBA_DISABLE_JIT=1 .venv-fuzz/bin/python -m tests.fuzz $$target --seconds $(FUZZ_SECONDS) || exit 1; \
	done
	for target in $(FUZZ_SOURCES); do \
	  .venv/bin/python -m tests.fuzz.mutate $$target --seconds $(FUZZ_SECONDS) || exit 1; \
	done
	.venv/bin/python -m tests.fuzz.keep .strata/fuzz
	$(PYTEST) tests/fuzz

.PHONY: load
load: .venv/.dev ## 50 shards, 3 writers, compactor, validator and readers at once: MINUTES=20 PACE=1 (0: no limit)
	.venv/bin/python -m benchmarks.load --minutes $(MINUTES) --pace $(PACE)

.PHONY: tpch
tpch: .venv/.dev .venv-benchmarks/.beside ## Ingest TPC-H's lineitem and orders beside Spark: SCALE=0.2
	.venv/bin/python -m benchmarks.tpch --scale $(SCALE)

# Ends with an error where a target that was met is missed: benchmarks/README.md.
.PHONY: bench
bench: .venv/.dev .venv-benchmarks/.beside ## Measure a set of targets again, and peers: at most MINUTES=25
	.venv/bin/python -m benchmarks.bench --minutes $(MINUTES)

.PHONY: peers
peers: .venv/.dev ## Run Strata beside Iceberg, Delta, DuckDB and Spark on the same data: PEER_ROWS=400000
	.venv/bin/python -m benchmarks.peers --rows $(PEER_ROWS)

.PHONY: merge-others
merge-others: .venv-benchmarks/.beside ## Merge the same runs by other kernels and engines: ROWS=1000000
	.venv-benchmarks/bin/python -m benchmarks.merge_others --rows $(ROWS)

.PHONY: test-debezium
test-debezium: .venv/.dev .venv-debezium/.ready ## Follow a PostgreSQL under load with the real Debezium engine
	$(PYTEST) tests/debezium/live.py

.PHONY: test-readers
test-readers: .venv/.dev .venv-readers/.ready ## Read published tables by Daft, DuckDB and PyIceberg in an environment of their own
	$(PYTEST) tests/readers/live.py

.PHONY: walks
walks: .venv/.dev .venv-walks/.ready ## Walk through Airflow and the report in a browser (needs Debian's chromium); docs/reference/walks
	PYTHONPATH=$$(echo .venv-walks/lib/python*/site-packages) .venv/bin/python -m tests.walks.main

.PHONY: certify
certify: .venv/.dev ## Check every function against Spark and write docs/reference/certificates
	.venv/bin/python -m tools.certify --seed 41 --keep .strata/observed.pickle

.PHONY: ranges
ranges: .venv/.dev ## Write docs/reference/ranges.md, what each rule yields, after `make certify`
	.venv/bin/python -m tools.ranges .strata/observed.pickle

.PHONY: mutate
mutate: .venv/.dev ## Flip every rule after `make certify`; write docs/reference/mutations.md and the certificates' cases
	.venv/bin/python -m tools.mutate .strata/observed.pickle

# Which tests reach which functions, made anew for every run: tests and sources change.
.PHONY: mutants
mutants: .venv/.dev ## Change the sources of the rooms that decide, approve, store, read, delete and check, over 1,500 places, three hours; write docs/reference/mutants.md
	.venv/bin/python -m tests.mutants.reach
	.venv/bin/python -m tests.mutants

.PHONY: golden
golden: .venv/.dev ## Rewrite the expected outputs of the script tests; then read the difference
	STRATA_GOLDEN=rewrite $(PYTEST) tests/scripts -q
	git --no-pager diff --stat -- tests/scripts

##@ Documents

.PHONY: docs
docs: .venv-docs/.ready ## Build the site of the documents in build/site, with an offline search
	.venv/bin/python -m tools.site --mkdocs .venv-docs/bin/mkdocs

.PHONY: pages
pages: .venv/.dev ## Write the generated pages of docs/reference that need no Spark, and the pictures
	.venv/bin/python -m tools.rooms
	.venv/bin/python -m tools.cli_page
	.venv/bin/python -m tools.pictures
	.venv/bin/python -m tools.dashboard
	.venv/bin/python -m benchmarks.today
	.venv/bin/python -m strata.expr.reference
	.venv/bin/python -m strata.format.reference

##@ Code

.PHONY: fmt
fmt: .venv/.dev ## Format and mend what can be mended
	.venv/bin/ruff check --fix --quiet . || true
	.venv/bin/ruff format .

.PHONY: lint
lint: .venv/.dev ## Formatting and lint rules
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

.PHONY: types
types: .venv/.dev ## mypy, strict
	.venv/bin/mypy

.PHONY: arch
arch: .venv/.dev ## The import contracts of pyproject.toml
	PYTHONPATH=plugins .venv/bin/lint-imports

.PHONY: check
check: ## Exactly what CI runs
	.ci/run

.PHONY: audit
audit: .venv/.dev .venv-sbom/.ready ## Pins, vulnerabilities (AUDIT=--strict), dist/sbom.json and licences
	.venv/bin/python requirements/audit.py $(AUDIT)
	.venv-sbom/bin/python requirements/sbom.py --of .venv/bin/python --out dist

.PHONY: wheel
wheel: .venv/.dev ## Build the wheel that goes to a cluster's executors
	.venv-uv/bin/uv build --wheel --build-constraints requirements/build.txt --out-dir dist .

# The wheel of the engine takes compiled kernels along (strata/kernels/ready.py), and what its code
# means (strata/rollout/basis.py).
.PHONY: dist
dist: .venv/.dev .venv-dist/.ready ## Build what can be installed: engine and Airflow provider, wheels and sources, in dist
	.venv/bin/python -m strata.kernels --ready
	.venv/bin/python -m strata.rollout.basis
	rm -f dist/strata_shards-* dist/airflow_provider_strata-*
	for place in . plugins; do \
	  .venv-uv/bin/uv build --quiet --sdist --build-constraints requirements/build.txt --out-dir dist $$place && \
	  .venv-uv/bin/uv build --quiet --wheel --build-constraints requirements/build.txt --out-dir dist $$place || exit 1; \
	done
	.venv-dist/bin/twine check --strict dist/strata_shards-* dist/airflow_provider_strata-*

# `python -m tools.release VERSION --write` comes first: CONTRIBUTING.md, Releases.
.PHONY: release
release: .venv/.dev ## Check and build a release in dist/VERSION, the same twice to the byte: VERSION=x.y.z AGAINST=
	.venv/bin/python -m tools.release "$(VERSION)" $(if $(AGAINST),--against "$(AGAINST)")

.PHONY: smoke
smoke: .venv/.dev ## Build the engine's wheel, install it alone into an empty environment, and use it
	.venv/bin/python -m strata.kernels --ready
	.venv/bin/python -m strata.rollout.basis
	rm -f dist/strata_shards-*.whl
	$(MAKE) --no-print-directory wheel
	$(PYTEST) tests/packages/smoke.py

.PHONY: test-packages
test-packages: dist ## Install the packages into empty environments, and use them there
	$(PYTEST) tests/packages/installed.py tests/packages/image.py

.PHONY: pack
pack: dist/strata-environment.tar.gz ## Build what Spark's executors need, as one archive

dist/strata-environment.tar.gz: requirements/pack.py requirements/runtime.txt pyproject.toml \
  $(shell find strata pyspark_strata -name '*.py')
	$(MAKE) --no-print-directory wheel
	.venv/bin/python requirements/pack.py --out $@

.PHONY: clean
clean: ## Remove what can be made again, the environment excepted
	rm -rf .strata build dist spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
