// Parts of several views: filters, a constraint with its sentence, a rule, a change, and the end of a list.

import { el, link, value } from "./dom.js";
import { plot, spark } from "./plot.js";
import { rows } from "./rows.js";
import { FAMILIES, SPANS, ago, count, counted, kindOf, moment } from "./words.js";

export const FIRST = 25;
const LONGEST = 175;

export function title(text, ...after) {
  return el("div", { class: "title" }, el("h1", {}, text), ...after);
}

export function spans(view, chosen, parameters) {
  return el("ul", { class: "spans", "aria-label": "Span of time" }, Object.entries(SPANS).map(([name, text]) =>
    el("li", {}, el("a", { href: link(view, { ...parameters, span: name }), "aria-current": name === chosen ? "true" : null, "data-stay": true }, text))));
}

export function scrolled(label, table) {
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, table);
}

// A bar of filters whose state is the address: [{name, label, values: {value: count}, words: {value: text}}].
export function filters(parameters, selects, { search, sort, upTo } = {}) {
  const boxes = selects.map(({ name, label, values, words }) => {
    const options = Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));
    if (parameters[name] && !(parameters[name] in values)) options.push([parameters[name], null]);
    return el("label", {}, el("span", {}, label), el("select", { name },
      el("option", { value: "" }, "all"),
      options.map(([given, number]) => el("option", { value: given, selected: parameters[name] === given },
        `${words?.[given] ?? given}${number === null ? "" : ` (${count(number)})`}`))));
  });
  const order = sort && el("label", {}, el("span", {}, "Order"), el("select", { name: "order" },
    Object.entries(sort).map(([given, text], place) => el("option", { value: place ? given : "", selected: parameters.order === given }, text))));
  const box = search && el("label", { class: "search" }, el("span", {}, "Search"),
    el("input", { type: "search", name: "q", value: parameters.q ?? "", placeholder: search, autocomplete: "off", spellcheck: "false", maxlength: 500 }));
  const last = upTo && el("label", {}, el("span", {}, upTo), el("input", { type: "date", name: "day", value: parameters.day ?? "" }));
  const used = Object.entries(parameters).some(([name, given]) => given && !["limit", "span"].includes(name));
  return el("form", { class: "filters", role: "search", "data-key": "filters" }, box, boxes, order, last,
    used && el("a", { class: "clear", href: link(location.hash.slice(2).split("?")[0]) }, "Clear"));
}

export function tableLink(row, view) {
  return el("a", { href: link(view, { table_name: row.table_name }) }, value(row.table_name));
}

// A constraint in plain words, and its text.
export function constraint(row) {
  return el("div", { class: "constraint" },
    row.sentence ? el("p", { class: "sentence" }, value(row.sentence)) : null,
    el("p", { class: "code" }, el("code", {}, value(row.constraint))));
}

const REASONS = {
  violated: (row) => (row.witness?.rows.length === 1 ? "Broken by this row:" : row.witness?.columns.length ? "Broken by these two rows:" : "Broken:"),
  implied: (row) => ["A more general constraint implies it now: ", value(row.by_sentence ?? row.by)],
  weakened: (row) => ["It remains of a constraint that disappeared: ", value(row.by_sentence ?? row.by)],
  released: (row) => (row.witness ? "It holds since this row is gone:" : "It holds since the rows that violated it are gone."),
};
const CAUSES = {
  data: "after a batch of ", seed: "found on the first rows of ", rebuild: "when the state was rebuilt, of ",
  config: "when the configuration was edited, of ",
};

function reason(row) {
  const text = REASONS[row.reason];
  return text ? el("p", { class: "reason" }, text(row)) : null;
}

// A constraint that disappeared, and holds except for few rows.
function nearly(row) {
  if (row.exceptions === null || row.exceptions === undefined) return null;
  const then = counted(row.exceptions, "row");
  if (!row.near) return el("p", { class: "reason" }, `It held except for ${then} then.`);
  const now = row.near.exceptions === row.exceptions ? "" : `, ${count(row.near.exceptions)} by now`;
  return el("p", { class: "reason" }, `It still holds except for ${then}${now}: `, el("a", { href: link("near", { id: row.near.constraint_id }) }, "its exceptions"));
}

function keysOf(witness) {
  return JSON.stringify(witness?.columns.map((column, place) => column.key && witness.rows.map((row) => row[place])));
}

// The incident that a change is part of, if it is part of one.
export function incidentOf(row) {
  if (!row.turn || row.muted) return null;
  const direction = row.turn === "recovered" ? "recovered" : "lost";
  return el("a", { href: link("incidents", { commit: row.commit, table_name: row.table_name, direction }) }, "its incident");
}

export function change(row, before) {
  const appeared = row.change === "appeared";
  return el("li", { class: `change ${appeared ? "come" : "gone"}`, "data-key": row.id },
    el("p", { class: "badge" }, el("span", { "aria-hidden": "true" }, appeared ? "+" : "−"), appeared ? " appeared" : " disappeared"),
    el("div", { class: "body" }, constraint(row),
      el("p", { class: "about" }, tableLink(row, "changes"), el("span", {}, kindOf(row)), row.muted ? el("span", {}, "muted") : null,
        el("a", { href: link("changes", { id: row.constraint_id }) }, "history"), incidentOf(row)),
      nearly(row), proof(row, before, appeared ? "The row that is gone" : "The rows that break it, side by side")));
}

