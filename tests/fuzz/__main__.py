"""`python -m tests.fuzz READER --seconds N`: inputs by the million, led by the coverage that they reach.

    python -m tests.fuzz                              names the readers
    python -m tests.fuzz topic-json --seconds 60      atheris on one reader
    python -m tests.fuzz --all --seconds 60           on all of them, one after the other, with a line of figures each
    python -m tests.fuzz topic-json --replay FOLDER   each file of a folder once; prints what came of it, one line each

With NUMBA_DISABLE_JIT=1 the kernels are Python, whose branches atheris sees; without it they run as compiled. What
either leaves in `--corpus` is to give the same lines with `--replay` in both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_TIMEOUT_SECONDS = 20
_MEMORY_MB = 4_096
_LONGEST = 4_096


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("reader", nargs="?")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--longest", type=int, default=_LONGEST)
    given = parser.parse_args()
    if given.all:
        return _all(given)
    if given.replay is not None:
        return _replay(given.reader, given.replay)
    if given.reader is None:
        from tests.fuzz.readers import READERS

        print("\n".join(READERS))
        return 0
    return _fuzz(given)


def _fuzz(given: argparse.Namespace) -> int:
    """Let libFuzzer run; it ends the process itself."""
    import atheris

    kernels = [] if os.environ.get("NUMBA_DISABLE_JIT") == "1" else _kernels()
    with atheris.instrument_imports(include=["holdfast", "ruamel"], exclude=kernels):
        from tests.fuzz.readers import READERS, outcome
    reader = READERS[given.reader]
    with tempfile.TemporaryDirectory() as scratch:
        corpus = given.corpus or Path(scratch, "corpus")
        corpus.mkdir(parents=True, exist_ok=True)
        for seed in reader.seeds():
            (corpus / hashlib.sha256(seed).hexdigest()[:20]).write_bytes(seed)
        words = Path(scratch, "words")
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in reader.words if word))
        options = [f"-timeout={_TIMEOUT_SECONDS}", f"-rss_limit_mb={_MEMORY_MB}", f"-max_len={given.longest}"]
        options += ["-print_final_stats=1", f"-artifact_prefix={Path.cwd()}/fuzz-{given.reader}-"]
        options += [f"-dict={words}"] if reader.words else []
        options += [f"-max_total_time={given.seconds}"] if given.seconds else []
        options += [f"-runs={given.runs}"] if given.runs else []
        atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: outcome(reader, data) and None)
        atheris.Fuzz()
    return 0


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _kernels() -> list[str]:
    """Return the modules that numba compiles, which it cannot once atheris has changed them."""
    root = Path(__file__).resolve().parents[2]
    return [f"holdfast.{file.parts[-3]}.kernels.{file.stem}" for file in root.glob("*/kernels/*.py")]


def _replay(name: str, folder: Path) -> int:
    """Print what came of each file, as a checksum."""
    from tests.fuzz.readers import READERS, outcome

    for file in sorted(folder.iterdir()):
        came = repr(outcome(READERS[name], file.read_bytes()))
        print(file.name, hashlib.sha256(came.encode(errors="backslashreplace")).hexdigest()[:16])
    return 0


def _all(given: argparse.Namespace) -> int:
    """Run every reader in a process of its own."""
    from tests.fuzz.readers import READERS

    failed = 0
    for name in READERS:
        command = [sys.executable, "-m", "tests.fuzz", name, "--longest", str(given.longest)]
        for option in ("seconds", "runs"):
            if getattr(given, option):
                command += [f"--{option}", str(getattr(given, option))]
        if given.corpus:
            command += ["--corpus", str(given.corpus / name)]
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, check=False)
        said = ended.stderr.decode(errors="replace")
        failed += ended.returncode != 0
        counted = figures(said)
        if ended.returncode != 0:
            counted["found"] = counted["found"] or f"ended with {ended.returncode}"
        print(json.dumps({"reader": name, **counted, "seconds": round(time.monotonic() - began)}), flush=True)
        if ended.returncode != 0:
            print(said[-3_000:], file=sys.stderr, flush=True)
    return 1 if failed else 0


def figures(said: str) -> dict[str, Any]:
    """Return what libFuzzer counted."""
    inputs = re.findall(r"stat::number_of_executed_units:\s+(\d+)", said) or re.findall(
        r"^#(\d+)\s", said, re.MULTILINE
    )
    covered = re.findall(r"cov: (\d+)", said)
    problem = re.findall(
        r"^(?: === Uncaught Python exception: ===\n(.*)|.*(?:ERROR: libFuzzer: .*))$", said, re.MULTILINE
    )
    return {
        "inputs": int(inputs[-1]) if inputs else 0,
        "covered": int(covered[-1]) if covered else 0,
        "found": problem[0] if problem else None,
    }


if __name__ == "__main__":
    sys.exit(main())
