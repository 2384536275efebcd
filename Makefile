# Every target does its own set-up: Java, a virtual environment in .venv, and the packages in it.
# PYTHON=/path/to/python3 picks the interpreter for a new .venv.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: bench-live bench-live-input bench-pcq bench-pcq-buffer bench-pcq-recency bench-pcq-cache bench-pcq-order bench-pcq-ticks bench-pcq-spark bench-pcq-stream help setup demo demo-live test test-live test-see coverage test-long test-kafka test-s3 docs lint types unit bench-rows bench-slices bench-scans bench-kernel bench-local bench-plots bench-startup bench-flink bench-trino bench-esper bench-crimes bench-pandas bench-growth bench-stream bench-zstream bench-zstream-selectivity bench-zstream-rates bench-zstream-plans bench-zstream-adaptation bench-zstream-negation bench-zstream-web bench-zstream-speed bench-sase bench-sase-selectivity bench-sase-window bench-sase-classes bench-sase-breakdown bench-sase-collapsed bench-sase-aggregates bench-sase-imprecise bench-sase-confidence bench-sase-study bench-sase-spark bench-tpstream bench-tpstream-drivers bench-tpstream-window bench-tpstream-patterns bench-tpstream-latency bench-tpstream-plans bench-tpstream-adaptation bench-tpstream-speed bench-tpstream-spark bench-store bench-store-spark test-sparks test-lakehouse test-kill test-live-kills fuzz-native test-checked clean bench-rules-stream bench-sizing bench-rules

# Without bytecode on disk, every process (each of Spark's workers too) compiles all modules anew, for two seconds.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Spark's workers use the interpreter of .venv, and Java is found where it usually lives.
RUN = JAVA_HOME="$$(scripts/java-home)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(BIN)/python" \
	SPARK_LOCAL_IP=127.0.0.1

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

types: setup  ## type hints
	$(BIN)/mypy

# In the order of the folders, so that the short files of tests/unit come last and both processes end together.
unit: setup  ## the tests, without the long and the live ones
	$(RUN) $(BIN)/pytest -m "not slow and not live and not see" -n 2 --dist loadfile --no-loadscope-reorder --durations=20 --durations-min=10 $(PYTEST_ARGS)

test-live: setup  ## streams that are killed, followed, and run every case of the conformance suite
	$(RUN) $(BIN)/pytest -m "live and not slow" $(PYTEST_ARGS)

test-see: setup  ## what people look at: notebooks that are executed, reports and the studio in a browser (needs Chromium)
	@scripts/chromium >/dev/null
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[see]'
	$(RUN) $(BIN)/pytest -m "see and not slow" $(PYTEST_ARGS)

coverage: setup  ## which lines the tests without Spark reach
	$(BIN)/coverage run --source=src/episode -m pytest -q $(COVERED) $(PYTEST_ARGS)
	$(BIN)/coverage report --skip-covered --sort=cover

test-long: setup  ## fuzzing, the laws, and the cases as streams, at full size
	$(RUN) EPISODE_TEST_PROFILE=long $(BIN)/pytest -m slow $(PYTEST_ARGS)
	$(RUN) EPISODE_TEST_PROFILE=full $(BIN)/pytest tests/property -m "not slow and not live" $(PYTEST_ARGS)

fuzz-native: setup  ## 100,000 random programs of the compiler: compiled against interpreted
	$(RUN) EPISODE_NATIVE_PROGRAMS=100000 $(BIN)/pytest tests/property/test_native_programs.py -n 2 $(PYTEST_ARGS)

test-checked: setup  ## random tests of patterns, with every index, divisor and conversion of compiled code checked
	$(RUN) EPISODE_CHECKED=1 $(BIN)/pytest -m "not slow and not live" -n 2 tests/property/test_row_pattern_laws.py tests/property/test_row_pattern_slices.py tests/property/test_held_rows_of_row_patterns.py tests/property/test_overlapping_labels.py tests/property/test_permutations.py tests/property/test_event_pattern_laws.py tests/property/test_closure_engines.py tests/property/test_situation_laws.py tests/property/test_number_laws.py $(PYTEST_ARGS)

test-kafka: setup  ## streams from and to a Kafka broker of its own (needs Maven)
	@scripts/kafka-jars
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[kafka]'
	$(RUN) $(BIN)/pytest tests/kafka $(PYTEST_ARGS)

test-sparks: setup  ## the Spark tests on older Sparks: SPARKS="4.0 4.1 4.2", SPARK_TESTS=tests/spark (or few)
	@scripts/test-sparks

test-lakehouse: setup  ## Delta and Iceberg tables, in batch and streams, on the Spark they are made for (needs Maven)
	@scripts/test-lakehouse

