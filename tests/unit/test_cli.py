"""The command line without Spark: arguments, where the query comes from, how errors are reported."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import episode
from episode import cli, paths
from episode.cli import inputs
from episode.cli.results import Format, choose_output
from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError, EpisodeSyntaxError
from episode.terminal.errors import report_errors
from episode.terminal.progress import progress, running_tasks
from episode.terminal.table import result_table

QUERY = "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))"


class FakeResult:
    """Stands in for a DataFrame: two columns, and rows that can be limited and collected."""

    columns = ("symbol", "price")
    sparkSession = None
    isStreaming = False

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def limit(self, count: int) -> FakeResult:
        return FakeResult(self.rows[:count])

    def collect(self) -> list[tuple[Any, ...]]:
        return self.rows


class Calls:
    """Stands in for episode.sql and episode.explain, and remembers what they were given."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.tables: list[dict[str, Any]] = []
        self.arguments: list[dict[str, Any]] = []
        self.how: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.rows: list[tuple[Any, ...]] = [("A", 1.5), (None, 2.0)]

    def sql(self, text: str, args: dict[str, Any] | None = None, *, tables: dict[str, Any] | None = None) -> FakeResult:
        self.texts.append(text)
        self.arguments.append(args or {})
        self.tables.append(tables or {})
        if self.error is not None:
            raise self.error
        return FakeResult(self.rows)

    def explain(
        self, text: str, args: dict[str, Any] | None = None, *, tables: dict[str, Any] | None = None, **how: Any
    ) -> str:
        self.sql(text, args, tables=tables)
        self.how.append(how)
        return "a plan [not markup]"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(episode, "sql", calls.sql, raising=False)
    monkeypatch.setattr(episode, "explain", calls.explain, raising=False)
    return calls


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    path.touch()
    return path


def invoke(*arguments: object, **keywords: Any) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(cli.app, list(map(str, arguments)), **keywords)


# ---- the query -------------------------------------------------------------------------------------


def test_a_query_may_be_the_argument_itself(calls: Calls) -> None:
    assert invoke("run", QUERY).exit_code == 0
    assert calls.texts == [QUERY]


def test_a_query_may_be_a_file(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("\ufeff" + QUERY, encoding="utf-8")
    assert invoke("run", path).exit_code == 0
    assert calls.texts == [QUERY]


def test_a_query_may_come_from_standard_input(calls: Calls) -> None:
    assert invoke("explain", "-", input=QUERY).exit_code == 0
    assert calls.texts == [QUERY]


@pytest.mark.parametrize("argument", ["no/such.sql", "no such.sql", "nosuchfile"])
def test_a_query_file_that_is_not_there(calls: Calls, argument: str) -> None:
    result = invoke("run", argument)
    assert result.exit_code == 2
    assert "There is no file" in result.stderr
    assert calls.texts == []


def test_a_query_file_that_is_not_text(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_bytes(b"SELECT \xff\xfe")
    result = invoke("run", path)
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_a_query_too_long_for_a_path() -> None:
    text = "SELECT " + "x, " * 5_000 + "x"
    assert inputs.read_query(text) == text


# ---- tables ----------------------------------------------------------------------------------------


def test_tables_are_passed_by_name(calls: Calls, parquet: Path) -> None:
    assert invoke("run", QUERY, "--table", f"t={parquet}", "-t", f"u={parquet.parent}").exit_code == 0
    assert calls.tables == [{"t": str(parquet), "u": str(parquet.parent)}]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("trades", "is not of the form NAME=PATH"),
        ("trades=", "is not of the form NAME=PATH"),
        ("=x.parquet", "is not a name for a table"),
        ("my-table=x.parquet", "is not a name for a table"),
        ("t=/no/such/place.parquet", "should be at /no/such/place.parquet, but there is nothing"),
        ("t=/no/such/*.parquet", "but there is nothing"),
        ("t=kafka://trades?schema=a int", "does not name the host and port of a broker"),
        ("t=kafka://127.0.0.1/trades?schema=a int", "does not name the host and port of a broker"),
        ("t=kafka://127.0.0.1:9092?schema=a int", "is not the name of a topic"),
        ("t=kafka://127.0.0.1:9092/tra/des?schema=a int", "is not the name of a topic"),
        ("t=kafka://127.0.0.1:9092/trades", "has no schema"),
        ("t=kafka://127.0.0.1:9092/trades?startingOffsets=earliest", "has no schema"),
    ],
)
def test_wrong_tables(calls: Calls, argument: str, message: str) -> None:
    result = invoke("run", QUERY, "--table", argument)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert calls.texts == []


