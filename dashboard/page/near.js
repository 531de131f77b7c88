// Near constraints: the list, one constraint with its exceptions over time, and those whose exceptions changed most.

import { actionList, constraintCard, lastProof, toCopy } from "./constraint.js";
import { el, link, value } from "./dom.js";
import { FIRST, constraint, filters, incidentOf, more, scrolled, soundOnly, spans, tableLink, title } from "./parts.js";
import { plot } from "./plot.js";
import { listed } from "./rows.js";
import { SHAPES, SPANS, ago, count, counted, moment, percent } from "./words.js";

const NEAR_ORDERS = {
  strength: "strongest first", share: "fewest exceptions first", most: "most exceptions first", newest: "newest first", text: "by table and text",
};
const HAVING = { some: "with exceptions", none: "holds now" };
const FEW_CHANGES = 10;
const FEW_MOVERS = 3;

export async function near(ask, parameters) {
  return parameters.id ? oneNear(ask, parameters) : nearList(ask, parameters);
}

async function nearList(ask, parameters) {
  const answer = await ask("near", { ...parameters, limit: parameters.limit ?? FIRST });
  const followed = Object.values(answer.followed).some((share) => share !== null);
  const isEmpty = !answer.near && !answer.moved?.rows.length;
  return [
    title("What nearly holds", el("p", { class: "quiet" }, isEmpty && !followed ? "Constraints that hold except for few rows, and these rows."
      : `${counted(answer.near, "constraint")} ${answer.near === 1 ? "nearly holds" : "nearly hold"} now, ${count(answer.with_exceptions)} of them with exceptions: rows without which they hold.`)),
    isEmpty && !followed ? howTo() : [
      isNarrowed(parameters) ? null : movers(answer.moved, answer.span, spans("near", answer.span, parameters)),
      filters(parameters, [
        { name: "table_name", label: "Table", values: answer.values.table_name },
        { name: "shape", label: "Kind", values: answer.values.shape, words: SHAPES },
        { name: "having", label: "Exceptions", values: answer.values.having, words: HAVING },
      ], { search: "words of a constraint", sort: NEAR_ORDERS }),
      el("ol", { class: "held" }, answer.rows.map(nearLine)),
      more(answer, parameters, "near", "constraint"),
      soundOnly(answer, parameters, "near"),
      notFollowed(answer.followed, answer.values.table_name),
    ],
  ];
}

function isNarrowed(parameters) {
  return Object.entries(parameters).some(([name, given]) => given && !["span", "order", "limit"].includes(name));
}

function howTo() {
  return el("div", { class: "card" }, el("h2", {}, "No near constraints are maintained yet"),
    el("p", {}, "With ", el("code", {}, "near: {share: 1%}"),
      " under a table in the configuration, keys, functional dependencies and orders that hold except for at most 1 % of its rows are maintained exactly, batch by batch."));
}

function notFollowed(followed, having) {
  const others = Object.keys(followed).filter((name) => followed[name] === null && !(name in having));
  if (!others.length) return null;
  return el("p", { class: "quiet" }, "Not maintained on ", others.map((name, place) => [place ? ", " : "", value(name)]),
    ": ", el("code", {}, "near: {share: 1%}"), " under a table in the configuration switches them on.");
}

function amount(row) {
  return row.exceptions ? `${count(row.exceptions)} of ${counted(row.rows, "row")}, ${percent(row.share)}` : "holds now";
}

function about(row) {
  return [
    tableLink(row, "near"), el("span", {}, SHAPES[row.shape] ?? value(row.shape)),
    el("span", { class: row.exceptions ? "strong" : null, title: `as of commit ${count(row.commit)}` }, amount(row)),
    row.strength === null ? null : el("span", { class: "score", title: "how far the number of its exceptions is below that of random values, up to 1" },
      "strength ", el("meter", { min: 0, max: 1, value: row.strength, "aria-label": "strength" }), row.strength.toFixed(2)),
    el("span", {}, "near for ", ago(row.since, "held")),
  ];
}

