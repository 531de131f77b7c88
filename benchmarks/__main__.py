"""`python -m benchmarks [NAME...] [--json]`: run benchmarks, one line a point.

Each module here with a `points` function is one, named after the question it answers.
"""

import argparse
import ast
import importlib
import json
import sys
from pathlib import Path

from benchmarks.measuring import machine


def main(arguments: list[str]) -> int:
    """Run the benchmarks that are named, all where none is; return the exit code."""
    questions = _questions()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run benchmarks, one line a point; all of them where none is named, which takes hours.",
        epilog="\n".join(f"  {name:<20}{question}" for name, question in questions.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones, of those below")
    parser.add_argument("--json", action="store_true", help="one JSON object a point")
    parser.add_argument("--changes", type=int, metavar="N", help="how many changes the benchmark soak has")
    asked = parser.parse_args(arguments)
    for name in asked.names:
        if name not in questions:
            parser.error(f"no benchmark '{name}'; there are {', '.join(questions)}")
    print(json.dumps({"machine": machine()}), flush=True)
    for name in asked.names or questions:
        if not asked.json:
            print(f"\n{name}: {questions[name]}", flush=True)
        for point in importlib.import_module(f"benchmarks.{name}").points():
            line = {"benchmark": name, **point}
            print(json.dumps(line) if asked.json else "  ".join(f"{k}={v}" for k, v in point.items()), flush=True)
    return 0


def _questions() -> dict[str, str]:
    """Return the first line of each benchmark, by its name; none of them is imported."""
    found = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        module = ast.parse(file.read_bytes())
        if any(isinstance(part, ast.FunctionDef) and part.name == "points" for part in module.body):
            found[file.stem] = (ast.get_docstring(module) or "").partition("\n")[0]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