def test_a_table_given_twice(calls: Calls, parquet: Path) -> None:
    result = invoke("run", QUERY, "-t", f"t={parquet}", "-t", f"t={parquet}")
    assert result.exit_code == 2
    assert "given twice" in result.stderr


def test_paths_elsewhere_are_left_to_spark() -> None:
    assert inputs.read_tables(["t=s3a://bucket/t.parquet"]) == {"t": "s3a://bucket/t.parquet"}


@pytest.mark.parametrize(
    "schema", ["symbol string, price decimal(10,2)", "symbol%20string%2C%20price%20decimal(10%2C2)"]
)
def test_a_topic_is_a_table(schema: str) -> None:
    url = f"kafka://a:9092,b:9093/trades?schema={schema}&startingOffsets=earliest&kafka.client.id=x%26y"
    assert inputs.read_tables([f"t={url}"]) == {"t": url}
    assert inputs.read_topic(url) == inputs.Topic(
        servers="a:9092,b:9093",
        name="trades",
        schema="symbol string, price decimal(10,2)",
        options={"startingOffsets": "earliest", "kafka.client.id": "x&y"},
    )


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("trades.parquet", "parquet"),
        ("trades", "parquet"),
        ("trades.CSV", "csv"),
        ("trades.csv.gz", "csv"),
        ("trades.json", "json"),
        ("2026.01/trades.jsonl", "json"),
        ("trades.v2", "parquet"),
    ],
)
def test_the_kind_of_a_path(path: str, kind: str) -> None:
    assert paths.kind_of(path) == kind


# ---- results ---------------------------------------------------------------------------------------


def test_the_result_is_a_table_on_the_screen(calls: Calls) -> None:
    result = invoke("run", QUERY)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["symbol", "price"] in lines
    assert ["A", "1.5"] in lines
    assert ["null", "2.0"] in lines
    assert "2 rows" in result.stderr


def test_a_limit_shows_so_many_rows_and_says_there_are_more(calls: Calls) -> None:
    result = invoke("run", QUERY, "--limit", 1)
    assert "A" in result.stdout
    assert "null" not in result.stdout
    assert "The first 1 rows" in result.stderr


