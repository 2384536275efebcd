# Every target does its own set-up: Java, a virtual environment in .venv, and the packages in it.
# PYTHON=/path/to/python3 picks the interpreter for a new .venv.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-live test lint types unit test-live test-see coverage test-long fuzz-native fuzz-plans test-checked \
	test-kafka test-clients test-dbt test-sparks test-lakehouse test-s3 test-kill test-live-kills jar docs bench clean

# Without bytecode on disk, every process (each of Spark's workers too) compiles all modules anew, for two seconds.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Spark's workers use the interpreter of .venv, and Java is found where it usually lives.
RUN = JAVA_HOME="$$(scripts/java-home)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(BIN)/python" \
	SPARK_LOCAL_IP=127.0.0.1
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements-dev.lock

# Random tests of all languages, whose queries together call every emitter: `make fuzz-plans`.
FUZZED_PLANS = row_pattern_laws row_pattern_slices row_pattern_windows event_pattern_laws event_slices event_code closure_engines \
	collapsed trend_aggregates imprecise situation_laws situation_slices correlation_laws correlation_slices rule_sets \
	exact_decimals arrays_in_conditions slice_packing
# Random tests of code that these queries seldom or never run.
FUZZED_CODE = test_hashing.py test_grouping.py::test_the_code_does_the_same_in_all_ways test_grouping.py::test_spans_of_groups \
	test_compact_table.py code/test_measures.py rows/code/test_sifting_hopeless.py rows/test_explorer.py events/code/test_joins.py

# The tests of `make coverage`: those that need no Spark.
COVERED = tests/unit tests/golden tests/state tests/conformance/test_conformance.py tests/conformance/test_conformance_locally.py

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 33

setup:  ## create or refresh .venv (the other targets do it by themselves)
	@scripts/setup

demo:  ## seven pattern queries over sample data, explained, and a report on one of them
	@scripts/setup demo
	@$(RUN) $(BIN)/episode demo --report build/demo-report.html

demo-live:  ## a minute: price falls reported while a market runs
	@scripts/setup demo
	@$(RUN) $(BIN)/episode demo --live

test: lint types unit  ## everything a change must pass

lint: setup  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/english.py

types: setup  ## type hints
	$(BIN)/mypy

# In the order of the folders, so that the short files of tests/unit come last and both processes end together.
unit: setup  ## the tests, without the long and the live ones
	$(RUN) $(BIN)/pytest -m "not slow and not live and not see" -n 2 --dist loadfile --no-loadscope-reorder --durations=20 --durations-min=10 $(PYTEST_ARGS)

test-live: setup  ## streams that are killed, followed, and run every case of the conformance suite
	$(RUN) $(BIN)/pytest -m "live and not slow" $(PYTEST_ARGS)

test-see: setup  ## what people look at: notebooks that are executed, reports and the studio in a browser (needs Chromium)
	@scripts/chromium >/dev/null
	@$(PIP) --editable '.[see]'
	$(RUN) $(BIN)/pytest -m "see and not slow" $(PYTEST_ARGS)

coverage: setup  ## which lines the tests without Spark reach
	$(BIN)/coverage run --source=src/episode -m pytest -q $(COVERED) $(PYTEST_ARGS)
	$(BIN)/coverage report --skip-covered --sort=cover
	$(BIN)/coverage json -q -o build/coverage.json && $(BIN)/python scripts/untested.py

test-long: setup  ## fuzzing, the laws, and the cases as streams, at full size
	$(RUN) EPISODE_TEST_PROFILE=long $(BIN)/pytest -m slow $(PYTEST_ARGS)
	$(RUN) EPISODE_TEST_PROFILE=full $(BIN)/pytest tests/property -m "not slow and not live" $(PYTEST_ARGS)

fuzz-native: setup  ## 100,000 random programs of the compiler: compiled against interpreted (others: FIRST_PROGRAM=100000)
	$(RUN) EPISODE_NATIVE_PROGRAMS=100000 EPISODE_NATIVE_FIRST=$(or $(FIRST_PROGRAM),0) $(BIN)/pytest tests/property/test_native_programs.py -n 2 $(PYTEST_ARGS)