// Rows that the change before has shown already are folded.
function proof(row, before, label) {
  const shown = rows(row.witness, label);
  if (shown && before && before.reason === row.reason && keysOf(before.witness) === keysOf(row.witness) && row.witness.columns.some((column) => column.key)) {
    return el("details", {}, el("summary", {}, row.witness.rows.length > 1 ? "Broken by the same two rows" : "It holds since the same row is gone"), shown);
  }
  return [reason(row), shown];
}

// Changes under their commits, newest first.
export function changes(list, level = "h3") {
  const groups = [];
  for (const row of list) {
    const key = `commit-${row.commit}`;
    if (groups.at(-1)?.key !== key) groups.push({ key, first: row, rows: [] });
    groups.at(-1).rows.push(row);
  }
  return el("div", { class: "timeline" }, groups.map(({ key, first, rows: inside }) =>
    el("section", { "data-key": key, "aria-label": `Commit ${first.commit}` },
      el(level, { class: "when" }, el("span", {}, moment(first.at)), " ", ago(first.at), " ",
        el("span", { class: "quiet" }, `commit ${count(first.commit)}, ${CAUSES[first.cause] ?? ""}`, value(first.source))),
      el("ol", { class: "changes" }, inside.map((row, place) => change(row, inside[place - 1]))))));
}

const STATES = { broken: "broken", accepted: "violated, within its threshold", ok: "holds" };

export function stateOf(rule) {
  return rule.broken ? "broken" : rule.holds ? "ok" : "accepted";
}

function violations(rule) {
  const parts = [];
  if (rule.violating_pairs !== null) parts.push(counted(rule.violating_pairs, "pair"));
  if (rule.missing_values !== null) parts.push(counted(rule.missing_values, "missing value"));
  if (rule.violating_rows !== null) parts.push(counted(rule.violating_rows, "row"));
  return parts.join(", ");
}

export function rule(row, { open = 1, level = "h3" } = {}) {
  const state = stateOf(row);
  const examples = row.examples.map((example, place) => el("li", { "data-key": example.id },
    place < open ? rows(example.witness, "An example of what breaks it") : el("details", {},
      el("summary", {}, `Example ${place + 1}`), rows(example.witness, `Example ${place + 1} of what breaks it`))));
  return el("article", { class: `rule ${state}`, "data-key": `rule-${row.rule}`, id: null },
    el("header", {}, el(level, {}, el("a", { href: link("rules", { rule: row.rule }) }, value(row.rule))),
      el("p", { class: "badge" }, state === "ok" ? "✓ " : "✕ ", STATES[state], row.severity === "warning" ? ", a warning" : null)),
    constraint(row),
    el("p", { class: "about" }, value(row.table_name),
      state !== "ok" && el("span", { class: "strong" }, violations(row)),
      row.change_in_pairs ? el("span", {}, `${row.change_in_pairs > 0 ? "+" : "−"}${count(Math.abs(row.change_in_pairs))} pairs with the last change`) : null,
      el("span", {}, state === "broken" ? "broken for " : "unchanged for ", ago(row.since, "held")),
      row.threshold && el("span", {}, value(row.threshold)),
      row.passed.length > 1 && spark(row.passed, `Violations over time, ${count(row.passed.at(-1)[1])} now`)),
    examples.length ? el("ol", { class: "examples" }, examples) : null);
}

// The position in a list, with links to more rows: first a longer list, then pages up to the same commit.
// What a list leaves out as it is not sound, and the other list.
export function soundOnly(answer, parameters, view) {
  const { offset, ...others } = parameters;
  if (answer.unsound) {
    return el("p", { class: "quiet" }, `${counted(answer.unsound, "constraint")} that chance explains ${answer.unsound === 1 ? "is" : "are"} left out. `,
      el("a", { href: link(view, { ...others, every: "yes" }) }, "List them too"));
  }
  return parameters.every ? el("p", { class: "quiet" }, el("a", { href: link(view, { ...others, every: null }) }, "List sound constraints only")) : null;
}

export function more(answer, parameters, view, one, many) {
  const { offset: given, ...others } = parameters;
  const offset = Number(given ?? 0);
  const end = offset + answer.rows.length;
  const length = Number(parameters.limit ?? FIRST);
  const rest = answer.total - end;
  const at = (start) => link(view, { ...others, offset: start || null, until: start ? parameters.until ?? answer.until : null });
  return el("p", { class: "end", "data-key": "end" },
    answer.total === 0 ? `No matching ${many ?? `${one}s`}.` : offset ? `${count(offset + 1)} to ${count(end)} of ${counted(answer.total, one, many)}. `
      : `${count(end)} of ${counted(answer.total, one, many)} shown. `,
    offset > 0 && el("a", { class: "more", href: at(Math.max(0, offset - length)) }, "Previous"),
    rest > 0 && length < LONGEST && el("a", { class: "more", href: link(view, { ...parameters, limit: Math.min(length + 50, LONGEST) }), "data-stay": true },
      `Show ${count(Math.min(50, rest, LONGEST - length))} more`),
    rest > 0 && el("a", { class: "more", href: at(end) }, "Next"),
    answer.left > 0 ? el("span", { class: "quiet" }, ` This file has the first ${count(answer.kept)}; ${count(answer.left)} others are in the tables.`) : null);
}

export function course(families, options) {
  const lines = Object.entries(families).map(([family, points]) => ({ name: FAMILIES[family] ?? family, points }));
  return plot("Constraints that hold, over time", lines, options);
}