def test_without_a_limit_the_screen_shows_some_rows(calls: Calls) -> None:
    calls.rows = [("A", float(i)) for i in range(200)]
    result = invoke("run", QUERY)
    assert "49.0" in result.stdout
    assert "50.0" not in result.stdout
    assert "The first 50 rows" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "parquet"], "give --output"),
        (["--format", "table", "--output", "out"], "choose parquet, csv, json or delta"),
        (["--format", "xml"], "xml"),
        (["--limit", "-1"], "--limit"),
    ],
)
def test_formats_that_do_not_fit(calls: Calls, arguments: list[str], message: str) -> None:
    result = invoke("run", QUERY, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert calls.texts == []


def test_an_output_that_exists_is_kept(calls: Calls, parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    result = invoke("run", QUERY, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "--overwrite" in result.stderr
    assert calls.texts == []


@pytest.mark.parametrize("output", ["t.parquet", ".", "t.parquet/part"])
def test_an_input_is_never_overwritten(calls: Calls, parquet: Path, output: str) -> None:
    result = invoke("run", QUERY, "-t", f"t={parquet}", "--output", parquet.parent / output, "--overwrite")
    assert result.exit_code == 2
    assert "overlaps the input" in result.stderr


@pytest.mark.parametrize(
    ("wanted", "output", "expected"),
    [
        (None, None, "table"),
        (None, "out", "parquet"),
        (None, "out.csv", "csv"),
        (None, "out.json", "json"),
        ("json", "out.csv", "json"),
        ("csv", None, "csv"),
        ("delta", "out", "delta"),
        (None, "delta:out", "delta"),
    ],
)
def test_the_format_follows_the_output(wanted: str | None, output: str | None, expected: str) -> None:
    path, chosen = choose_output(Format(wanted) if wanted else None, output)
    assert chosen == Format(expected)
    assert path == ("out" if expected == "delta" else output)


# ---- streams ---------------------------------------------------------------------------------------


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").touch()
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--watermark", "1 second"], "cannot be given without --follow"),
        (["--checkpoint", "c"], "cannot be given without --follow"),
        (["--follow"], "How late may events come?"),
        (["--follow", "--watermark", "1 second", "--limit", "0"], "--limit cannot be given with --follow"),
        (["--follow", "--watermark", "1 second", "--overwrite"], "--overwrite cannot be given with --follow"),
        (["--follow", "--watermark", "1 second", "--format", "parquet"], "give --output"),
    ],
)
def test_options_of_streams(calls: Calls, followed: Path, arguments: list[str], message: str) -> None:
    result = invoke("run", QUERY, "--table", f"t={followed}", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert calls.texts == []


def test_only_directories_with_files_are_followed(calls: Calls, followed: Path) -> None:
    (followed.parent / "empty" / "_spark_metadata").mkdir(parents=True)
    (followed.parent / "empty" / "_spark_metadata" / "0").touch()
    (followed.parent / "empty" / ".unfinished").touch()
    for path, message in [(followed / "1.json", "is not a directory"), (followed.parent / "empty", "no files")]:
        result = invoke("run", QUERY, "--table", f"t={path}", "--follow", "--watermark", "1 second")
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.replace("│", " ").split())
    assert calls.texts == []


def test_without_tables_there_is_nothing_to_follow(calls: Calls) -> None:
    result = invoke("run", QUERY, "--follow", "--watermark", "1 second")
    assert result.exit_code == 2
    assert "no stream to follow" in result.stderr
    assert calls.texts == []


def test_files_of_another_run_are_not_added_to(calls: Calls, followed: Path) -> None:
    output, checkpoint = followed.parent / "out", followed.parent / "checkpoint"
    output.mkdir()
    arguments = ["run", QUERY, "-t", f"t={followed}", "--follow", "--watermark", "1 second", "--output", output]
    for options in ([], ["--checkpoint", checkpoint]):
        result = invoke(*arguments, *options)
        assert result.exit_code == 2
        assert "that it was written with" in " ".join(result.stderr.replace("│", " ").split())
    checkpoint.mkdir()
    inputs.check_followed_output(str(output), [str(followed)], str(checkpoint))
    with pytest.raises(typer.BadParameter, match="overlaps the input"):
        inputs.check_followed_output(str(followed / "out"), [str(followed)], None)


def test_the_kind_of_a_followed_directory(followed: Path) -> None:
    assert paths.kind_of_files(str(followed)) == "json"
    assert paths.kind_of_files("s3a://bucket/trades.csv") == "csv"


# ---- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EpisodeSyntaxError("No.", source=QUERY, position=QUERY.index("PATTERN"), length=7, hint="Write [this]."), 2),
        (EpisodeAnalysisError("No."), 2),
        (EpisodeDataError("A time is null."), 1),
        (EpisodeError("Something else."), 2),
        (RuntimeError("out of [luck]"), 1),
    ],
)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_errors_are_messages_with_an_exit_code(calls: Calls, command: str, error: Exception, code: int) -> None:
    calls.error = error
    result = invoke(command, QUERY)
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert str(error) in result.stderr
    assert result.stderr.startswith("error: ")


