// What was missed since the last look, and incidents: what one commit did to the constraints of a table.

import { el, link, value } from "./dom.js";
import { keepLook, lastLook } from "./looked.js";
import { FIRST, filters, more, scrolled, tableLink, title } from "./parts.js";
import { listed } from "./rows.js";
import { rowKey, suspicion } from "./suspects.js";
import { SHAPES, SPANS, ago, count, counted, kindOf, moment } from "./words.js";

const SORTS = {
  lost: { name: "Lost", sign: "−", kind: "gone", none: "No constraint ended." },
  nearly: { name: "Nearly lost", sign: "▲", kind: "warn", none: "No constraint is nearly lost." },
  recovered: { name: "Recovered", sign: "+", kind: "come", none: "None recovered." },
};
const DIRECTIONS = { lost: "lost", recovered: "recovered" };
const FEW = 3;

// The question of what was missed since the last look, asked again where another application answers.
export async function askMissed(ask, parameters) {
  const look = lastLook();
  const answer = await ask("since", { span: parameters.span, commit: look?.commit });
  const other = lastLook(answer.application);
  return look?.commit === other?.commit ? answer : ask("since", { span: parameters.span, commit: other?.commit });
}

export function missedSince(answer, isLive) {
  const look = answer.span ? null : lastLook(answer.application);
  if (isLive) keepLook(answer.application, answer.newest);
  const heading = look ? ["Since you last looked, ", ago(new Date(look.at).toISOString())] : `In the ${SPANS[answer.span]}`;
  const sorts = Object.entries(SORTS).filter(([name]) => name !== "nearly" || answer.has_near);
  const nothing = sorts.every(([name]) => !answer[name].total) && !answer.suspects?.total;
  return el("section", { class: "missed" },
    el("div", { class: "bar" }, el("h2", {}, heading),
      isLive && answer.newest > answer.after ? el("button", { type: "button", "data-seen": answer.newest, "data-application": answer.application }, "Mark as seen") : null),
    nothing ? el("p", { class: "quiet" }, answer.has_near ? "No constraint was lost, nearly lost or recovered." : "No constraint was lost or recovered.")
      : el("div", { class: "sorts" }, sorts.map(([name, sort]) => sortCard(name, sort, answer[name])), newSuspects(answer.suspects)),
    answer.mutes_problem ? el("p", { class: "problem", role: "alert" }, "The file of mutes cannot be used: ", value(answer.mutes_problem)) : null,
    answer.flapped ? el("p", { class: "quiet" }, `${counted(answer.flapped, "constraint")} changed and ${answer.flapped === 1 ? "is" : "are"} now as before.`) : null,
    answer.incidents.rows.length ? [el("h3", {}, "Incidents"), incidentList(answer.incidents.rows)] : null,
    answer.muted ? el("p", { class: "quiet" }, "Muted constraints are left out.") : null,
    answer.incidents.rows.length ? el("p", {}, el("a", { href: link("incidents") },
      answer.incidents.total > answer.incidents.rows.length ? `All incidents, ${count(answer.incidents.total)} of this time` : "All incidents")) : null);
}

function sortCard(name, sort, { total, rows }) {
  const rest = rows.slice(FEW);
  return el("div", { class: `sort ${sort.kind}`, "data-key": name },
    el("h3", {}, el("span", { class: "figure" }, count(total)), ` ${sort.name.toLowerCase()}`),
    rows.length ? el("ol", {}, rows.slice(0, FEW).map(missedLine)) : el("p", { class: "quiet" }, sort.none),
    rest.length ? el("details", {}, el("summary", {}, `The next ${count(rest.length)}`), el("ol", {}, rest.map(missedLine))) : null,
    total > rows.length ? el("p", { class: "quiet" }, `${count(total - rows.length)} others are in the incidents.`) : null);
}

function newSuspects(found) {
  if (!found?.total) return null;
  return el("div", { class: "sort warn", "data-key": "suspects" },
    el("h3", {}, el("span", { class: "figure" }, count(found.total)), ` new ${found.total === 1 ? "suspect" : "suspects"}`),
    el("ol", {}, found.rows.slice(0, FEW).map((row) => el("li", { "data-key": row.suspect_id }, suspicion(row),
      el("p", { class: "about" }, tableLink(row, "suspects"), rowKey(row))))),
    el("p", { class: "quiet" }, "Cells that are probably wrong. ", el("a", { href: link("suspects") }, "All suspects")));
}

export function pageOf(row) {
  return row.is_near ? link("near", { id: row.constraint_id }) : link("changes", { id: row.constraint_id });
}

function flaps(row) {
  return row.flaps ? el("span", {}, `ended and came back ${row.flaps === 1 ? "once" : `${count(row.flaps)} times`}`) : null;
}

