"""`python -m benchmarks [NAME...] [--json]`: run benchmarks, one line a point.

Each module here with a `points` function is one, named after the question it answers.
"""

import importlib
import json
import pkgutil
import sys

import benchmarks
from benchmarks.measuring import machine


def main(arguments: list[str]) -> int:
    as_json = "--json" in arguments
    values = {i + 1 for i, a in enumerate(arguments) if a == "--changes"}  # of `soak`
    named = [a for i, a in enumerate(arguments) if not a.startswith("-") and i not in values]
    modules = {
        info.name: importlib.import_module(f"benchmarks.{info.name}")
        for info in pkgutil.iter_modules(benchmarks.__path__)
        if info.name != "__main__"
    }
    known = {name: module for name, module in modules.items() if hasattr(module, "points")}
    unknown = [name for name in named if name not in known]
    if unknown:
        print(f"no benchmark '{unknown[0]}'; there are {', '.join(known)}", file=sys.stderr)
        return 2
    print(json.dumps({"machine": machine()}), flush=True)
    for name in named or known:
        if not as_json:
            print(f"\n{name}: {(known[name].__doc__ or '').splitlines()[0]}", flush=True)
        for point in known[name].points():
            line = {"benchmark": name, **point}
            print(json.dumps(line) if as_json else "  ".join(f"{k}={v}" for k, v in point.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