def test_a_syntax_error_points_at_its_place(calls: Calls) -> None:
    calls.error = EpisodeSyntaxError("Unknown word.", source=QUERY, position=QUERY.index("PATTERN"), length=7)
    lines = invoke("run", QUERY).stderr.splitlines()
    line = next(line for line in lines if QUERY in line)
    carets = next(line for line in lines if "^^^^^^^" in line)
    assert line.index("PATTERN") == carets.index("^")


def test_long_lines_are_not_broken(calls: Calls) -> None:
    text = QUERY + " " * 300 + "x"
    calls.error = EpisodeSyntaxError("Here.", source=text, position=len(text) - 1)
    shown = str(calls.error).splitlines()[2]
    assert len(shown) > 160
    assert any(line.endswith(shown) for line in invoke("run", text).stderr.splitlines())


def test_the_traceback_is_there_on_request(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPISODE_TRACEBACK", "1")
    calls.error = RuntimeError("deep inside")
    assert isinstance(invoke("run", QUERY).exception, RuntimeError)


def test_an_interrupt_ends_quietly(calls: Calls) -> None:
    with pytest.raises(typer.Exit) as end, report_errors(Console(stderr=True)):
        raise KeyboardInterrupt
    assert end.value.exit_code == 130


# ---- the rest --------------------------------------------------------------------------------------


def test_values_of_parameters_are_passed_by_name(calls: Calls, parquet: Path) -> None:
    for command in ("run", "explain"):
        invoke(command, QUERY, "-t", f"t={parquet}", "--arg", "x=5", "-a", "name=a b")
    assert calls.arguments == [{"x": 5, "name": "a b"}] * 2
    assert invoke("run", QUERY, "-t", f"t={parquet}", "--arg", "5").exit_code == 2


def test_explain_prints_the_plan(calls: Calls, parquet: Path) -> None:
    result = invoke("explain", QUERY, "-t", f"t={parquet}")
    assert result.stdout == "a plan [not markup]\n"
    assert calls.how == [{"analyze": False, "format": "text"}]


def test_explain_writes_a_picture(calls: Calls, parquet: Path, tmp_path: Path) -> None:
    """By the suffix of the file, or as it is asked for; no file is replaced by accident."""
    for name, arguments, expected in (
        ("plan.svg", (), "svg"),
        ("plan.HTML", (), "html"),
        ("plan.txt", (), "text"),
        ("plan", ("--format", "svg"), "svg"),
    ):
        result = invoke("explain", QUERY, "-t", f"t={parquet}", "-o", str(tmp_path / name), "--analyze", *arguments)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        assert calls.how[-1] == {"analyze": True, "format": expected}
        assert (tmp_path / name).read_text() == "a plan [not markup]\n"
    again = invoke("explain", QUERY, "-t", f"t={parquet}", "-o", str(tmp_path / "plan.svg"))
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert (
        invoke("explain", QUERY, "-t", f"t={parquet}", "-o", str(tmp_path / "plan.svg"), "--overwrite").exit_code == 0
    )
    assert invoke("explain", QUERY, "-t", f"t={parquet}", "-o", str(tmp_path / "no" / "plan.svg")).exit_code == 2
    assert invoke("explain", QUERY, "-t", f"t={parquet}", "--format", "png").exit_code == 2


def test_version() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("episode 0.")


def test_help_names_the_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("run", "explain", "demo", "samples"))


def test_the_path_of_the_jar_is_printed() -> None:
    result = invoke("jar")
    assert result.exit_code == 0
    assert Path(result.stdout.strip()).is_file()


def test_samples_are_written(tmp_path: Path) -> None:
    result = invoke("samples", tmp_path / "data")
    assert result.exit_code == 0
    assert {path.name for path in (tmp_path / "data").iterdir()} == {
        "ticks.parquet",
        "clicks.parquet",
        "planted.parquet",
    }


def test_a_table_shows_values_as_they_are() -> None:
    console = Console(width=80, record=True, file=StringIO())
    console.print(result_table(["text", "n"], [("[bold]x[/bold]", 10), (None, -1)]))
    shown = console.export_text()
    assert "[bold]x[/bold]" in shown
    assert "null" in shown


