"""`python -m tests.mutation`: puts small defects into copies of the core, one at a time, and looks which the tests find.

    python -m tests.mutation --output found.jsonl          160 mutants, one line of JSON each
    python -m tests.mutation --list                        names them
    python -m tests.mutation --only zones.py --count 500   those of some files
    python -m tests.mutation --like found.jsonl --tests ../other/tests --output other.jsonl
                                                           the mutants of another run, against other tests
    python -m tests.mutation --compare found.jsonl other.jsonl
                                                           what the first tests find and the second do not: exit 1

A line has the mutant's identity, its outcome (`killed`, `timed out`, which counts as killed, `survived`, or
`equivalent`: nothing can tell it from the original, `equivalent.py` says why), the test that failed, and seconds. An
output that is there is continued.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.mutation.concerning import concerning
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant, chosen, mutants_of
from tests.mutation.running import Trees

_COUNT, _SEED = 160, 0
_KILLED = {"killed", "timed out"}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--count", type=int, default=_COUNT)
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--only", metavar="TEXT", help="mutants whose identity contains a text; not chosen by areas")
    parser.add_argument("--like", type=Path, metavar="FILE", help="the mutants of another run")
    parser.add_argument(
        "--tests", type=Path, metavar="FOLDER", help="tests that take the place of those beside this one"
    )
    parser.add_argument("--output", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that copies go, and the tests that run end
    if given.compare:
        return compare(*given.compare)
    root = Path(__file__).resolve().parents[2]
    mutants = _mutants(root, given)
    if given.list:
        print("\n".join(mutant.identity for mutant in mutants))
        return 0
    return run(root, mutants, given.tests, given.output)


def run(root: Path, mutants: list[Mutant], tests: Path | None, output: Path | None) -> int:
    """Run tests against mutants, and write what they made of each."""
    done = _outcomes(output) if output is not None and output.exists() else {}
    left = [mutant for mutant in mutants if mutant.identity not in done]
    counts = Counter(done[mutant.identity] for mutant in mutants if mutant.identity in done)
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
        trees = Trees(root, Path(folder), tests)
        for mutant in left:
            if mutant.identity in EQUIVALENT:
                line = {"outcome": "equivalent", "by": EQUIVALENT[mutant.identity], "seconds": 0.0}
            else:
                line = asdict(trees.run(mutant, concerning(mutant.path)))
            counts[str(line["outcome"])] += 1
            text = json.dumps({"mutant": mutant.identity, **line}, ensure_ascii=False)
            print(text, flush=True)
            if output is not None:
                output.parent.mkdir(parents=True, exist_ok=True)
                with output.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())), file=sys.stderr)
    return 1 if counts["survived"] else 0


def compare(first: Path, second: Path) -> int:
    """Print the mutants that only one of two runs killed; the second must not be weaker than the first."""
    before, after = _outcomes(first), _outcomes(second)
    common = before.keys() & after.keys()
    lost = sorted(m for m in common if before[m] in _KILLED and after[m] == "survived")
    won = sorted(m for m in common if before[m] == "survived" and after[m] in _KILLED)
    print(f"{len(common)} mutants in both: {len(lost)} killed in the first run only, {len(won)} in the second only")
    print("\n".join([*(f"- {mutant}" for mutant in lost), *(f"+ {mutant}" for mutant in won)]))
    return 1 if lost or not common else 0


def _mutants(root: Path, given: argparse.Namespace) -> list[Mutant]:
    """Return the mutants that are asked for."""
    if given.like is None and given.only is None:
        return chosen(root, given.count, given.seed)
    files = sorted({path.relative_to(root).as_posix() for path in _core(root)})
    every = [mutant for name in files for mutant in mutants_of(name, (root / name).read_text("utf-8"))]
    if given.only is not None:
        return [mutant for mutant in every if given.only in mutant.identity][: given.count]
    wanted = _outcomes(given.like)
    found = [mutant for mutant in every if mutant.identity in wanted]
    if len(found) < len(wanted):
        print(f"{len(wanted) - len(found)} of {len(wanted)} mutants are not possible here any more", file=sys.stderr)
    return found


def _core(root: Path) -> list[Path]:
    from tests.mutation.mutants import AREAS

    return [path for _, patterns in AREAS.values() for pattern in patterns for path in root.glob(pattern)]


def _outcomes(file: Path) -> dict[str, str]:
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return {line["mutant"]: line["outcome"] for line in lines}


if __name__ == "__main__":
    sys.exit(main())