function nearLine(row) {
  return el("li", { "data-key": row.constraint_id }, constraint(row),
    el("p", { class: "about" }, about(row), row.muted ? el("span", {}, "muted") : null, el("a", { href: link("near", { id: row.constraint_id }) }, row.exceptions ? "its exceptions" : "its history")));
}

async function oneNear(ask, parameters) {
  const [answer, { found }] = await Promise.all([
    ask("near_constraint", { ...parameters, limit: parameters.limit ?? FEW_CHANGES }), ask("constraint", { id: parameters.id })]);
  const { held, exceptions, rows: changes } = answer;
  const known = held ?? changes[0];
  const all = el("a", { href: link("near") }, "all that nearly holds");
  if (!known) {
    return [title("One near constraint", el("p", { class: "quiet" }, "There is no near constraint with this address. ", all))];
  }
  return [
    title("One near constraint", held ? null : el("p", { class: "quiet" }, "It does not nearly hold any more, or another near constraint implies it.")),
    found ? constraintCard(found, all) : el("div", { class: "card" }, constraint(known), el("p", { class: "about" }, held ? about(held) : tableLink(known, "near"), all)),
    answer.course.length ? plot("Exceptions over time", [{ name: "", points: answer.course }]) : null,
    held?.exceptions ? el("section", {}, el("h2", {}, "Rows that are exceptions"), exceptionRows(exceptions, held)) : null,
    held?.exceptions && answer.where.length ? whereExceptionsAre(answer.where, held) : null,
    found ? [lastProof(found), actionList(found)] : null,
    answer.isShort ? el("p", { class: "quiet" }, "The changes and the rows of this constraint are not in this file.")
      : el("section", {}, el("h2", {}, "Its changes"), el("ol", { class: "changes" }, changes.map((row) => nearChange(row))),
        more(answer, { ...parameters, limit: parameters.limit ?? FEW_CHANGES }, "near", "change")),
  ];
}

function exceptionRows(found, held) {
  if (!found) return el("p", { class: "quiet" }, "No rows are listed yet.");
  const undecided = found.about.some((row) => row.undecided);
  return [
    listed(found, "Rows that are exceptions", scrolled),
    el("p", { class: "quiet" }, found.rows.length < held.exceptions ? `${count(found.rows.length)} of ${counted(held.exceptions, "exception")} are shown. ` : null,
      undecided ? "An undecided row may be right: another row of its group could be the exception in its place. " : null),
  ];
}

// The values of other columns that mark exceptions, and the rules that hold on the rows without them.
function whereExceptionsAre(values, held) {
  const { as_of_commit: commit, of_exceptions: exceptions } = values[0];
  const before = exceptions === held.exceptions ? "" : `, when there were ${counted(exceptions, "exception")}`;
  return el("section", {}, el("h2", {}, "Where they are"), el("ul", { class: "held" }, values.map(concentration)),
    el("p", { class: "quiet" }, `Values that many more of the exceptions have than chance would give, as of commit ${count(commit)}${before}.`));
}

function conditionOf(found) {
  const given = found.value === "" ? '""' : found.value;
  return [value(found.column, { class: "strong" }), given === null ? " is null" : [" = ", value(given, { class: "strong" })]];
}

function concentration(found) {
  const lines = found.rule_lines?.join("\n");
  return el("li", { "data-key": `where-${found.column}-${found.value}` }, el("div", { class: "evidence" },
    el("p", {}, `${count(found.exceptions)} of ${counted(found.of_exceptions, "exception")} ${found.exceptions === 1 ? "has" : "have"} `, conditionOf(found), `; ${percent(found.share)} of all rows ${found.rows === 1 ? "does" : "do"}.`),
    found.holds_elsewhere ? el("p", {}, el("span", { "aria-hidden": "true" }, "✓ "), "It holds except where ", conditionOf(found), ".") : null,
    lines ? el("details", { "data-key": `rule-${found.column}-${found.value}` }, el("summary", {}, "Copy as rule"),
      el("p", {}, "Below ", el("code", {}, "rules:"), ` in the configuration, ${found.rules.length === 1 ? "this line counts" : "these lines count"} the violations elsewhere with every batch:`),
      toCopy(lines, "The constraint on the other rows, as a rule")) : null));
}

