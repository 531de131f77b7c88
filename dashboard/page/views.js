// The views: each asks its questions, and returns the elements of the page.

import { actionList, constraintCard, exceptionCourse, lastProof } from "./constraint.js";
import { el, link, value } from "./dom.js";
import { askMissed, incidents, missedSince } from "./incidents.js";
import { near, nearSummary } from "./near.js";
import { FIRST, change, changes, constraint, course, filters, more, rule, scrolled, soundOnly, spans, stateOf, tableLink, title } from "./parts.js";
import { plot } from "./plot.js";
import { rows } from "./rows.js";
import { suspects } from "./suspects.js";
import { FAMILIES, KINDS, SPANS, ago, bytes, count, counted, day, duration, kindOf, moment } from "./words.js";

export const VIEWS = {
  overview: { title: "Overview", show: overview },
  incidents: { title: "Incidents", show: incidents },
  changes: { title: "Changes", show: changeList },
  rules: { title: "Rules", show: rules },
  constraints: { title: "Constraints", show: constraints },
  near: { title: "Nearly holds", show: near, needs: "near" },
  suspects: { title: "Suspects", show: suspects, needs: "suspects" },
  inclusions: { title: "Inclusions", show: inclusions },
  pipeline: { title: "Pipeline", show: pipeline },
  quarantine: { title: "Quarantine", show: quarantine },
};

function tile(number, text, href, kind) {
  return el("li", { class: `tile ${kind ?? ""}` }, el("a", { href }, el("span", { class: "figure" }, number), el("span", {}, text)));
}

async function overview(ask, parameters, isLive) {
  const [about, history, news] = await Promise.all([ask("overview", parameters), ask("history", {}), askMissed(ask, parameters)]);
  const { broken, all, violated } = about.rules;
  const came = Object.values(about.changed).reduce((sum, one) => sum + one.appeared, 0);
  const went = Object.values(about.changed).reduce((sum, one) => sum + one.disappeared, 0);
  const changed = came || went ? `${counted(went, "constraint")} disappeared and ${count(came)} appeared in the ${SPANS[about.span]}.` : `Nothing has changed in the ${SPANS[about.span]}.`;
  const verdict = !all ? changed : broken.length ? `${count(broken.length)} of ${counted(all, "rule")} ${broken.length === 1 ? "is" : "are"} broken.`
    : violated ? `No rule is broken; ${counted(violated, "rule")} ${violated === 1 ? "is" : "are"} violated within the accepted threshold.` : all === 1 ? "The one rule holds." : `All ${count(all)} rules hold.`;
  return [
    title(verdict, about.until ? el("p", { class: "quiet" }, "As of ", ago(about.until), `, ${moment(about.until)}`) : null),
    missedSince(news, isLive),
    el("ul", { class: "tiles" },
      tile(count(broken.length), broken.length === 1 ? "broken rule" : "broken rules", link("rules"), broken.length ? "bad" : "good"),
      tile(`−${count(went)}`, `constraints disappeared, ${SPANS[about.span]}`, link("changes", { change: "disappeared", cause: "data" }), went ? "gone" : ""),
      tile(`+${count(came)}`, `appeared, ${SPANS[about.span]}`, link("changes", { change: "appeared", cause: "data" }), came ? "come" : ""),
      tile(count(about.held), "constraints hold", link("constraints")),
      about.near ? tile(count(about.near.with_exceptions), "nearly hold, with exceptions", link("near", { having: "some" })) : null,
      tile(count(about.quarantined), "records in quarantine", link("quarantine"), about.quarantined ? "warn" : "")),
    el("div", { class: "columns" },
      el("div", {},
        broken.length ? el("section", {}, el("h2", {}, "Broken rules"), broken.map((row) => rule(row))) : null,
        el("section", {}, el("h2", {}, "Latest changes"),
          about.recent.length ? changes(about.recent) : el("p", { class: "quiet" }, "No constraint has changed since the first rows."),
          about.recent.length ? el("p", {}, el("a", { href: link("changes") }, "All changes")) : null),
        about.near ? nearSummary(about.near, about.span) : null),
      el("aside", { "aria-label": "How many hold" },
        course(history.families, { narrow: true }),
        el("h2", {}, "Tables"),
        el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ["Table", "Rows", "Hold", "Changed"].map((name, place) => el("th", { scope: "col", class: place ? "number" : null }, name)))),
          el("tbody", {}, about.tables.map((row) => tableLine(row, about)))),
        el("p", { class: "quiet" }, `Changed: appeared and disappeared, ${SPANS[about.span]}.`),
        spans("overview", about.span, parameters))),
  ];
}