def test_progress_counts_the_tasks_of_running_stages() -> None:
    stages = {3: SimpleNamespace(numTasks=10, numCompletedTasks=4), 5: SimpleNamespace(numTasks=2, numCompletedTasks=0)}
    tracker = SimpleNamespace(getActiveStageIds=lambda: [5, 3, 9], getStageInfo=stages.get)
    assert running_tasks(tracker) == ([3, 5, 9], 4, 12)


def test_progress_is_silent_without_a_terminal_or_a_tracker() -> None:
    for spark, is_terminal in [(None, True), (SimpleNamespace(sparkContext=SimpleNamespace()), False)]:
        output = StringIO()
        with progress(spark, Console(file=output, force_terminal=is_terminal)):
            pass
        assert output.getvalue() == ""


# ---- live queries ------------------------------------------------------------------------------------


class FakeLiveQuery:
    """Stands in for a live query that has ended."""

    isActive = False
    into = "the stream Alerts"
    checkpoint = "/catalog/.live/1"
    metricsPort = None
    status: ClassVar[dict[str, Any]] = {"message": "Stopped"}
    lastProgress = None
    error: Exception | None = None

    def exception(self) -> Exception | None:
        return self.error


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def start(text: str, arguments: Any, **given: Any) -> FakeLiveQuery:
        calls.append((text, arguments, given))
        return FakeLiveQuery()

    monkeypatch.setattr(episode, "start", start)
    return calls


def test_a_live_query(started: list[tuple[Any, ...]]) -> None:
    given = ("--into", "Alerts", "--input", "push", "--tasks", "2", "--checkpoint", "state", "--arg", "x=5")
    result = invoke("run", QUERY, "--live", *given, "--metrics", "0")
    assert result.exit_code == 0, result.stderr
    text, arguments, wishes = started[0]
    assert (text, arguments) == (QUERY, {"x": 5})
    assert Path(wishes.pop("checkpoint")) == Path("state").absolute()
    assert wishes == {"into": "Alerts", "input": "push", "tasks": 2, "metrics_port": 0}
    assert "stopped: no events" in result.stderr


def test_a_live_query_keeps_its_checkpoint_by_its_output(started: list[tuple[Any, ...]]) -> None:
    result = invoke("run", QUERY, "--live", "--into", "kafka://h:9092/alerts")
    assert started[0][2]["into"] == {"kafka": "alerts", "kafka.bootstrap.servers": "h:9092"}
    assert (started[0][2]["checkpoint"], started[0][2]["input"]) == (None, "adaptive")
    assert "The checkpoint is in /catalog/.live/1" in result.stderr.replace("\n", " ")


def test_matches_of_a_live_query_may_go_to_the_screen(started: list[tuple[Any, ...]]) -> None:
    result = invoke("run", QUERY, "--live")
    assert "--into NAME keeps them" in result.stderr
    print_them = started[0][2]["into"]
    assert callable(print_them)
    assert not Path(started[0][2]["checkpoint"]).exists(), "it was for this run alone"


def test_an_error_of_a_live_query(started: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLiveQuery, "error", EpisodeDataError("too much"))
    result = invoke("run", QUERY, "--live", "--into", "Alerts")
    assert (result.exit_code, "too much" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--into", "Alerts"], "--into cannot be given without --live"),
        (["--tasks", "2"], "--tasks cannot be given without --live"),
        (["--live", "--follow"], "--follow cannot be given with --live"),
        (["--live", "--table", "t=x"], "--table cannot be given with --live"),
        (["--live", "--output", "x"], "--output cannot be given with --live"),
        (["--live", "--into", "kafka://h"], "not of the form kafka://HOST:PORT/TOPIC"),
    ],
)
def test_options_of_live_queries(started: list[tuple[Any, ...]], arguments: list[str], message: str) -> None:
    result = invoke("run", QUERY, *arguments)
    assert (result.exit_code, started) == (2, [])
    assert message in " ".join(result.stderr.replace("│", " ").split())
