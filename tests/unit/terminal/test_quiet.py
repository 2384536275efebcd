"""Messages of child processes stay off the terminal; those of Python do not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from episode.errors import EpisodeError
from episode.terminal.quiet import could_not_start, quiet_spark

NOISE = 'import subprocess; subprocess.run(["sh", "-c", "echo noise >&2"], check=True)'


def stderr_of(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_a_child_started_inside_is_quiet_and_python_is_not() -> None:
    code = f"""
import sys
from episode.terminal.quiet import quiet_spark
with quiet_spark():
    {NOISE}
    print("spoken", file=sys.stderr)
print("afterwards", file=sys.stderr)
{NOISE}
"""
    assert stderr_of(code) == ["spoken", "afterwards", "noise"]


def test_a_child_that_goes_on_stays_quiet() -> None:
    code = """
import subprocess
from episode.terminal.quiet import quiet_spark
with quiet_spark():
    child = subprocess.Popen(["sh", "-c", "read line; echo late >&2"], stdin=subprocess.PIPE)
child.communicate(b"go")
"""
    assert stderr_of(code) == []


def test_a_jvm_that_does_not_start_is_told_with_what_it_said() -> None:
    def start() -> None:
        subprocess.run(["sh", "-c", "echo no java here >&2"], check=True)
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    with pytest.raises(EpisodeError, match="Spark could not start") as raised, quiet_spark():
        start()
    assert "no java here" in str(raised.value)
    assert "Java 17 or 21" in str(raised.value)


def test_packages_that_are_not_found_are_named() -> None:
    said = ":: problems summary ::\nmodule not found: org.example#nothing;1.0\n"
    said += "unresolved dependency: org.example#nothing;1.0: not found\n\tat java.base/java.lang.Thread.run"
    error = could_not_start(said)
    assert "packages were not found or could not be loaded: org.example:nothing:1.0." in str(error)
    assert "Java" not in str(error)
    assert "Java 17" in str(could_not_start("sh: java: not found"))
    other = could_not_start('Exception in thread "main" java.lang.IllegalArgumentException: Could not parse Master URL')
    assert other.hint is None


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="something else"), quiet_spark():
        raise RuntimeError("something else")
