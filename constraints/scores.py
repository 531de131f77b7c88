"""The score of a constraint, and what it says about the data: whether it is sound."""

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

SOUND = 0.6
"""The least strength of a sound constraint: in tables of random values hardly one is as strong."""

_UNRELATED = "it compares columns that have values in common by chance"
_BY_CHANCE = "chance explains it: few rows could violate it, or a part says as much"


def sound_of(scores: "Iterable[Score]") -> int:
    """Return how many of some scores are of sound constraints."""
    return sum(score.sound is True for score in scores)


class Score(float):
    """A score from 0 to 1, with the strength and the support that it is made of.

    Parameters
    ----------
    score : from 0 to 1.
    strength : how much rarer violations are than chance would have them, from 0 to 1; None if it is not measured.
    support : how many rows could have violated the constraint; None if it is not measured.
    compares_unrelated : whether it compares columns that have values in common by chance alone.

    Examples
    --------
    >>> best = sorted([Score(0.9, 0.1, 3), Score(0.5, 0.7, 80), Score(0.7)], key=Score.place)
    >>> best, [score.sound for score in best], best[-1].why_not
    ([0.7, 0.5, 0.9], [None, True, False], 'chance explains it: few rows could violate it, or a part says as much')
    """

    strength: float | None
    support: float | None
    compares_unrelated: bool

    def __new__(
        cls,
        score: float,
        strength: float | None = None,
        support: float | None = None,
        *,
        compares_unrelated: bool = False,
    ) -> Self:
        """Return a score."""
        made = super().__new__(cls, score)
        made.strength, made.support, made.compares_unrelated = strength, support, compares_unrelated
        return made

    @property
    def sound(self) -> bool | None:
        """Whether the constraint is sound; None if it is not measured."""
        return None if self.strength is None else self.strength >= SOUND and not self.compares_unrelated

    @property
    def why_not(self) -> str | None:
        """Why the constraint is not sound; None if it is sound, or if that is not measured."""
        if self.sound is not False:
            return None
        return _UNRELATED if self.compares_unrelated else _BY_CHANCE

    def rounded(self) -> "Score":
        """Return the score as it is published, to six places."""
        strength, support = (None if value is None else round(value, 6) for value in (self.strength, self.support))
        return Score(round(float(self), 6), strength, support, compares_unrelated=self.compares_unrelated)

    def place(self) -> tuple[bool, float]:
        """Return the key by which constraints are ranked: sound ones first, then by score."""
        return self.sound is False, -self