function missedLine(row) {
  return el("li", { "data-key": row.constraint_id }, el("p", { class: "sentence" }, value(row.sentence ?? row.constraint)),
    el("p", { class: "code" }, el("code", {}, value(row.short))),
    el("p", { class: "about" }, value(row.table_name), row.sound ? el("span", {}, "sound") : null, flaps(row), el("a", { href: pageOf(row) }, "its page")));
}

function incidentLink(row) {
  return link("incidents", { commit: row.commit, table_name: row.table_name, direction: row.direction });
}

function changedBack(row) {
  if (!row.again) return null;
  const total = row.lost + row.nearly + row.recovered;
  const those = row.again === total ? "all" : count(row.again);
  return el("span", { class: "strong" }, row.direction === "recovered" ? `${those} ended again since` : `${those} recovered since`);
}

function incident(row) {
  const isLost = row.direction !== "recovered";
  return el("li", { class: `change ${isLost ? "gone" : "come"}`, "data-key": row.key },
    el("p", { class: "badge" }, el("span", { "aria-hidden": "true" }, isLost ? "−" : "+"), isLost ? " lost" : " recovered"),
    el("div", { class: "body" }, el("p", { class: "sentence" }, value(row.text)),
      el("p", { class: "about" }, ago(row.at), tableLink(row, "incidents"), changedBack(row), el("a", { href: incidentLink(row) }, "its constraints"))));
}

export function incidentList(rows) {
  return el("ol", { class: "changes" }, rows.map(incident));
}

export async function incidents(ask, parameters) {
  return parameters.commit ? oneIncident(ask, parameters) : allIncidents(ask, parameters);
}

async function allIncidents(ask, parameters) {
  const answer = await ask("incidents", { ...parameters, limit: parameters.limit ?? FIRST });
  return [
    title("Incidents", el("p", { class: "quiet" }, "What one commit did to the constraints of one table, as one entry.")),
    filters(parameters, [
      { name: "table_name", label: "Table", values: Object.fromEntries(answer.tables.map((name) => [name, null])) },
      { name: "direction", label: "What", values: { lost: null, recovered: null }, words: DIRECTIONS },
    ]),
    incidentList(answer.rows),
    more(answer, parameters, "incidents", "incident"),
    answer.left_out ? el("p", { class: "quiet" }, "Older incidents are in the tables only.") : null,
  ];
}

async function oneIncident(ask, parameters) {
  const answer = await ask("incident", { direction: "lost", ...parameters, limit: parameters.limit ?? FIRST });
  const found = answer.incident;
  const all = el("a", { href: link("incidents") }, "all incidents");
  if (!found) return [title("One incident", el("p", { class: "quiet" }, answer.isShort ? "The constraints of this incident are not in this file. " : "There is no incident with this address. ", all))];
  return [
    title("One incident"),
    el("div", { class: "card" }, el("p", { class: "sentence" }, value(found.text)),
      el("p", { class: "about" }, el("span", {}, moment(found.at), " ", ago(found.at)), el("span", {}, `commit ${count(found.commit)}`),
        found.source === null ? null : el("span", {}, "a batch of ", value(found.source), found.position === null ? null : [", ", value(found.position)]),
        changedBack(found), all)),
    found.rows ? el("section", {}, el("h2", {}, found.direction === "recovered" ? "Gone or changed since then" : found.rows.rows.length === 1 ? "The row that did it" : "The rows that did it"),
      listed(found.rows, "Rows in most proofs", scrolled)) : null,
    el("section", {}, el("h2", {}, "Its constraints, those that mean most first"),
      el("ol", { class: "changes" }, answer.rows.map((row) => member(row, found))),
      more(answer, parameters, "incidents", "constraint")),
  ];
}

function member(row, found) {
  const sort = SORTS[row.turn];
  return el("li", { class: `change ${sort.kind === "come" ? "come" : "gone"}`, "data-key": row.constraint_id },
    el("p", { class: "badge" }, el("span", { "aria-hidden": "true" }, sort.sign), ` ${sort.name.toLowerCase()}`),
    el("div", { class: "body" }, el("p", { class: "sentence" }, value(row.sentence ?? row.constraint)),
      el("p", { class: "code" }, el("code", {}, value(row.short))),
      el("p", { class: "about" }, el("span", {}, row.is_near ? SHAPES[row.shape] ?? value(row.shape) : kindOf(row)), row.is_near ? el("span", {}, `${count(row.exceptions_before)} to ${counted(row.exceptions, "exception")}`) : null,
        row.sound ? el("span", {}, "sound") : null, row.turned_back ? el("span", { class: "strong" }, found.direction === "recovered" ? "ended again since" : "recovered since") : null,
        flaps(row), el("a", { href: pageOf(row) }, "its page"))));
}