const BADGES = {
  entered: ["+", " entered"], left: ["−", " left"], more: ["▲", " more"], fewer: ["▼", " fewer"],
  lost: ["−", " lost"], nearly: ["▲", " nearly lost"], recovered: ["+", " recovered"],
};
const GONE = ["left", "more", "lost", "nearly"];

function kindOfChange(row) {
  return row.change !== "exceptions" ? row.change : row.exceptions > row.exceptions_before ? "more" : "fewer";
}

function changed(row) {
  const before = row.exceptions_before;
  const now = row.exceptions ? `${counted(row.exceptions, "exception")} of ${counted(row.rows, "row")}, ${percent(row.share)}` : `no exception among ${counted(row.rows, "row")}`;
  return before === null || before === row.exceptions ? now : [`${count(before)} before, now ${now}`];
}

function item(row, kind, ...inside) {
  const [sign, word] = BADGES[kind];
  return el("li", { class: `change ${GONE.includes(kind) ? "gone" : "come"}`, "data-key": row.id },
    el("p", { class: "badge" }, el("span", { "aria-hidden": "true" }, sign), word), el("div", { class: "body" }, inside));
}

const CAUSE_TEXTS = { seed: "found on the first rows", rebuild: "when the state was rebuilt", config: "when the configuration was edited" };

function nearChange(row) {
  return item(row, row.turn ?? kindOfChange(row),
    el("p", {}, changed(row)),
    el("p", { class: "about" }, el("span", {}, moment(row.at), " ", ago(row.at)), el("span", {}, `commit ${count(row.commit)}`),
      CAUSE_TEXTS[row.cause] ? el("span", {}, CAUSE_TEXTS[row.cause]) : el("span", {}, "after a batch of ", value(row.source)), incidentOf(row)),
    fresh(row));
}

// Rows that became exceptions with a change.
function fresh(row) {
  if (!row.examples) return null;
  return el("details", {}, el("summary", {}, counted(row.examples.rows.length, "row that became an exception", "rows that became exceptions")),
    listed(row.examples, "Rows that became exceptions", scrolled));
}

// The constraints whose number of exceptions changed most in a span of time.
function movers(moved, span, choice) {
  if (!moved) return null;
  const { entered, left, moved: others } = moved;
  const summary = entered || left || others
    ? `${count(entered)} entered and ${count(left)} left in the ${SPANS[span]}; the exceptions of ${counted(others, "constraint")} changed.` : `No exceptions changed in the ${SPANS[span]}.`;
  const rest = moved.rows.slice(FEW_MOVERS);
  return el("section", { class: "movers" }, el("h2", {}, "Changed most"), el("p", { class: "quiet" }, summary), choice, moverList(moved.rows.slice(0, FEW_MOVERS)),
    rest.length ? el("details", {}, el("summary", {}, `The next ${count(rest.length)}`), moverList(rest)) : null);
}

function moverList(rows) {
  return rows.length ? el("ol", { class: "changes" }, rows.map(mover)) : null;
}

function mover(row) {
  return item(row, row.change === "left" ? "left" : row.exceptions > row.exceptions_before ? "more" : "fewer",
    constraint(row), el("p", { class: "strong" }, changed(row)),
    el("p", { class: "about" }, tableLink(row, "near"), el("span", {}, SHAPES[row.shape] ?? value(row.shape)), ago(row.at),
      el("a", { href: link("near", { id: row.constraint_id }) }, "its exceptions")), fresh(row));
}

// The part of the overview.
export function nearSummary(found, span) {
  const rows = found.moved?.rows.slice(0, FEW_MOVERS) ?? [];
  if (!rows.length && !found.with_exceptions) return null;
  return el("section", {}, el("h2", {}, "What nearly holds"),
    el("p", { class: "quiet" }, `${counted(found.near, "constraint")}, ${count(found.with_exceptions)} with exceptions. `,
      rows.length ? `Changed most in the ${SPANS[span]}:` : `No exceptions changed in the ${SPANS[span]}.`),
    moverList(rows), el("p", {}, el("a", { href: link("near") }, "All that nearly holds")));
}