function tableLine(row, about) {
  const changed = about.changed[row.table_name];
  return el("tr", {}, el("th", { scope: "row" }, tableLink(row, "constraints")), el("td", { class: "number" }, row.rows === null ? "–" : count(row.rows)),
    el("td", { class: "number" }, count(about.by_table[row.table_name] ?? 0)),
    el("td", { class: "number" }, changed ? el("a", { href: link("changes", { table_name: row.table_name }) }, `+${count(changed.appeared)} −${count(changed.disappeared)}`) : "–"));
}

async function changeList(ask, parameters) {
  if (parameters.id) return oneConstraint(ask, parameters);
  const answer = await ask("changes", { ...parameters, limit: parameters.limit ?? FIRST });
  const { values } = answer;
  return [
    title("Changes", el("p", { class: "quiet" }, "Every constraint that appeared or disappeared, and the rows that prove it.")),
    filters(parameters, [
      { name: "table_name", label: "Table", values: values.table_name },
      { name: "change", label: "Change", values: values.change },
      { name: "reason", label: "Reason", values: values.reason },
      { name: "family", label: "Family", values: values.family, words: FAMILIES },
      { name: "kind", label: "Kind", values: values.kind, words: KINDS },
      { name: "cause", label: "Cause", values: values.cause, words: { data: "the data", seed: "first look", rebuild: "rebuilt", config: "configuration" } },
    ], { search: "words of a constraint", upTo: "Up to (UTC)" }),
    changes(answer.rows, "h2"),
    more(answer, parameters, "changes", "change"),
    answer.left_out ? el("p", { class: "quiet" }, `${count(answer.left_out)} older changes are in the table only.`) : null,
  ];
}

async function oneConstraint(ask, parameters) {
  const { id, ...others } = parameters;
  const [answer, { found }] = await Promise.all([ask("changes", { ...parameters, limit: parameters.limit ?? FIRST }), ask("constraint", { id })]);
  const all = el("a", { href: link("changes", others) }, "all changes");
  const one = answer.rows[0];
  const known = one ? el("div", { class: "card" }, constraint(one), el("p", { class: "about" }, tableLink(one, "constraints"), kindOf(one), all))
    : el("p", { class: "quiet" }, "There is no constraint with this address. ", all);
  return [
    title("One constraint"),
    found ? [constraintCard(found, all), exceptionCourse(found), found.proof?.commit === one?.commit ? null : lastProof(found)] : known,
    found ? actionList(found) : null,
    el("h2", {}, "Its history"), changes(answer.rows.map((row) => withSuspects(row, found))),
    more(answer, parameters, "changes", "change"),
  ];
}

// The change with which a constraint was last violated has the rows in which suspects are marked.
function withSuspects(row, found) {
  return found?.proof?.commit === row.commit && row.reason === "violated" ? { ...row, witness: found.proof.witness } : row;
}

async function rules(ask, parameters) {
  const answer = await ask("rules", {});
  const list = parameters.rule ? answer.rows.filter((row) => row.rule === parameters.rule) : answer.rows;
  const broken = answer.rows.filter((row) => row.broken).length;
  const points = list[0]?.passed ?? [];
  return [
    title(parameters.rule ? "One rule" : "Rules", el("p", { class: "quiet" }, parameters.rule ? el("a", { href: link("rules") }, "all rules")
      : answer.rows.length ? `${counted(answer.rows.length, "declared rule")}, ${count(broken)} broken.` : null)),
    answer.rows.length ? null : el("p", { class: "quiet" }, "No rules are declared. A configuration declares them under ", el("code", {}, "rules:"), "."),
    parameters.rule && !list.length ? el("p", {}, "There is no rule ", value(parameters.rule), ".") : null,
    el("div", { class: "rules" }, list.map((row) => rule(row, { open: parameters.rule ? 20 : stateOf(row) === "ok" ? 0 : 1, level: "h2" }))),
    parameters.rule && points.length > 1 ? plot("Violations over time", [{ name: "", points }]) : null,
  ];
}

const ORDERS = { score: "highest rank first", newest: "newest first", oldest: "oldest first", text: "by table and text" };

