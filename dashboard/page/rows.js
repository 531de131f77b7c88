// Rows as a proof, side by side: a line for each column, first the columns that the constraint names.

import { el, link, value } from "./dom.js";
import { counted } from "./words.js";

const LONG = 160, BEGINNING = 80;
const ORDINALS = ["First row", "Second row"];

function content(text) {
  if (text === null || text === "") return el("span", { class: "null" }, text === null ? "null" : "empty");
  if (text.length <= LONG) return value(text);
  return el("details", { class: "long" }, el("summary", {}, value(text.slice(0, BEGINNING)), " …"), value(text));
}

function cellOf(text, classes, { differs, suspect } = {}) {
  const names = [...classes, suspect && "suspect"].filter(Boolean);
  return el("td", { class: names.join(" ") || null }, differs && el("span", { class: "differs-sign", title: "differs" }, "≠"), content(text), suspect && suspicionOf(suspect));
}

// What a cell says that is a suspect.
function suspicionOf(suspect) {
  return el("span", { class: "suspicion", title: `score ${suspect.score.toFixed(3)}: the probability, by a model` }, "? probably wrong",
    suspect.expected ? [", expected ", el("span", { class: "strong" }, content(suspect.expected.value))] : null);
}

function suspectAt(found, row, column) {
  return found.suspects?.find((one) => one.row === row && one.column === column);
}

// The line below rows with suspects.
function aboutSuspects(found) {
  if (!found.suspects?.length) return null;
  return el("p", { class: "quiet" }, `${counted(found.suspects.length, "cell is", "cells are")} probably wrong, as all near constraints say together: `, el("a", { href: link("suspects") }, "suspects"));
}

function line(witness, place) {
  const { name, spoken, differs } = witness.columns[place];
  const isSpoken = spoken.some(Boolean);
  return el("tr", { class: isSpoken ? "spoken" : null }, el("th", { scope: "row" }, value(name)),
    witness.rows.map((row, number) => {
      const marked = differs && spoken[number];
      const same = spoken[number] && !differs && witness.rows.length > 1;
      return cellOf(row[place], [marked && "differs", same && "same"], { differs: marked && number > 0, suspect: suspectAt(witness, number, place) });
    }));
}

function heading(witness, number) {
  const keys = witness.columns.map((column, place) => [column, witness.rows[number][place]]).filter(([column]) => column.key);
  if (!keys.length) return witness.rows.length > 1 ? ORDINALS[number] : "Row";
  return keys.map(([column, text], place) => [place ? ", " : "", value(column.name), " ", value(text === null ? "null" : text, { class: "strong" })]);
}

// Rows below one another, first the named columns and the key; `about` has for each row whether it is certain.
export function listed(found, label, table) {
  const [shown, others] = [[], []];
  found.columns.forEach((column, place) => (column.spoken || column.key ? shown : others).push(place));
  if (!shown.length) shown.push(...others.splice(0));
  const marked = found.about.some((one) => one.undecided !== null && one.undecided !== undefined);
  const more = others.length || found.left_out ? el("details", {},
    el("summary", {}, counted(others.length + (found.left_out ?? 0), "other column")),
    table(`${label}, all columns`, lines(found, [...shown, ...others], marked)),
    found.left_out ? el("p", { class: "quiet" }, `${counted(found.left_out, "more column")} not shown.`) : null) : null;
  return el("div", { class: "proof" }, table(label, lines(found, shown, marked)), more, aboutSuspects(found));
}

function lines(found, places, marked) {
  return el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, marked && el("th", { scope: "col" }, "Exception"),
      places.map((place) => el("th", { scope: "col" }, value(found.columns[place].name, { class: found.columns[place].spoken ? "strong" : null }))))),
    el("tbody", {}, found.rows.map((row, number) => el("tr", { class: found.about[number].undecided ? "undecided" : null },
      marked && el("td", {}, found.about[number].undecided ? "? undecided" : "certain"),
      places.map((place) => cellOf(row[place], [], { suspect: suspectAt(found, number, place) }))))));
}

export function rows(witness, label) {
  if (!witness) return null;
  if (!witness.columns.length) {
    return el("p", { class: "proof" }, "The value ", witness.value === null ? "null" : value(witness.value, { class: "cell" }), " is missing.");
  }
  const spoken = [], others = [];
  witness.columns.forEach((column, place) => (column.spoken.some(Boolean) ? spoken : others).push(place));
  const shown = spoken.length ? spoken : others.splice(0);
  const head = el("thead", {}, el("tr", {}, el("td", {}), witness.rows.map((_, number) => el("th", { scope: "col" }, heading(witness, number)))));
  const more = others.length || witness.left_out ? el("details", {},
    el("summary", {}, counted(others.length + (witness.left_out ?? 0), "other column")),
    el("table", { class: "rows" }, head.cloneNode(true), el("tbody", {}, others.map((place) => line(witness, place)))),
    witness.left_out ? el("p", { class: "quiet" }, `${counted(witness.left_out, "more column")} not shown.`) : null) : null;
  return el("div", { class: "proof" },
    el("table", { class: "rows", "aria-label": label }, head, el("tbody", {}, shown.map((place) => line(witness, place)))), more, aboutSuspects(witness));
}