fuzz-plans: setup  ## random queries: every call of their compiled code also with checks, and interpreted
	rm -rf build/all-ways
	$(RUN) EPISODE_TEST_PROFILE=few EPISODE_ALL_WAYS=build/all-ways EPISODE_THOROUGH=1 $(BIN)/pytest -m "not slow and not live" -n 2 $(addprefix tests/property/test_,$(addsuffix .py,$(FUZZED_PLANS))) \
		$(addprefix tests/unit/matchers/,$(FUZZED_CODE)) $(PYTEST_ARGS)
	$(BIN)/python -m tests.support.plan_fuzzer build/all-ways

test-checked: setup  ## random tests of patterns, with every index, divisor and conversion of compiled code checked
	$(RUN) EPISODE_CHECKED=1 $(BIN)/pytest -m "not slow and not live" -n 2 tests/property/test_row_pattern_laws.py tests/property/test_row_pattern_slices.py tests/property/test_held_rows_of_row_patterns.py tests/property/test_overlapping_labels.py tests/property/test_permutations.py tests/property/test_event_pattern_laws.py tests/property/test_closure_engines.py tests/property/test_situation_laws.py tests/property/test_number_laws.py $(PYTEST_ARGS)

test-kafka: setup  ## streams from and to a Kafka broker of its own (needs Maven)
	@scripts/kafka-jars
	@$(PIP) --editable '.[kafka]'
	$(RUN) $(BIN)/pytest tests/kafka $(PYTEST_ARGS)

test-clients: setup  ## spark-sql, the Thrift server, Scala and Connect clients, with the jar of the parser extension
	@$(PIP) --editable '.[clients]'
	$(RUN) $(BIN)/pytest tests/clients $(PYTEST_ARGS)

jar: setup  ## compile src/episode/clients/jvm into the jar of the package (needs a JDK)
	JAVA_HOME="$$(scripts/java-home)" $(BIN)/python scripts/jar

test-dbt: setup  ## the example project of dbt, in an environment with dbt
	@scripts/dbt-venv
	$(RUN) .venv-dbt/bin/pytest tests/clients/test_dbt.py $(PYTEST_ARGS)

test-sparks: setup  ## the Spark tests on older Sparks: SPARKS="4.0 4.1 4.2", SPARK_TESTS=tests/spark (or few)
	@scripts/test-sparks

test-lakehouse: setup  ## Delta and Iceberg tables, in batch and streams, on the Spark they are made for (needs Maven)
	@scripts/test-lakehouse

docs: setup  ## the documentation site, in build/site
	@$(PIP) --editable '.[docs]'
	$(BIN)/python docs/site/build.py

test-s3: setup  ## direct scans from an S3 server of its own (needs Maven; takes 700 MB)
	@scripts/s3-jars
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'moto[server]>=5'
	$(RUN) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest tests/s3 $(PYTEST_ARGS)

bench: setup  ## an experiment: NAME=sase-window, ARGS="--runs 1"; without a name, the list of names
	$(RUN) $(BIN)/python -m bench $(NAME) $(ARGS)

test-kill: setup  ## kill queries, rules that change and processes of a stream store; nothing is lost or repeated (short: KILLS=3)
	$(RUN) $(BIN)/python -m tests.kill.run --kills $(or $(KILLS),20)
	$(RUN) $(BIN)/python -m tests.kill.rules --kills $(or $(KILLS),10)
	$(RUN) $(BIN)/python -m tests.kill.store_and_query --kills $(or $(KILLS),10)
	$(RUN) $(BIN)/python -m tests.kill.store --seconds $(if $(KILLS),10,60)

test-live-kills: setup  ## kill the tasks of a live query, and its producer, 200 times; every match is emitted once (short: KILLS=20)
	$(RUN) $(BIN)/python -m tests.kill.live --kills $(or $(KILLS),200)
	$(RUN) $(BIN)/python -m tests.kill.live_rules --kills $(or $(KILLS),100)

clean:  ## remove .venv, caches, taken jars, benchmark inputs and what Spark leaves
	rm -rf .venv .venv-sparks .venv-dbt bench/.flink-venv bench/.trino bench/.esper bench/.pandas-venv bench/data build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/kafka/jars tests/lakehouse/jars tests/s3/jars spark-warehouse metastore_db derby.log
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