async function constraints(ask, parameters) {
  const answer = await ask("constraints", { ...parameters, limit: parameters.limit ?? FIRST });
  const history = await ask("history", { table_name: parameters.table_name, kind: parameters.kind });
  return [
    title("Constraints", el("p", { class: "quiet" }, `${counted(answer.held, "constraint")} ${answer.held === 1 ? "holds" : "hold"} now.`)),
    filters(parameters, [
      { name: "table_name", label: "Table", values: answer.values.table_name },
      { name: "family", label: "Family", values: answer.values.family, words: FAMILIES },
      { name: "kind", label: "Kind", values: answer.values.kind, words: KINDS },
    ], { search: "words of a constraint", sort: ORDERS }),
    el("ol", { class: "held" }, answer.rows.map(held)),
    more(answer, parameters, "constraints", "constraint"),
    soundOnly(answer, parameters, "constraints"),
    Object.keys(history.families).length ? course(history.families) : null,
  ];
}

function held(row) {
  const score = row.score === null ? null : Math.round(row.score * 100);
  return el("li", { "data-key": row.constraint_id }, constraint(row),
    el("p", { class: "about" }, tableLink(row, "constraints"), el("span", {}, kindOf(row)),
      el("span", {}, "held for ", ago(row.since, "held")),
      score === null ? null : el("span", { class: "score", title: "rank score, from 0 to 1" },
        el("meter", { min: 0, max: 100, value: score, "aria-label": "score" }), (score / 100).toFixed(2), row.rank ? `, place ${count(row.rank)}` : null),
      row.muted ? el("span", {}, "muted") : null, el("a", { href: link("changes", { id: row.constraint_id }) }, "history")));
}

async function inclusions(ask) {
  const answer = await ask("inclusions", {});
  return [
    title("Inclusions that nearly hold", el("p", { class: "quiet" }, "Inclusions of which few values are missing, such as orders of unknown customers.")),
    el("section", {}, el("h2", {}, "Declared rules with missing values"),
      answer.declared.length ? el("div", { class: "rules" }, answer.declared.map((row) => rule(row, { open: 3 })))
        : el("p", { class: "quiet" }, "No rule on an inclusion is declared. One under ", el("code", {}, "rules:"), ", such as ",
          el("code", {}, "{name: known_customer, inclusion: \"orders.customer in customers.id\"}"), ", has its missing values counted and shown after every batch.")),
    el("section", {}, el("h2", {}, "Held until a missing value was inserted"),
      answer.lost.length ? el("ol", { class: "changes" }, answer.lost.map((row) => change(row))) : el("p", { class: "quiet" }, "None.")),
    el("section", {}, el("h2", {}, "Nearly hold now"), answer.near === null
      ? el("p", { class: "quiet" }, "The output tables do not have the missing values of all pairs of columns; the state has them, if it is on this machine and the configuration has ",
        el("code", {}, "inclusion: {}"), ". On files, ", el("code", {}, "holdfast discover FILE... --family ind --min-coverage 0.9"), " lists them.")
      : nearTable(answer.near)),
  ];
}

function nearTable(found) {
  if (!found.length) return el("p", { class: "quiet" }, "No pair of columns has 80 % of its values covered and some missing.");
  return scrolled("Inclusions that nearly hold", el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["Inclusion", "Covered", "Values missing", "Rows they are in"].map((name, place) => el("th", { scope: "col", class: place ? "number" : null }, name)))),
    el("tbody", {}, found.map((row) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, value(row.constraint))),
      el("td", { class: "number" }, `${(row.coverage * 100).toFixed(2)} %`), el("td", { class: "number" }, count(row.missing_values)),
      el("td", { class: "number" }, count(row.missing_occurrences)))))));
}

async function pipeline(ask, parameters) {
  const answer = await ask("batches", parameters);
  const sources = Object.fromEntries(answer.tables.map((row) => [row.table_name, null]));
  const line = (name) => [{ name: "", points: answer.course.filter((one) => one[name] !== null).map((one) => [one.at, one[name]]) }];
  const { sums, seconds } = answer;
  const last = answer.newest[0];
  return [
    title("Pipeline", el("p", { class: "quiet" }, answer.until ? ["Last batch ", ago(answer.until), `, ${moment(answer.until)}`] : "No batch has been committed yet.")),
    el("div", { class: "bar" }, spans("pipeline", answer.span, parameters), filters(parameters, [{ name: "table_name", label: "Table", values: sources }])),
    el("ul", { class: "tiles four" },
      tileText(count(answer.batches), answer.batches === 1 ? "batch" : "batches"), tileText(count(sums.rows_in), "records read"),
      tileText(seconds ? duration(seconds.half) : "–", "median time of a batch"), tileText(seconds ? duration(seconds.most) : "–", "95 % of the batches took at most"),
      tileText(last ? duration(last.lag_seconds) : "–", "age of the oldest record of the last batch"),
      tileText(last?.lag_records === null || !last ? "–" : count(last.lag_records), "records not read yet"),
      tileText(count(sums.quarantined), "in quarantine"), tileText(count(sums.late), "late")),
    el("div", { class: "plots" },
      plot("Records", line("records"), { stepped: false }), plot("Longest batch", line("seconds"), { stepped: false, format: duration }),
      plot("Lag: age of the oldest record", line("lag"), { stepped: false, format: duration }),
      answer.course.some((one) => one.behind !== null) ? plot("Records not read yet", line("behind"), { stepped: false }) : null),
    el("h2", {}, "Newest batches"), batchTable(answer.newest),
    answer.figures.length ? [el("h2", {}, "Last figures"), figureTable(answer.figures)] : null,
    el("h2", {}, "Monitored tables"), answer.tables.map(monitored),
  ];
}

