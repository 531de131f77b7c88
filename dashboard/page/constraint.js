// The page of one constraint, in whatever form it is published: its state, its exceptions over time, and the rows that break it.

import { el, link, value } from "./dom.js";
import { plot } from "./plot.js";
import { rows } from "./rows.js";
import { SHAPES, ago, count, counted, kindOf, moment, percent } from "./words.js";

function stateText(found) {
  if (found.holds) return [el("span", { class: "strong" }, "✓ holds"), found.held ? [" for ", ago(found.held.since, "held")] : null];
  if (found.near) return el("span", { class: "strong" }, `▲ holds except for ${counted(found.near.exceptions, "row")} of ${count(found.near.rows)}, ${percent(found.near.share)}`);
  return el("span", { class: "strong" }, "✕ does not hold");
}

function flapText(found) {
  return found.flaps ? el("span", {}, `ended and came back ${found.flaps === 1 ? "once" : `${count(found.flaps)} times`}`) : null;
}

// The card at the top; `others` are links that the view adds.
export function constraintCard(found, ...others) {
  const otherForm = found.is_near ? found.exact_id && el("a", { href: link("changes", { id: found.exact_id }) }, "as a constraint")
    : found.near_id && el("a", { href: link("near", { id: found.near_id }) }, "its exceptions");
  const { held } = found;
  return el("div", { class: "card" }, el("p", { class: "sentence" }, value(found.sentence ?? found.constraint)),
    el("p", { class: "code" }, el("code", {}, value(found.constraint))),
    el("p", { class: "about" }, el("span", {}, stateText(found)), el("a", { href: link("constraints", { table_name: found.table_name }) }, value(found.table_name)),
      el("span", {}, found.is_near ? SHAPES[found.near?.shape] ?? "near constraint" : kindOf(found)), flapText(found),
      held && held.score !== null ? el("span", {}, `score ${held.score.toFixed(2)}`) : null,
      found.near && found.near.strength !== null ? el("span", {}, `strength ${found.near.strength.toFixed(2)}`) : null,
      found.muted ? el("span", {}, "muted") : null, otherForm, others));
}

export function exceptionCourse(found) {
  return found.course.length ? plot("Exceptions over time", [{ name: "", points: found.course }]) : null;
}

// The rows of the last violation, side by side.
export function lastProof(found) {
  if (!found.proof) return null;
  const { witness, at, commit } = found.proof;
  const many = witness.rows.length > 1;
  return el("section", {}, el("h2", {}, !witness.columns.length ? "The value that is missing" : many ? "Rows that break it, side by side" : "A row that breaks it"),
    el("p", { class: "quiet" }, `${found.holds ? "Broke it" : "As"} of ${moment(at)}, commit ${count(commit)}`, found.holds ? "; it holds again." : "."),
    rows(witness, "Rows that break it, side by side"));
}

// What a person can do about it, without an account: lines to copy into files that people keep.
export function actionList(found) {
  const actions = [proveIt(found), copyAsRule(found), muteIt(found)].filter(Boolean);
  return actions.length ? el("section", { class: "actions" }, el("h2", {}, "What to do about it"), actions) : null;
}

export function toCopy(text, label) {
  return el("div", { class: "to-copy" }, el("pre", { tabindex: 0, "aria-label": label }, value(text)),
    el("button", { type: "button", "data-copy": text }, "Copy"));
}

function proveIt(found) {
  if (!found.query) return null;
  return el("details", { "data-key": "query" }, el("summary", {}, "Show the query that proves it"),
    el("p", {}, "DuckDB, Spark SQL and PostgreSQL run this query on the source table. Spark SQL takes backquotes in place of double quotes."),
    toCopy(found.query, "The query that proves the constraint"));
}

function copyAsRule(found) {
  if (!found.rule) return null;
  return el("details", { "data-key": "rule" }, el("summary", {}, "Copy as rule"),
    el("p", {}, "Below ", el("code", {}, "rules:"), " in the configuration, this line counts its violations with every batch:"),
    toCopy(found.rule, "The constraint as a rule"));
}

function muteIt(found) {
  if (!found.mute) return null;
  const name = found.mutes_file?.split("/").at(-1) ?? "mutes.yaml";
  const place = found.mutes_file ? ["In ", value(name)] : ["With ", el("code", {}, "mutes: mutes.yaml"), " in the configuration, in this file"];
  return el("details", { "data-key": "mute" }, el("summary", {}, found.muted ? "It is muted" : "Mute"),
    found.muted ? el("p", {}, "It is left out of incidents, of the first view and of alerts. Without its line in ", value(name), ", it is not.")
      : [el("p", {}, place, ", this line leaves it out of incidents, of the first view and of alerts, in all its forms:"), toCopy(found.mute, "The line that mutes it")]);
}
