"""`holdfast discover`: read files, search them for constraints, write these.

Invariant: results are written once all files are searched, so that an error or an interrupt leaves no partial answer.
"""

from holdfast.jobs.files.addresses import paths_of
from holdfast.jobs.files.engines import engine_for
from holdfast.jobs.files.spaces import write_space
from holdfast.jobs.searches.contract import FileSearch
from holdfast.jobs.searches.exact import ExactSearch
from holdfast.jobs.searches.inclusion import InclusionSearch
from holdfast.jobs.searches.near import NearSearch
from holdfast.jobs.searches.one_list import OneListSearch
from holdfast.jobs.searches.one_table import NEAR_FAMILIES
from holdfast.jobs.searches.request import SearchRequest
from holdfast.jobs.terminal.output import one_line, results_to


def discover_files(request: SearchRequest) -> None:
    """Search files as requested, write the constraints, and note how many there are."""
    if request.as_rules:
        from holdfast.tables import table_names

        table_names(paths_of(request.files))  # refuses two tables of one name, which rules could not tell apart
    search = _search_for(request)
    progress = request.answering.progress()
    with engine_for(request.spark, progress) as engine:
        search.run(engine, progress)
        if request.write_space is not None:
            write_space(request.write_space, search.space)
        answer = search.rules(engine, progress) if request.as_rules else request.answering.lines(search.answer())
        with results_to(request.answering.output) as out:
            out.writelines(answer if request.as_rules else map(one_line, answer))
    for note in search.notes():
        progress.note(note)


def _search_for(request: SearchRequest) -> FileSearch:
    """Return the search for the families that are requested."""
    families = request.families
    if families == ("ind",):
        return InclusionSearch(request)
    if request.near is not None:
        is_near = families is None or set(families) <= set(NEAR_FAMILIES)
        return NearSearch(request) if is_near else OneListSearch(request)
    return ExactSearch(request) if families in {("dc",), ("od",)} else OneListSearch(request)
