"""Where the daemon of Python workers takes pyspark from."""

from __future__ import annotations

from pathlib import Path

from episode.spark.daemon import without_archives


def installed(site: Path, *packages: str) -> str:
    for name in packages:
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").touch()
    return str(site)


def archives_in(directory: Path) -> list[str]:
    directory.mkdir(parents=True)
    paths = [directory / "pyspark.zip", directory / "py4j-0.10.9.9-src.zip"]
    for path in paths:
        path.touch()
    return [str(path) for path in paths]


def test_archives_of_an_installed_pyspark_are_left_out(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "pyspark", "py4j")
    archives = archives_in(tmp_path / "site" / "pyspark" / "python" / "lib")
    other = str(tmp_path / "jobs.zip")
    assert without_archives([*archives, other, site]) == [other, site]


def test_archives_of_another_spark_stay(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "pyspark", "py4j")
    path = [*archives_in(tmp_path / "opt" / "spark" / "python" / "lib"), site]
    assert without_archives(path) == path


def test_archives_that_alone_have_py4j_stay(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "pyspark")
    path = [*archives_in(tmp_path / "site" / "pyspark" / "python" / "lib"), site]
    assert without_archives(path) == path
