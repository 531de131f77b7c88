"""Laws of a table under another definition where its rows are in blocks: those of `test_evolving.py`."""

import shutil

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.values import Row
from tests.properties.maintained_tables import Setting, setting_and_seed, tiny_pieces
from tests.properties.test_block_laws import BlockLaw, tiny_blocks
from tests.properties.test_evolving import check_evolving

__all__ = ["tiny_blocks", "tiny_pieces"]


@given(drawn=setting_and_seed(), data=st.data())
def test_blocks_are_written_anew_in_the_columns_of_another_definition(
    drawn: tuple[Setting, list[Row]], data: st.DataObject
) -> None:
    law = BlockLaw(*drawn)
    try:
        check_evolving(law, data)
    finally:
        shutil.rmtree(law.folder)
