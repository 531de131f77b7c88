"""Bits that flip and files that end too early, in state, backup and checkpoint: refused with what to do, or unharmed.

Each trial takes an application as a kill left it, damages one file, and starts it. What is refused has to be mended by what the
message says (`holdfast rebuild`, a file that is removed or brought back); then the history goes on to its end, and the
outputs have to be those of its rows. HOLDFAST_DAMAGE_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from rocksdict import Cache

from holdfast.constraints import ExternalError, StateRefused
from holdfast.jobs.command_line import exit_code_of
from holdfast.state import rocks
from holdfast.state.commits import Commits
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch
from tests.recovery.process import History, Process, check, holdfast

SEED = int(os.environ.get("HOLDFAST_DAMAGE_SEED", random.SystemRandom().randrange(2**32)))
TRIALS = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else int(os.environ.get("HOLDFAST_DAMAGE", "1"))
OFFSETS, LEFT = 10, 8
KINDS = {
    "sst": "state/*.sst",
    "log of writes": "state/*.log",
    "manifest of the state": "state/MANIFEST-*",
    "current": "state/CURRENT",
    "options": "state/OPTIONS-*",
    "log record": "backup/*/log/*/0*[0-9]",
    "first of an epoch": "backup/*/log/*/first",
    "snapshot manifest": "backup/*/snapshots/*",
    "snapshot file": "backup/*/files/*",
    "owner": "backup/*/OWNER",
    "metadata": "checkpoint/*/metadata",
    "offsets": "checkpoint/*/offsets/*",
    "commits": "checkpoint/*/commits/*",
}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application as a kill left it, restored once, so that it has two epochs."""
    made = tmp_path_factory.mktemp("left") / "made"
    made.mkdir()
    history = History(5, OFFSETS)
    process = Process(made, history)
    process.follow(LEFT - 4)
    process.stop()
    shutil.rmtree(made / "state")
    assert exit_code_of(["rebuild", str(made / "conf.yaml")]) == 0
    process = Process(made, history)
    process.follow(LEFT)
    copy = made.with_name("killed")
    for _ in range(20):
        with suppress(shutil.Error):  # a file went meanwhile
            # while it is open: as a kill leaves it. The state is first: what is noted in it was done before.
            shutil.copytree(made / "state", copy / "state")
            shutil.copytree(made, copy, ignore=shutil.ignore_patterns("state"), dirs_exist_ok=True)
            if _is_of_one_moment(copy):
                break
        shutil.rmtree(copy, ignore_errors=True)
    process.kill()
    return copy


def _is_of_one_moment(copy: Path) -> bool:
    """Whether a copy that took a while has all files that its tables name, as what a kill leaves has."""
    tables = [DeltaTable(path.parent) for path in copy.glob("output/*/_delta_log")]
    return all(Path(file).exists() for table in tables for file in table.file_uris())


