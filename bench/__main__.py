"""Experiments by name: `python -m bench sase-window` is `python -m bench.sase window`. Without a name, a list."""

from __future__ import annotations

import os
import sys

# Name: the module of bench with its arguments, and what is measured.
EXPERIMENTS = {
    "rows": ("rows", "20 million ticks against plain Spark"),
    "slices": ("slices", "slices of time against one task: one key, a key with half of all ticks; time and memory"),
    "rules": ("rules", "1 to 500 rules over 20 million events, together and as separate queries"),
    "scans": ("scans", "a partitioned, filtered table: files read directly against rows through Spark"),
    "kernel": ("kernel", "the matcher alone on one core, and what the hardware allows"),
    "startup": ("startup", "the seconds before the first row: compiling, loading, the first and the second query"),
    "compiling": ("compiling", "how long queries take to compile, to load again, and until a first result"),
    "local": ("local", "calls of sql_local and match_local over small tables, without Spark"),
    "jvm-clients": ("jvm_clients", "spark-sql, JDBC, Scala: what the parser extension costs, and planning through it"),
    "plots": ("seeing", "a picture of a key with a million rows, and why it has no match"),
    "flink": ("flink", "the same query through PyFlink"),
    "trino": ("trino", "the same query through Trino (needs Maven, and Java 25 for Trino)"),
    "esper": ("esper", "ticks, a sequence and situations through Esper (needs Maven)"),
    "crimes": ("crimes", "19 row pattern templates of a paper over 7.2 million city crimes, in process and on Spark"),
    "pandas": ("pandas_rival", "V-shapes, funnels and sessions through pandas-match-recognize"),
    "sizing": ("sizing", "the predictions of episode size against runs on one and two cores"),
    "growth": ("growth", "how cost grows with rows and keys"),
    "stream": ("stream", "micro-batches: throughput, latency, windows, state"),
    "rules-stream": ("rules_stream", "rules that are added, replaced and removed while a stream of 100 runs"),
    "store": ("store", "stream stores: appending, archiving, reading, against plain Parquet files"),
    "store-spark": ("store_spark", "stream stores: envelopes packed by readers against rows"),
    "live": ("live", "live tasks: latency and throughput, beside micro-batches and Flink"),
    "live-input": ("live_input", "the thesis on input handling again: pull, push and adaptive input"),
    "zstream": ("zstream", "ZStream's evaluation again: all of the following"),
    "zstream-selectivity": ("zstream selectivity", "Figures 8 and 9: selectivity of a predicate"),
    "zstream-rates": ("zstream rates", "Figures 10 and 11: event rates"),
    "zstream-plans": ("zstream plans", "Figures 12 and 13, Table 3: plans, the choice, memory"),
    "zstream-adaptation": ("zstream adaptation", "Figure 14: plans that adapt"),
    "zstream-negation": ("zstream negation", "Figures 15 and 16: negation pushed down"),
    "zstream-web": ("zstream web", "Figure 17: a month of web accesses"),
    "zstream-speed": ("zstream speed", "against a tree in plain Python; where matches are rare"),
    "feeds": ("feeds", "event patterns with long windows: feeds of 10 and 1,000 events"),
    "sase": ("sase", "SASE++'s evaluation again: all of the following"),
    "sase-selectivity": ("sase selectivity", "Figure 4 (a): selectivity"),
    "sase-window": ("sase window", "Figures 4 (b, c): windows, and runs created"),
    "sase-classes": ("sase classes", "Figure 4 (d): classes of predicates"),
    "sase-breakdown": ("sase breakdown", "Figures 4 (e, f): where the time goes"),
    "sase-collapsed": ("sase collapsed", "collapsed results, by the number of matches"),
    "sase-aggregates": ("sase aggregates", "aggregates over all matches"),
    "sase-imprecise": ("sase imprecise", "Figure 5 (a): imprecise time"),
    "sase-confidence": ("sase confidence", "Figure 5 (b): what computing confidence costs"),
    "sase-study": ("sase study", "Figure 5 (h): the case study on one core"),
    "sase-spark": ("sase spark", "the case study against Spark's sort"),
    "pcq": ("pcq", "the evaluation of pattern correlation again: all of the following"),
    "pcq-buffer": ("pcq buffer", "Figure 9: the recent buffer"),
    "pcq-recency": ("pcq recency", "Figures 10 and 11, Table 5: the recency region"),
    "pcq-cache": ("pcq cache", "Figure 12: the query result cache"),
    "pcq-order": ("pcq order", "Figure 13: the order of the join"),
    "pcq-ticks": ("pcq ticks", "Figure 14: ticks"),
    "pcq-spark": ("pcq spark", "against the two patterns alone, from Parquet"),
    "pcq-stream": ("pcq stream", "micro-batches by the recency"),
    "tpstream": ("tpstream", "TPStream's evaluation again: all of the following"),
    "tpstream-drivers": ("tpstream drivers", "Figure 5 (a, b): aggressive drivers by the number of events"),
    "tpstream-window": ("tpstream window", "Figure 5 (c): windows, against a scan of the buffers"),
    "tpstream-patterns": ("tpstream patterns", "Figure 6: kinds of patterns over 4 to 10 streams"),
    "tpstream-latency": ("tpstream latency", "Figure 7 (a): how much earlier matches are reported"),
    "tpstream-plans": ("tpstream plans", "Figure 8 (a): every order of search, and the choice"),
    "tpstream-adaptation": ("tpstream adaptation", "Figure 8 (b): plans that adapt"),
    "tpstream-speed": ("tpstream speed", "aggressive drivers on one core, and what the hardware allows"),
    "tpstream-spark": ("tpstream spark", "20 million reports of cars against Spark's sort"),
}


def main(arguments: list[str]) -> None:
    """Replace this process by the experiment; arguments after its name are passed on."""
    if not arguments or arguments[0] not in EXPERIMENTS:
        for name, (_, measured) in EXPERIMENTS.items():
            print(f"  {name:<22}{measured}")
        sys.exit(f"no experiment is called {arguments[0]!r}; these are the names" if arguments else 0)
    module, *fixed = EXPERIMENTS[arguments[0]][0].split()
    os.execv(sys.executable, [sys.executable, "-m", f"bench.{module}", *fixed, *arguments[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
