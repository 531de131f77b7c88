// Creates elements. Invariant: a value of the data becomes the content of a text node, or of an attribute that is neither
// an address nor code; characters that are invisible, or change the direction of writing, are shown as escapes.

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export function el(name, attributes, ...children) {
  return made(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

// A value of the data, whose direction of writing does not affect the text around it.
export function value(given, attributes) {
  const place = el("bdi", attributes);
  const text = String(given ?? "");
  let done = 0;
  for (const found of text.matchAll(UNSEEN)) {
    place.append(text.slice(done, found.index));
    const number = found[0].charCodeAt(0).toString(16).padStart(4, "0");
    place.append(el("span", { class: "unseen", title: `the character U+${number.toUpperCase()}` }, `\\u${number}`));
    done = found.index + found[0].length;
  }
  place.append(text.slice(done));
  return place;
}

// The address of a view with parameters.
export function link(view, parameters) {
  const query = new URLSearchParams();
  for (const [name, given] of Object.entries(parameters ?? {})) {
    if (given !== null && given !== undefined && given !== "") query.set(name, given);
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

// Change the old elements to the new ones with as few changes as possible, so that focus, selection and open details stay.
export function morph(old, fresh, arrived) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open") && name !== "data-arrived") {
      old.removeAttribute(name);
    }
  }
  for (const { name, value: given } of fresh.attributes) {
    if (old.getAttribute(name) !== given && !(old.nodeName === "DETAILS" && name === "open")) old.setAttribute(name, given);
  }
  morphChildren(old, fresh, arrived);
  if (old.nodeName === "SELECT" && document.activeElement !== old) {
    const chosen = [...old.options].find((option) => option.hasAttribute("selected"));
    old.value = chosen ? chosen.value : "";
  }
  if (old.nodeName === "INPUT" && document.activeElement !== old) old.value = fresh.getAttribute("value") ?? "";
}

export function morphChildren(old, fresh, arrived) {
  const keyed = new Map();
  for (const child of old.children) {
    if (child.dataset.key) keyed.set(child.dataset.key, child);
  }
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const key = child.dataset?.key;
    let same = key ? keyed.get(key) : at;
    if (!key && same?.dataset?.key) same = null;
    if (!same) {
      if (key && arrived) child.dataset.arrived = "";
      old.insertBefore(child, at);
      continue;
    }
    if (same !== at) old.insertBefore(same, at);
    else at = at.nextSibling;
    const next = same.nextSibling;
    const wasLast = at === next;
    morph(same, child, arrived);
    if (wasLast) at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
