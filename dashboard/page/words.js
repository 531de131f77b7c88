// Numbers, times, and the words of the tables, for people.

import { el } from "./dom.js";

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const LENGTHS = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];

export const KINDS = {
  key: "key", constant: "constant", functional_dependency: "functional dependency", other: "denial constraint",
  order_compatible: "order",
};
export const FAMILIES = { dc: "denial constraints", od: "order dependencies", ind: "inclusion dependencies" };
const ONE_OF = { dc: "denial constraint", od: "order dependency", ind: "inclusion dependency" };

export const SHAPES = { key: "key", constant: "functional dependency", order: "order", order_desc: "descending order" };
export const SPANS = { hour: "last hour", day: "last day", week: "last week", month: "last month" };

let writtenAt = null;

// A report shows ages as of the time when it was written.
export function tellAsOf(moment) {
  writtenAt = new Date(moment).getTime();
}

export function count(number) {
  return NUMBER.format(number);
}

export function counted(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many ?? `${one}s`}`;
}

// A share of the rows, however small.
export function percent(share) {
  return `${Number((share * 100).toPrecision(3))} %`;
}

export function kindOf(row) {
  return KINDS[row.kind] ?? ONE_OF[row.family] ?? row.family ?? "";
}

export function moment(text) {
  const date = new Date(text);
  return `${DAY.format(date)}, ${CLOCK.format(date)}`;
}

export function clock(text) {
  return CLOCK.format(new Date(text));
}

export function day(text) {
  return DAY.format(new Date(text));
}

export function span(seconds) {
  for (const [name, length] of LENGTHS) {
    if (seconds >= length) return counted(Math.floor(seconds / length), name);
  }
  return counted(Math.max(0, Math.floor(seconds)), "second");
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 120 ? `${seconds.toFixed(seconds < 10 ? 2 : 1)} s` : span(seconds);
}

function age(text) {
  return Math.max(0, ((writtenAt ?? Date.now()) - new Date(text).getTime()) / 1000);
}

function since(text, form) {
  const passed = span(age(text));
  return form === "held" ? passed : `${passed} ago`;
}

// A time as how long ago it was; with `form` held, as how long it has lasted.
export function ago(text, form) {
  if (!text) return el("span", {}, "unknown");
  return el("time", { datetime: text, title: moment(text), "data-form": form ?? "ago" }, since(text, form));
}

export function tick(root) {
  for (const time of root.querySelectorAll("time[data-form]")) {
    const text = since(time.dateTime, time.dataset.form);
    if (time.textContent !== text) time.textContent = text;
  }
}

export function bytes(number) {
  return number >= 1e9 ? `${(number / 1e9).toFixed(1)} GB` : `${Math.round(number / 1e6)} MB`;
}
