// Lines over time as SVG: an axis of counts, an axis of times, and a table of the same values for screen readers.

import { el, svg } from "./dom.js";
import { clock, count, day } from "./words.js";

const HEIGHT = 180, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 24, DEEP = HEIGHT - TOP - BOTTOM;
const WIDE = 560, NARROW = 350;

// The steps of an axis: 1, 2 or 5 times a power of ten, and at least the smallest step.
function steps(least, most, smallest) {
  const room = most - least || Math.abs(most) || 1;
  const power = 10 ** Math.floor(Math.log10(room / 4));
  const step = Math.max(smallest, [1, 2, 5, 10].map((factor) => factor * power).find((wide) => room / wide <= 5));
  const found = [];
  for (let at = Math.floor(least / step) * step; at < most + step * 0.999; at += step) found.push(Number(at.toPrecision(9)));
  return found;
}

function timeText(ms, wide) {
  return wide > 2 * 86400000 ? day(ms) : clock(ms);
}

// lines: [{name, points: [[ms, number]]}]; stepped lines keep a number until the next point, and end where it is null.
export function plot(title, lines, { format = count, stepped = true, narrow = false } = {}) {
  const width = narrow || innerWidth < 640 ? NARROW : WIDE;
  const drawn = lines.filter((line) => known(line).length);
  if (!drawn.length) return el("figure", { class: "plot" }, el("figcaption", {}, title), el("p", { class: "quiet" }, "Nothing yet."));
  const every = drawn.flatMap((line) => line.points);
  const first = Math.min(...every.map((point) => point[0]));
  const last = Math.max(...every.map((point) => point[0]), first + 1);
  const ticks = steps(0, Math.max(...every.map((point) => point[1] ?? 0), 0), format === count ? 1 : 0);
  const [low, high] = [ticks[0], Math.max(ticks.at(-1), ticks[0] + 1e-9)];
  const x = (ms) => LEFT + ((ms - first) / (last - first)) * (width - LEFT - RIGHT);
  const y = (number) => TOP + (1 - (number - low) / (high - low)) * DEEP;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": summary(title, drawn, format) });
  for (const tick of ticks) {
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }));
    picture.append(svg("text", { class: "axis", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
  }
  const ends = [[first, "start"], [first + (last - first) / 2, "middle"], [last, "end"]];
  for (const [ms, anchor] of ends) {
    picture.append(svg("text", { class: "axis", x: x(ms), y: HEIGHT - 6, "text-anchor": anchor }, timeText(ms, last - first)));
  }
  drawn.forEach((line, number) => picture.append(...drawing(line, number, x, y, stepped, format, last)));
  return el("figure", { class: "plot" }, el("figcaption", {}, title, legend(drawn)), picture, table(title, drawn, format));
}

function drawing(line, number, x, y, stepped, format, last) {
  let path = "", isOpen = false;
  for (const [ms, amount] of line.points) {
    const across = x(ms).toFixed(1);
    if (amount === null) path += isOpen && stepped ? `H${across}` : "";
    else path += !isOpen ? `M${across} ${y(amount).toFixed(1)}` : stepped ? `H${across}V${y(amount).toFixed(1)}` : `L${across} ${y(amount).toFixed(1)}`;
    isOpen = amount !== null;
  }
  if (stepped && isOpen) path += `H${x(last).toFixed(1)}`;
  const dots = known(line).map(([ms, amount]) =>
    svg("circle", { class: `dot-${number % 4}`, cx: x(ms).toFixed(1), cy: y(amount).toFixed(1), r: line.points.length > 60 ? 1.5 : 3 },
      svg("title", {}, `${day(ms)}, ${clock(ms)}: ${format(amount)}${line.name ? ` ${line.name}` : ""}`)));
  return [svg("path", { class: `line-${number % 4}`, d: path }), ...dots];
}

function known(line) {
  return line.points.filter((point) => point[1] !== null);
}

function legend(drawn) {
  if (drawn.length < 2) return null;
  return el("span", { class: "legend" }, drawn.map((line, number) => el("span", { class: `key-${number % 4}` }, line.name)));
}

function summary(name, drawn, format) {
  const parts = drawn.map((line) => `${line.name || "value"} from ${format(known(line)[0][1])} to ${format(known(line).at(-1)[1])}`);
  return `${name}: ${parts.join("; ")}`;
}

function table(name, drawn, format) {
  const rows = drawn.flatMap((line) => known(line).slice(-50).map((point) => [line.name, ...point]));
  return el("details", { class: "as-table" }, el("summary", {}, "As a table"),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${name}, as a table` }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "When"), el("th", { scope: "col" }, "What"), el("th", { scope: "col" }, "How much"))),
      el("tbody", {}, rows.reverse().map(([line, ms, amount]) =>
        el("tr", {}, el("td", {}, `${day(ms)}, ${clock(ms)}`), el("td", {}, line || ""), el("td", { class: "number" }, format(amount))))))));
}

// A small plot of a number over time, beside its text.
export function spark(points, label) {
  const most = Math.max(...points.map((point) => point[1]), 1);
  const [first, last] = [points[0][0], Math.max(points.at(-1)[0], points[0][0] + 1)];
  let path = "";
  points.forEach(([ms, amount], place) => {
    const across = (1 + ((ms - first) / (last - first)) * 98).toFixed(1);
    const down = (21 - (amount / most) * 18).toFixed(1);
    path += place === 0 ? `M${across} ${down}` : `H${across}V${down}`;
  });
  return svg("svg", { class: "spark", viewBox: "0 0 100 24", role: "img", "aria-label": label }, svg("path", { d: `${path}H99` }));
}