def _damaged(path: Path, how: str, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    else:
        del data[dice.randrange(len(data)) :]
    path.write_bytes(bytes(data))


OF_BACKUP = [kind for kind, place in KINDS.items() if place.startswith("backup/")]


@pytest.mark.parametrize("how", ["flip", "cut"])
@pytest.mark.parametrize(("kind", "lost"), [*((kind, "") for kind in KINDS), *((kind, "state") for kind in OF_BACKUP)])
def test_a_damaged_file_is_refused_or_does_no_harm(
    left: Path,
    kind: str,
    lost: str,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(f"{SEED} {kind} {how} {lost}")
    for trial in range(TRIALS):
        folder = tmp_path / str(trial)
        shutil.copytree(left, folder)
        files = [path for path in sorted(folder.glob(KINDS[kind])) if path.is_file() and path.stat().st_size]
        path = dice.choice(files)
        _damaged(path, how, dice)
        monkeypatch.setattr(rocks, "_CACHE", Cache(8 << 20))  # blocks that were read before are not read again
        said: list[str] = []
        if lost:
            shutil.rmtree(folder / lost)
            _rebuilt(folder, left, path.relative_to(folder), capsys, said)
        _mended(folder, left, path.relative_to(folder), capsys, said)
        print(f"HOLDFAST_DAMAGE_SEED={SEED} {kind}, {how} {lost}: {path.name}: {' | '.join(said) or 'unharmed'}")
        check(folder, History(5, OFFSETS))
        shutil.rmtree(folder)


def _mended(folder: Path, left: Path, path: Path, capsys: pytest.CaptureFixture[str], said: list[str]) -> None:
    """Bring the history to its end, doing what messages say."""
    while len(said) < 6:
        try:
            process = Process(folder, History(5, OFFSETS))
            try:
                process.follow(OFFSETS)
                process.stop()
            except BaseException:
                process.kill()
                raise
        except (StateRefused, ExternalError) as error:
            said.append(str(error))
        else:
            return
        _follow_advice(said[-1], folder, left, path, capsys, said)
    raise AssertionError(said)


def _follow_advice(
    text: str, folder: Path, left: Path, path: Path, capsys: pytest.CaptureFixture[str], said: list[str]
) -> None:
    if "remove the file" in text:
        (folder / path).unlink()
        return
    assert "holdfast rebuild" in text, text
    _rebuilt(folder, left, path, capsys, said)


def _rebuilt(folder: Path, left: Path, path: Path, capsys: pytest.CaptureFixture[str], said: list[str]) -> None:
    """Rebuild, once the damaged file was brought back where that is asked for."""
    code, answer = holdfast(folder, "rebuild", capsys)
    said.append(answer)
    assert "Traceback" not in answer
    if code:
        assert code in {4, 5}, answer
        assert "from a copy of the backup" in answer, answer
        assert str(path) in answer, answer
        shutil.copyfile(left / path, folder / path)
        code, answer = holdfast(folder, "rebuild", capsys)
        assert code == 0, answer


def test_a_scan_that_meets_a_damaged_block_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RocksStore(tmp_path / "s")
    batch = WriteBatch()
    dice = random.Random(1)
    for number in range(3_000):
        batch.put("rows", number.to_bytes(4, "big"), dice.randbytes(50))
    store.write(batch)
    copy = store.linked()
    place = copy.rename(tmp_path / "copy")
    store.close()
    monkeypatch.setattr(rocks, "_CACHE", Cache(8 << 20))
    file = max(place.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    store = RocksStore(place)
    for read in (lambda: list(store.scan("rows")), store.verify):
        with pytest.raises(StateRefused, match=r"is damaged .*holdfast rebuild"):
            read()
    store.close()


def test_a_state_that_lost_its_last_writes_is_not_gone_on_with(
    left: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "app"
    shutil.copytree(left, folder)
    for log in folder.glob("state/*.log"):
        log.write_bytes(b"")
    history = History(5, OFFSETS)
    with pytest.raises(StateRefused, match=r"it lost its last writes. Restore it: holdfast rebuild"):
        Process(folder, history)
    code, said = holdfast(folder, "rebuild", capsys)
    assert code == 0, said
    assert "could not be used: it is now" in said
    process = Process(folder, history)
    process.follow(OFFSETS)
    process.stop()
    check(folder, history)


def test_a_state_that_lost_a_whole_family_is_refused(tmp_path: Path) -> None:
    """A list of files that ends before a family was made: its keys would be passed over."""
    from rocksdict import Rdict

    store = RocksStore(tmp_path / "s")
    batch = WriteBatch()
    batch.put("rows", b"1", b"1")
    batch.put("meta", b"1", b"1")
    store.write(batch)
    store.close()
    names = Rdict.list_cf(str(tmp_path / "s"))
    opened = Rdict(
        str(tmp_path / "s"), options=rocks._options(), column_families={name: rocks._options() for name in names}
    )
    opened.drop_column_family("rows")
    opened.close()
    with pytest.raises(StateRefused, match="is damaged \\(it has no rows any more\\)"):
        RocksStore(tmp_path / "s")


def test_a_family_is_noted_though_its_first_write_was_killed(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s")
    store._handle("rows")  # made, and then the process was killed
    store.close()
    store = RocksStore(tmp_path / "s")
    batch = WriteBatch()
    batch.put("rows", b"1", b"1")
    store.write(batch)
    store.close()
    store = RocksStore(tmp_path / "s")
    assert store._noted == {"rows"}
    store.close()


def test_a_table_that_had_its_rows_already_is_no_older_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the outbox was cleared, with a commit behind that brings it nothing: its version stays where it was."""
    history = History(5, OFFSETS)
    process = Process(tmp_path, history)
    process.follow(1)
    process.stop()
    process = Process(tmp_path, history)

    original = Commits.published

    def killed(commits: Commits, number: int, tables: Any) -> None:
        if "quarantine" in tables:
            raise KeyboardInterrupt
        original(commits, number, tables)

    with monkeypatch.context() as patch:
        patch.setattr(Commits, "published", killed)
        with suppress(KeyboardInterrupt):
            process.follow(2)  # with a bad record
        process.publisher._thread.join()
    process.publisher._failed = None
    process.follow(3)  # without one, and not published any more
    process.store.close()
    for _ in range(2):
        process = Process(tmp_path, history)
        process.follow(3)
        process.stop()
    process = Process(tmp_path, history)
    process.follow(OFFSETS)
    process.stop()
    check(tmp_path, history)


@pytest.mark.parametrize("name", ["batches", "constraints"])
def test_a_table_that_lost_its_last_versions_is_refused(left: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "app"
    shutil.copytree(left, folder)
    history = History(5, OFFSETS)
    process = Process(folder, history)
    process.follow(OFFSETS)
    process.stop()
    shutil.move(folder / "output" / name, tmp_path / "newest")
    shutil.copytree(left / "output" / name, folder / "output" / name)
    with pytest.raises(StateRefused, match=f"output table {name} has lost its last versions.*holdfast seed --replace"):
        Process(folder, history)
    shutil.rmtree(folder / "output" / name)
    shutil.move(tmp_path / "newest", folder / "output" / name)
    Process(folder, history).stop()
    check(folder, history)


def test_outputs_ahead_of_a_state_are_refused(left: Path, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    shutil.copytree(left, folder)
    history = History(5, OFFSETS)
    process = Process(folder, history)
    process.follow(OFFSETS)
    process.stop()
    for name in ("state", "backup"):  # an older copy of both
        shutil.rmtree(folder / name)
        shutil.copytree(left / name, folder / name)
    with pytest.raises(StateRefused, match=r"itself ends with commit .* an older copy.*holdfast seed --replace"):
        Process(folder, history)