docs: setup  ## the documentation site, in build/site
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python docs/site/build.py

test-s3: setup  ## direct scans from an S3 server of its own (needs Maven; takes 700 MB)
	@scripts/s3-jars
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'moto[server]>=5'
	$(RUN) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest tests/s3 $(PYTEST_ARGS)

bench-rows: setup  ## 20 million ticks against plain Spark
	$(RUN) $(BIN)/python -m bench.rows

bench-slices: setup  ## one key of 20 million ticks, and a key with half of all: slices of time against one task, in time and memory
	$(RUN) $(BIN)/python -m bench.slices

bench-rules: setup  ## 1 to 500 rules over 20 million events, together and as separate queries
	$(RUN) $(BIN)/python -m bench.rules

bench-scans: setup  ## a partitioned, filtered table: files read directly against rows through Spark
	$(RUN) $(BIN)/python -m bench.scans

bench-kernel: setup  ## the matcher alone on one core, and what the hardware allows
	$(RUN) $(BIN)/python -m bench.kernel

bench-startup: setup  ## the seconds before the first row: compiling, loading, the first and the second query
	$(RUN) $(BIN)/python -m bench.startup

bench-local: setup  ## calls of sql_local and match_local over small tables, without Spark
	$(RUN) $(BIN)/python -m bench.local

bench-plots: setup  ## a picture of a key with a million rows, and why it has no match
	$(RUN) $(BIN)/python -m bench.seeing

bench-flink: setup  ## the same query through PyFlink
	$(RUN) $(BIN)/python -m bench.flink

bench-trino: setup  ## the same query through Trino (needs Maven, and Java 25 for Trino)
	$(RUN) $(BIN)/python -m bench.trino

bench-esper: setup  ## ticks, a sequence and situations through Esper (needs Maven)
	$(RUN) $(BIN)/python -m bench.esper

bench-crimes: setup  ## 19 row pattern templates of a paper over 7.2 million city crimes, in process and on Spark
	$(RUN) $(BIN)/python -m bench.crimes

bench-pandas: setup  ## V-shapes, funnels and sessions through pandas-match-recognize
	$(RUN) $(BIN)/python -m bench.pandas_rival

bench-sizing: setup  ## the predictions of episode size against runs on one and two cores
	$(RUN) $(BIN)/python -m bench.sizing

bench-growth: setup  ## how cost grows with rows and keys
	$(RUN) $(BIN)/python -m bench.growth

bench-stream: setup  ## micro-batches: throughput, latency, windows, state
	$(RUN) $(BIN)/python -m bench.stream

bench-rules-stream: setup  ## rules that are added, replaced and removed while a stream of 100 runs
	$(RUN) $(BIN)/python -m bench.rules_stream

bench-store-spark: setup  ## stream stores: envelopes packed by readers against rows
	$(RUN) $(BIN)/python -m bench.store_spark

bench-live: setup  ## live tasks: latency and throughput, beside micro-batches and Flink
	$(RUN) $(BIN)/python -m bench.live

bench-live-input: setup  ## the thesis on input handling again: pull, push and adaptive input
	$(RUN) $(BIN)/python -m bench.live_input

bench-zstream: setup  ## ZStream's evaluation again: all of the following
	$(RUN) $(BIN)/python -m bench.zstream

bench-zstream-selectivity: setup  ## Figures 8 and 9: selectivity of a predicate
	$(RUN) $(BIN)/python -m bench.zstream selectivity

bench-zstream-rates: setup  ## Figures 10 and 11: event rates
	$(RUN) $(BIN)/python -m bench.zstream rates

bench-zstream-plans: setup  ## Figures 12 and 13, Table 3: plans, the choice, memory
	$(RUN) $(BIN)/python -m bench.zstream plans

bench-zstream-adaptation: setup  ## Figure 14: plans that adapt
	$(RUN) $(BIN)/python -m bench.zstream adaptation

bench-zstream-negation: setup  ## Figures 15 and 16: negation pushed down
	$(RUN) $(BIN)/python -m bench.zstream negation

bench-zstream-web: setup  ## Figure 17: a month of web accesses
	$(RUN) $(BIN)/python -m bench.zstream web

bench-zstream-speed: setup  ## against a tree in plain Python; where matches are rare
	$(RUN) $(BIN)/python -m bench.zstream speed

bench-sase: setup  ## SASE++'s evaluation again: all of the following
	$(RUN) $(BIN)/python -m bench.sase

bench-sase-selectivity: setup  ## Figure 4 (a): selectivity
	$(RUN) $(BIN)/python -m bench.sase selectivity

bench-sase-window: setup  ## Figures 4 (b, c): windows, and runs created
	$(RUN) $(BIN)/python -m bench.sase window

