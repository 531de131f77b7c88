"""Plots for notebooks, drawn with matplotlib, which is imported by the first plot.

Invariant: given axes are returned; plots are neither shown nor saved here.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.constraints import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_NAME = 40


def bars(counts: Mapping[str, int], label: str, ax: "Axes | None" = None) -> "Axes":
    """Draw a bar for each name, the first at the top; return the axes."""
    ax = _axes(ax, height=0.8 + 0.35 * len(counts))
    drawn = ax.barh(range(len(counts)), list(counts.values()))
    ax.bar_label(drawn, [f"{count:,}" for count in counts.values()], padding=3)
    ax.set_yticks(range(len(counts)), [_plain(name) for name in counts])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel(label)
    return ax


def lines(values: Mapping[str, Sequence[int | None]], label: str, ax: "Axes | None" = None) -> "Axes":
    """Draw a line for each name over batches, from 1; return the axes."""
    ax = _axes(ax, height=3.2)
    from matplotlib.ticker import MaxNLocator

    for name, numbers in values.items():
        known = [(batch, number) for batch, number in enumerate(numbers, 1) if number is not None]
        ax.plot([batch for batch, _ in known], [number for _, number in known], marker=".", label=_plain(name))
    ax.set_xlabel("batch")
    ax.set_ylabel(label)
    ax.margins(y=0.1)
    ax.autoscale_view()
    ax.set_ylim(bottom=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    if values.keys() - {label}:  # a single line of that name needs no legend
        ax.legend()
    return ax


def _axes(ax: "Axes | None", height: float) -> "Axes":
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise UsageError(
            "plots need matplotlib, which is not installed: pip install 'holdfast[notebook]' (to_pandas() does without)"
        ) from error
    return pyplot.subplots(figsize=(7, height), layout="constrained")[1]


def _plain(name: str) -> str:
    r"""Return a name for a plot: short, without formulas between dollar signs.

    >>> _plain("a$b$"), _plain("_x")
    ('a\\$b\\$', ' _x')
    """
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    shown = "".join(c if c.isprintable() else " " for c in short).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown  # matplotlib leaves out labels that start with an underscore
