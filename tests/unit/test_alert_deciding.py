"""What is told of a commit: what alerts ask for, what bodies say, and that no crash loses a message or makes one up."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

from holdfast.constraints import NearConstraint, NearShape, Violation
from holdfast.constraints.changes import RowImage
from holdfast.constraints.mutes import Mute, Mutes
from holdfast.state.commits import READY, Identity
from holdfast.state.store import WriteBatch
from holdfast.streaming.alerts import deciding
from holdfast.streaming.alerts.deciding import Alert, Message, Turned, messages
from holdfast.streaming.alerts.waiting import Waiting, alert_status, carried, put_carried
from holdfast.streaming.commits.incidents import incidents_of
from holdfast.streaming.commits.output_rows import OutputRows
from holdfast.streaming.maintainers.near.changes import ENTERED, EXCEPTIONS, IMPLIED, LEFT, VIOLATED, NearChange
from holdfast.streaming.maintainers.rules.state import RuleExample
from tests.memory_store import MemoryStore

if TYPE_CHECKING:
    import pytest

NOW = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
BOTH = frozenset({"broken", "recovered"})


def rows_of(commit: int = 7, changes: int = 0, **more: Any) -> OutputRows:
    rows = OutputRows(Identity("s1", 0, "app", READY), commit, NOW)
    for number in range(changes):
        about = {
            "constraint_id": f"id{number}",
            "table_name": "tax",
            "referenced_table": None,
            "family": "dc",
            "constraint": f"not(t.c{number} = s.c{number})",
            "sentence": "A sentence.",
            "kind": "key",
            "change": "disappeared",
            "cause": "data",
            "reason": "violated",
            "by": None,
            "witness": json.dumps([{"key": {}, "row": {"c": number}}]),
            **more,
        }
        rows.add("constraint_changes", about)
    return rows


def line_of(**more: Any) -> dict[str, Any]:
    return {
        "rule": "r1",
        "table_name": "tax",
        "constraint": "not(t.a > 1)",
        "violating_pairs": None,
        "violating_rows": 2,
        "missing_values": None,
        "broken": True,
        "threshold": None,
        "severity": "error",
        **more,
    }


def example(value: Any = 1) -> RuleExample:
    return RuleExample.of("r1", Violation((RowImage({"k": value}, {"k": value, "a": 2}),)))


class TestAsking:
    def test_rules(self) -> None:
        rules = [Turned(line_of()), Turned(line_of(rule="r2", table_name="other", broken=False))]
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({"on": BOTH}, ["r1", "r2"]),
            ({"on": frozenset({"recovered"})}, ["r2"]),
            ({"on": BOTH, "rule": "r1"}, ["r1"]),
            ({"on": BOTH, "table": "other"}, ["r2"]),
            ({"on": BOTH, "table": "other", "rule": "r1"}, []),
            ({"on": frozenset({"appeared"})}, []),
        ]
        for alert, expected in asked:
            found = messages([Alert(**alert)], rows_of(), rules)
            assert [message.body["rule"] for message in found] == expected, alert
            assert len({message.key for message in found}) == len(found)

    def test_changes(self) -> None:
        on = frozenset({"disappeared"})
        asked: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
            ({}, {}, True),
            ({}, {"change": "appeared"}, False),
            ({}, {"cause": "seed"}, False),
            ({}, {"cause": "rebuild"}, True),
            ({"table": "tax", "family": "dc", "kind": "key"}, {}, True),
            ({"table": "other"}, {}, False),
            ({"table": "other"}, {"referenced_table": "other", "family": "ind", "kind": None}, True),
            ({"kind": "constant"}, {}, False),
            ({"family": "od"}, {}, False),
        ]
        for alert, change, expected in asked:
            assert bool(messages([Alert(on, **alert)], rows_of(changes=1, **change), [])) == expected, (alert, change)

    def test_keys_are_of_what_is_told_alone(self) -> None:
        alerts = [Alert(BOTH, rule="r1"), Alert(frozenset({"disappeared"}))]
        first = messages(alerts, rows_of(changes=2), [Turned(line_of())])
        again = messages(alerts[::-1], rows_of(changes=2), [Turned(line_of())])
        assert {m.key for m in first} == {m.key for m in again}
        assert not {m.key for m in first} & {m.key for m in messages(alerts, rows_of(8, 2), [Turned(line_of())])}


class TestBodies:
    def test_of_a_rule(self) -> None:
        (message,) = messages([Alert(BOTH)], rows_of(), [Turned(line_of(), [example()])])
        assert message.body == {
            "application": "app",
            "state_id": "s1",
            "commit": 7,
            "committed_at": "2024-02-29T12:00:00.000000Z",
            "alert": ["broken"],
            "rule": "r1",
            "table": "tax",
            "constraint": "not(t.a > 1)",
            "sentence": "There is no row where `a` is above 1.",
            "severity": "error",
            "threshold": None,
            "violating_pairs": None,
            "violating_rows": 2,
            "missing_values": None,
            "examples": [{"id": example().example_id, "rows": [{"key": {"k": 1}, "row": {"k": 1, "a": 2}}]}],
        }

    def test_of_changes(self) -> None:
        rows = rows_of(changes=150)
        rows.payload["constraint_changes"][3]["change"] = "appeared"
        (message,) = messages([Alert(frozenset({"appeared", "disappeared"}))], rows, [])
        body = message.body
        assert body["alert"] == ["appeared", "disappeared"]
        assert (body["count"], body["appeared"], body["disappeared"], body["table"]) == (150, 1, 149, "tax")
        assert [change["constraint_id"] for change in body["changes"]] == [f"id{n}" for n in range(100)]
        assert body["changes"][5]["witness"] == [{"key": {}, "row": {"c": 5}}]

    def test_sentences_count_sound_constraints_and_name_one(self) -> None:
        rows = rows_of(changes=3, score=0.9, sound=False)
        rows.payload["constraint_changes"][2] |= {"score": 0.5, "sound": True}
        (message,) = messages([Alert(frozenset({"disappeared"}))], rows, [])
        assert message.body["incidents"] == ["3 constraints of tax ended with commit 7; 1 is sound, first key(c2)"]

    def test_alerts_with_the_same_mutes_share_the_incidents(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Mutes] = []

        def counted(rows: Any, mutes: Mutes) -> list[Any]:
            asked.append(mutes)
            return incidents_of(rows, mutes)

        monkeypatch.setattr(deciding, "incidents_of", counted)
        muted = Mutes((Mute("other", "key(Zip)"),))
        alerts = [Alert(frozenset({"disappeared"}), mutes=mutes) for mutes in (Mutes(), Mutes(), muted)]
        assert len(messages(alerts, rows_of(changes=2), [])) == 3
        assert asked == [Mutes(), muted]

    def test_rows_that_are_too_large_are_left_out(self) -> None:
        (message,) = messages([Alert(BOTH)], rows_of(), [Turned(line_of(), [example("é" * 50_000)] * 3)])
        assert [one["rows"] is None for one in message.body["examples"]] == [False, True, True]
        wide = json.dumps([{"key": {}, "row": {"c": "x" * 60_000}}])
        (message,) = messages([Alert(frozenset({"disappeared"}))], rows_of(changes=150, witness=wide), [])
        assert len(json.dumps(message.body)) < 300_000
        assert [len(change["witness"] or ()) for change in message.body["changes"]] == [1] * 3 + [0] * 97


class TestNear:
    ALERTS = frozenset({"nearly", "restored", "left"})

    def _told(self, *changes: NearChange, cause: str = "data", **asked: Any) -> list[Message]:
        rows = rows_of()
        for change in changes:
            told: dict[str, Any] = {
                "table_name": "tax",
                "change": change.change,
                "reason": change.reason,
                "cause": cause,
            }
            told |= {"exceptions_before": change.before, "sentence": "A sentence.", **change.constraint.fields()}
            told |= {"constraint_id": "i", "constraint": str(change.constraint)}
            rows.add("near_changes", {**told, "examples": json.dumps([{"key": {}, "row": {"a": 1}}])})
        return messages([Alert(**{"on": self.ALERTS, **asked})], rows, [])

    def test_what_turns(self) -> None:
        def near(exceptions: int) -> NearConstraint:
            return NearConstraint(NearShape.CONSTANT, ("zip",), ("city",), exceptions, 80)

        turns: list[tuple[NearChange, str | None]] = [
            (NearChange(near(1), EXCEPTIONS, 0), "nearly"),
            (NearChange(near(2), EXCEPTIONS, 1), None),
            (NearChange(near(40), EXCEPTIONS, 4), "nearly"),
            (NearChange(near(4), EXCEPTIONS, 40), "restored"),
            (NearChange(near(0), EXCEPTIONS, 1), "restored"),
            (NearChange(near(0), ENTERED, None), None),
            (NearChange(near(1), ENTERED, None), "nearly"),
            (NearChange(near(3), LEFT, 1, VIOLATED), "left"),
            (NearChange(near(3), LEFT, 3), None),  # not looked for any more
            (NearChange(near(0), LEFT, 0, IMPLIED), None),
        ]
        for change, word in turns:
            found = self._told(change)
            assert [message.body["alert"] for message in found] == ([] if word is None else [[word]]), change
            for message in found:
                (told,) = message.body["changes"]
                assert (told["change"], told["exceptions_before"]) == (word, change.before)
                assert (told["constraint"], told["exceptions"]) == ("{zip}: [] -> city", change.constraint.exceptions)
                assert told["examples"] == [{"key": {}, "row": {"a": 1}}]
            assert bool(self._told(change, on=frozenset({"left"}))) == (word == "left")
            assert not self._told(change, table="other")
            assert not self._told(change, cause="seed")

    def test_many_are_one_message_beside_that_about_constraints(self) -> None:
        change = NearChange(NearConstraint(NearShape.KEY, ("a",), (), 1, 8), EXCEPTIONS, 0)
        rows = rows_of(changes=2)
        about = {"table_name": "tax", "change": "exceptions", "reason": None, "cause": "data", "exceptions_before": 0}
        for n in range(150):
            named = {"sentence": "", "constraint_id": f"n{n}", "constraint": "key(a)"}
            rows.add("near_changes", {**change.constraint.fields(), **about, **named})
        found = messages([Alert(self.ALERTS | {"disappeared"})], rows, [])
        assert [message.body["count"] for message in found] == [2, 150]
        assert len({message.key for message in found}) == 2
        body = found[1].body
        assert (body["nearly"], body["restored"], body["left"], body["table"]) == (150, 0, 0, "tax")
        assert [change["constraint_id"] for change in body["changes"]] == [f"n{n}" for n in range(100)]


class TestSuspects:
    def _rows(self, **more: Any) -> OutputRows:
        """Return the rows of a commit with two suspects, of which the second is surer."""
        rows = rows_of()
        for number, score in ((3, 0.95), (4, 0.99)):
            image = {"id": number, "city": "Lynn"}
            row: dict[str, Any] = {"suspect_id": str(number), "table_name": "tax"}
            row |= {"change": "appeared", "cause": "data"}
            row |= {"row_key": json.dumps({"id": number}), "row": json.dumps(image), "column": "city", "score": score}
            row |= {"value": '"Lynn"', "expected": "null", "constraints": '["{zip}: [] -> city"]', **more}
            rows.add("suspect_changes", row)
        return rows

    def test_a_sentence_has_the_number_and_the_surest_suspect(self) -> None:
        asked = Alert(frozenset({"suspect", "nearly"}))
        (message,) = messages([asked], self._rows(expected='"Boston"'), [])
        body = message.body
        assert (body["alert"], body["table"], body["count"]) == (["suspect"], "tax", 2)
        assert body["sentence"] == (
            f"2 cells of tax are probably wrong since commit {body['commit']}, first city of id 4 is "
            '"Lynn", expected "Boston"'
        )
        first, second = body["suspects"]
        assert (first["key"], second["key"], first["row"]) == ({"id": 4}, {"id": 3}, {"id": 4, "city": "Lynn"})
        assert (first["value"], first["is_expected"], first["expected"]) == ("Lynn", True, "Boston")
        assert first["constraints"] == ["{zip}: [] -> city"]
        (other,) = messages([asked], self._rows(expected=None), [])
        assert other.body["sentence"].endswith('is "Lynn"'), "no certain value is expected"
        assert other.key == message.key
        (null,) = messages([asked], self._rows(), [])
        assert null.body["sentence"].endswith("expected null")

    def test_who_is_not_told(self) -> None:
        asked = frozenset({"suspect"})
        muted = Mutes((Mute("tax", "zip -> city"),))
        silent: tuple[tuple[Alert, dict[str, Any]], ...] = (
            (Alert(frozenset({"nearly"})), {}),
            (Alert(asked, table="other"), {}),
            (Alert(asked), {"change": "disappeared"}),
            (Alert(asked), {"cause": "seed"}),
            (Alert(asked, mutes=muted), {}),
        )
        assert [messages([alert], self._rows(**more), []) for alert, more in silent] == [[]] * len(silent)
        unmuted = {"constraints": '["{zip}: [] -> city", "{zip}: [] -> state"]'}
        assert len(messages([Alert(asked, mutes=muted)], self._rows(**unmuted), [])) == 1

    def test_it_waits_like_every_alert(self) -> None:
        waiting = Waiting(store := MemoryStore(), [Alert(frozenset({"suspect"}))])
        change = WriteBatch()
        waiting.decide(self._rows(), [], change)
        store.write(change)
        waiting.committed()
        assert waiting.count == 1

    def test_wide_rows_are_left_out(self) -> None:
        wide = {"row": json.dumps({"id": 1, "city": "Lynn", "text": "x" * 200_000})}
        (message,) = messages([Alert(frozenset({"suspect"}))], self._rows(**wide), [])
        assert [one["row"] is None for one in message.body["suspects"]] == [False, True]


class TestWaiting:
    def test_too_many_drop_the_oldest(self) -> None:
        store, dropped = MemoryStore(), list[int]()
        waiting = Waiting(store, [Alert(BOTH), Alert(BOTH)], most=5)
        waiting.on_dropped = dropped.append
        for commit in range(1, 5):
            change = WriteBatch()
            waiting.decide(rows_of(commit), [Turned(line_of())], change)
            store.write(change)
            waiting.committed()
        assert dropped == [1, 2]
        assert waiting.count == alert_status(store)["alerts_waiting"] == 5
        commits = [message.body["commit"] for key in waiting.heads().values() if (message := waiting.read(key))]
        assert sorted(commits) == [2, 3]
        assert Waiting(store, [Alert(BOTH), Alert(BOTH)]).count == 5

    def test_more_in_one_commit_than_may_wait(self) -> None:
        store, dropped = MemoryStore(), list[int]()
        waiting = Waiting(store, [Alert(BOTH)], most=2)
        waiting.on_dropped = dropped.append
        change = WriteBatch()
        waiting.decide(rows_of(), [Turned(line_of(rule=f"r{n}")) for n in range(5)], change)
        store.write(change)
        waiting.committed()
        (head,) = waiting.heads().values()
        message = waiting.read(head)
        assert message is not None
        assert (dropped, waiting.count, message.body["rule"]) == ([3], 2, "r3")

    def test_nothing_is_handed_out_before_the_commit(self) -> None:
        store = MemoryStore()
        waiting = Waiting(store, [Alert(BOTH)])
        change = WriteBatch()
        waiting.decide(rows_of(), [Turned(line_of())], change)
        assert (waiting.heads(), waiting.count) == ({}, 0)
        store.write(change)
        assert waiting.heads() == {}
        waiting.committed()
        assert len(waiting.heads()) == 1

    def test_a_closed_one_touches_the_store_no_more(self) -> None:
        store = MemoryStore()
        waiting = Waiting(store, [Alert(BOTH)])
        change = WriteBatch()
        waiting.decide(rows_of(), [Turned(line_of())], change)
        store.write(change)
        waiting.committed()
        (key,) = waiting.heads().values()
        waiting.close()
        waiting.done(key)
        waiting.failed({"at": "now"})
        assert waiting.read(key) is None
        assert alert_status(store) == {"alerts_waiting": 1, "alert_failure": None}

    def test_what_waited_goes_to_the_next_state_before_its_own(self) -> None:
        old, new = MemoryStore(), MemoryStore()
        for store, commits in ((old, (5, 9)), (new, (8, 9))):
            for commit in commits:
                waiting = Waiting(store, [Alert(BOTH)])
                change = WriteBatch()
                if store is new and commit == 8:
                    put_carried(carried(old), change)
                waiting.decide(rows_of(commit), [Turned(line_of(rule=f"{'new' if store is new else 'old'}"))], change)
                store.write(change)
        waiting, seen = Waiting(new, [Alert(BOTH)]), []
        while heads := list(waiting.heads().values()):
            message = waiting.read(heads[0])
            assert message is not None
            seen.append((message.body["rule"], message.body["commit"]))
            waiting.done(heads[0])
        assert seen == [("old", 5), ("old", 9), ("new", 8), ("new", 9)]