bench-sase-classes: setup  ## Figure 4 (d): classes of predicates
	$(RUN) $(BIN)/python -m bench.sase classes

bench-sase-breakdown: setup  ## Figures 4 (e, f): where the time goes
	$(RUN) $(BIN)/python -m bench.sase breakdown

bench-sase-collapsed: setup  ## collapsed results, by the number of matches
	$(RUN) $(BIN)/python -m bench.sase collapsed

bench-sase-aggregates: setup  ## aggregates over all matches
	$(RUN) $(BIN)/python -m bench.sase aggregates

bench-sase-imprecise: setup  ## Figure 5 (a): imprecise time
	$(RUN) $(BIN)/python -m bench.sase imprecise

bench-sase-confidence: setup  ## Figure 5 (b): what computing confidence costs
	$(RUN) $(BIN)/python -m bench.sase confidence

bench-sase-study: setup  ## Figure 5 (h): the case study on one core
	$(RUN) $(BIN)/python -m bench.sase study

bench-sase-spark: setup  ## the case study against Spark's sort
	$(RUN) $(BIN)/python -m bench.sase spark

bench-pcq: setup  ## the evaluation of pattern correlation again: all of the following
	$(RUN) $(BIN)/python -m bench.pcq

bench-pcq-buffer: setup  ## Figure 9: the recent buffer
	$(RUN) $(BIN)/python -m bench.pcq buffer

bench-pcq-recency: setup  ## Figures 10 and 11, Table 5: the recency region
	$(RUN) $(BIN)/python -m bench.pcq recency

bench-pcq-cache: setup  ## Figure 12: the query result cache
	$(RUN) $(BIN)/python -m bench.pcq cache

bench-pcq-order: setup  ## Figure 13: the order of the join
	$(RUN) $(BIN)/python -m bench.pcq order

bench-pcq-ticks: setup  ## Figure 14: ticks
	$(RUN) $(BIN)/python -m bench.pcq ticks

bench-pcq-spark: setup  ## against the two patterns alone, from Parquet
	$(RUN) $(BIN)/python -m bench.pcq spark

bench-pcq-stream: setup  ## micro-batches by the recency
	$(RUN) $(BIN)/python -m bench.pcq stream

bench-tpstream: setup  ## TPStream's evaluation again: all of the following
	$(RUN) $(BIN)/python -m bench.tpstream

bench-tpstream-drivers: setup  ## Figure 5 (a, b): aggressive drivers by the number of events
	$(RUN) $(BIN)/python -m bench.tpstream drivers

bench-tpstream-window: setup  ## Figure 5 (c): windows, against a scan of the buffers
	$(RUN) $(BIN)/python -m bench.tpstream window

bench-tpstream-patterns: setup  ## Figure 6: kinds of patterns over 4 to 10 streams
	$(RUN) $(BIN)/python -m bench.tpstream patterns

bench-tpstream-latency: setup  ## Figure 7 (a): how much earlier matches are reported
	$(RUN) $(BIN)/python -m bench.tpstream latency

bench-tpstream-plans: setup  ## Figure 8 (a): every order of search, and the choice
	$(RUN) $(BIN)/python -m bench.tpstream plans

bench-tpstream-adaptation: setup  ## Figure 8 (b): plans that adapt
	$(RUN) $(BIN)/python -m bench.tpstream adaptation

bench-tpstream-speed: setup  ## aggressive drivers on one core, and what the hardware allows
	$(RUN) $(BIN)/python -m bench.tpstream speed

bench-tpstream-spark: setup  ## 20 million reports of cars against Spark's sort
	$(RUN) $(BIN)/python -m bench.tpstream spark

bench-store: setup  ## stream stores: appending, archiving, reading, against plain Parquet files
	$(RUN) $(BIN)/python -m bench.store

test-kill: setup  ## kill a query twenty times, rules that change and all processes of a stream store ten times; nothing is lost or repeated
	$(RUN) $(BIN)/python -m tests.kill.run
	$(RUN) $(BIN)/python -m tests.kill.rules
	$(RUN) $(BIN)/python -m tests.kill.store_and_query
	$(RUN) $(BIN)/python -m tests.kill.store --seconds 60

test-live-kills: setup  ## kill the tasks of a live query, and its producer, two hundred times; every match is out once
	$(RUN) $(BIN)/python -m tests.kill.live --kills 200
	$(RUN) $(BIN)/python -m tests.kill.live_rules --kills 100

clean:  ## remove .venv, caches, taken jars, benchmark inputs and what Spark leaves
	rm -rf .venv .venv-sparks bench/.flink-venv bench/.trino bench/.esper bench/.pandas-venv bench/data build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/kafka/jars tests/lakehouse/jars tests/s3/jars spark-warehouse metastore_db derby.log
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