function tileText(number, text) {
  return el("li", { class: "tile" }, el("span", { class: "figure" }, number), el("span", {}, text));
}

function batchTable(list) {
  const names = ["Commit", "When", "Table", "Records", "Inserted", "Updated", "Deleted", "Bad", "Late", "Rows after", "Constraints after", "Time", "Lag"];
  return scrolled("Newest batches", el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, names.map((name, place) => el("th", { scope: "col", class: place > 2 ? "number" : null }, name)))),
    el("tbody", {}, list.map((row) => el("tr", { "data-key": `batch-${row.commit}` },
      el("td", {}, count(row.commit)), el("td", {}, ago(row.committed_at)), el("td", {}, value(row.source)),
      [row.rows_in, row.inserted, row.updated, row.deleted, row.quarantined, row.late, row.table_rows, row.constraints].map((number) =>
        el("td", { class: number ? "number" : "number zero" }, number === null ? "–" : count(number))),
      el("td", { class: "number", title: Object.entries(row.steps).map(([step, took]) => `${step} ${duration(took)}`).join(", ") }, duration(row.seconds)),
      el("td", { class: "number" }, duration(row.lag_seconds)))))));
}

const FIGURES = { memory_bytes: bytes, lag_seconds: duration, busy_seconds: duration };

function figureTable(figures) {
  return scrolled("Last figures", el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["Figure", "Table", "Value", "When"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, figures.map((row) => el("tr", {}, el("th", { scope: "row" }, value(row.metric)), el("td", {}, value(row.source)),
      el("td", {}, (FIGURES[row.metric] ?? count)(row.value)), el("td", {}, ago(row.at)))))));
}

function monitored(row) {
  const columns = Object.entries(row.columns ?? {});
  return el("details", { "data-key": `table-${row.table_name}` }, el("summary", {}, value(row.table_name), ` – ${counted(columns.length, "column")}`),
    el("p", {}, columns.map(([name, kind], place) => [place ? ", " : "", value(name), " ", el("span", { class: "quiet" }, value(kind))])),
    row.excluded?.length ? el("p", {}, "Left out: ", row.excluded.map((name, place) => [place ? ", " : "", value(name)])) : null,
    row.nulls_rule ? el("p", { class: "quiet" }, "In comparisons, ", value(row.nulls_rule), ".") : null);
}

async function quarantine(ask, parameters) {
  const answer = await ask("quarantine", { ...parameters, limit: parameters.limit ?? FIRST });
  return [
    title("Quarantine", el("p", { class: "quiet" }, answer.from ? `Records that could not be read, since ${day(answer.from)}.` : "No record is in quarantine.")),
    answer.reasons.length ? el("div", { class: "card" }, el("h2", {}, "Reasons"), el("ul", { class: "reasons" }, answer.reasons.slice(0, 12).map((row) =>
      el("li", {}, el("span", { class: "number" }, count(row.count)), el("a", { href: link("quarantine", { ...parameters, reason: row.reason }) }, value(row.reason)))))) : null,
    answer.from ? filters(parameters, [{ name: "table_name", label: "Table", values: answer.tables }]) : null,
    parameters.reason ? el("p", {}, "With the reason ", value(parameters.reason, { class: "strong" })) : null,
    el("ol", { class: "bad" }, answer.rows.map((row) => el("li", { "data-key": `${row.commit}-${row.record_id}` },
      el("p", { class: "sentence" }, value(row.reason)),
      el("p", { class: "about" }, value(row.table_name), value(row.record_id), ago(row.seen_at), el("span", {}, `commit ${count(row.commit)}`)),
      row.raw === null ? el("p", { class: "quiet" }, "The text of the record is not stored.") : el("pre", { tabindex: 0, "aria-label": "The record" }, value(row.raw))))),
    answer.from ? more(answer, parameters, "quarantine", "record") : null,
  ];
}
