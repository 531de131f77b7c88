// Suspects: cells that are probably wrong, each with its row, where the cell is marked, and the constraints it violates.

import { el, link, value } from "./dom.js";
import { FIRST, filters, more, scrolled, tableLink, title } from "./parts.js";
import { ago, count, counted } from "./words.js";

const FEW_CONSTRAINTS = 3;

export async function suspects(ask, parameters) {
  const answer = await ask("suspects", { ...parameters, limit: parameters.limit ?? FIRST });
  const commits = Object.entries(answer.as_of);
  return [
    title("Suspects", el("p", { class: "quiet" }, answer.all ? `${counted(answer.all, "cell")} ${answer.all === 1 ? "is" : "are"} probably wrong. They are suggestions: nothing is changed.`
      : "Cells that are probably wrong: what the exceptions of near constraints have in common.")),
    answer.all ? [
      filters(parameters, [
        { name: "table_name", label: "Table", values: answer.values.table_name },
        { name: "column", label: "Column", values: answer.values.column },
      ]),
      el("ol", { class: "held" }, answer.rows.map(suspect)),
      more(answer, parameters, "suspects", "suspect"),
      el("p", { class: "quiet" }, "Found as of ", commits.map(([table, commit], place) => [place ? ", " : "", `commit ${count(commit)} of `, value(table)]),
        ". A suspect leaves the list with the batch that changes its row, or with the next search."),
    ] : el("p", { class: "quiet" }, "None was found by the last searches. Suspects are searched on tables with ", el("code", {}, "near: {share: 1%}"), " in the configuration."),
  ];
}

function suspect(row) {
  const [first, others] = [row.constraints.slice(0, FEW_CONSTRAINTS), row.constraints.slice(FEW_CONSTRAINTS)];
  return el("li", { "data-key": row.suspect_id },
    suspicion(row),
    el("p", { class: "about" }, tableLink(row, "suspects"), rowKey(row),
      el("span", { class: "score", title: "probability that the cell is wrong, by a model" },
        el("meter", { min: 0, max: 1, value: row.score, "aria-label": "score" }), row.score.toFixed(3)),
      el("span", {}, "suspect for ", ago(row.since, "held"))),
    el("div", { class: "evidence" }, suspectRow(row), el("p", { class: "quiet" }, "The row violates"),
      el("ul", {}, first.map(violatedLine)),
      others.length ? el("details", {}, el("summary", {}, counted(others.length, "more constraint")), el("ul", {}, others.map(violatedLine))) : null));
}

export function suspicion(row) {
  return el("p", { class: "sentence" }, value(row.column, { class: "strong" }), " is ", suspectCell(row.value),
    row.expected ? [", expected ", suspectCell(row.expected.value)] : null);
}

// The key of the row of a suspect; nothing for a table without a key.
export function rowKey(row) {
  const cells = row.columns.flatMap((column, place) => (column.key ? [[column.name, row.cells[place]]] : []));
  return cells.length ? el("span", {}, cells.map(([name, cell], place) => [place ? ", " : null, value(name), " ", suspectCell(cell)])) : null;
}

function violatedLine(one) {
  const code = el("code", {}, value(one.constraint));
  return el("li", {}, one.sentence ? [value(one.sentence), " "] : null, one.constraint_id ? el("a", { href: link("near", { id: one.constraint_id }) }, code) : code);
}

function suspectCell(text) {
  return text === null ? el("span", { class: "null" }, "null") : text === "" ? el("span", { class: "null" }, "empty") : value(text);
}

// The row as one line: first the suspect cell, then the columns that its constraints name, and its key.
function suspectRow(row) {
  const [shown, others] = [[], []];
  row.columns.forEach((column, place) => (column.named || column.key ? shown : others).push(place));
  const hidden = others.length + row.left_out;
  return el("div", { class: "proof" }, scrolled("The row", suspectLine(row, shown)),
    hidden ? el("details", {}, el("summary", {}, counted(hidden, "other column")), scrolled("Other columns of the row", suspectLine(row, others)),
      row.left_out ? el("p", { class: "quiet" }, `${counted(row.left_out, "more column")} not shown.`) : null) : null);
}

function suspectLine(row, places) {
  return el("table", { class: "rows" },
    el("thead", {}, el("tr", {}, places.map((place) => el("th", { scope: "col" }, value(row.columns[place].name))))),
    el("tbody", {}, el("tr", {}, places.map((place) => {
      const marked = row.columns[place].name === row.column;
      return el("td", { class: marked ? "differs" : null }, marked && el("span", { class: "differs-sign", title: "probably wrong" }, "?"), suspectCell(row.cells[place]));
    }))));
}
