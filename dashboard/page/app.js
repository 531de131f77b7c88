// The page: shows the view of the address, and updates it when commits arrive.

import { el, link, morphChildren, value } from "./dom.js";
import { seenUpTo } from "./looked.js";
import { source } from "./source.js";
import { VIEWS } from "./views.js";
import { moment, tellAsOf, tick } from "./words.js";

const answers = source();
const place = document.getElementById("view");
const dot = document.getElementById("dot");
const state = document.getElementById("state");
const pause = document.getElementById("pause");
const application = document.getElementById("application");
const said = document.getElementById("said");

let turn = 0, shown = "", seen = null, missed = false, isPaused = false, isConnected = true, typing = null;

function where() {
  const [view, query] = location.hash.slice(2).split(/\?(.*)/s);
  const name = Object.hasOwn(VIEWS, view) && answers.has(VIEWS[view].needs) ? view : "overview";
  return [name, Object.fromEntries(new URLSearchParams(query ?? ""))];
}

async function ask(question, given) {
  const answer = await answers.ask(question, given);
  if (answer.application && application.textContent === "") application.append(value(answer.application));
  return answer;
}

async function show({ arrived = false, stays = false } = {}) {
  const mine = ++turn;
  const [name, parameters] = where();
  const isOther = shown !== name;
  place.setAttribute("aria-busy", "true");
  let parts;
  try {
    parts = await VIEWS[name].show(ask, parameters, answers.isLive);
  } catch (error) {
    if (!(error instanceof TypeError)) parts = [el("p", { class: "problem", role: "alert" }, value(error.message))];
    else throw error;
  }
  if (mine !== turn) return;
  const fresh = el("main", {}, parts);
  morphChildren(place, fresh, arrived);
  place.removeAttribute("aria-busy");
  document.title = `${VIEWS[name].title} – Holdfast`;
  for (const item of document.querySelectorAll("#views a")) {
    if (item.dataset.view !== name) {
      item.removeAttribute("aria-current");
    } else if (!item.hasAttribute("aria-current")) {
      item.setAttribute("aria-current", "page");
      item.parentNode.parentNode.scrollLeft = item.offsetLeft - 60;
    }
  }
  if (isOther && shown && !stays) {
    scrollTo(0, 0);
    place.focus({ preventScroll: true });
  }
  shown = name;
  missed = false;
}

function tell() {
  dot.className = `dot ${!answers.isLive ? "written" : isPaused ? "paused" : isConnected ? "live" : "lost"}`;
  state.textContent = !answers.isLive ? `as of ${moment(answers.about.written)}` : isPaused ? (missed ? "paused, commits have arrived" : "paused")
    : isConnected ? "live" : "not connected";
}

function arrived(version) {
  if (version === seen) return;
  const isFirst = seen === null;
  seen = version;
  if (isFirst) return;
  missed = true;
  if (!isPaused) show({ arrived: true }).then(() => { said.textContent = "Commits have arrived; the page is up to date."; });
  tell();
}

// The address of the view with the values of a form of filters.
function filtered(form) {
  const [view, parameters] = where();
  const { limit, offset, until, ...kept } = parameters;
  return link(view, { ...kept, ...Object.fromEntries(new FormData(form)) });
}

document.addEventListener("change", (event) => {
  if (event.target.form?.matches(".filters") && event.target.type !== "search") location.hash = filtered(event.target.form);
});
document.addEventListener("input", (event) => {
  if (event.target.type !== "search") return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    history.replaceState(null, "", filtered(event.target.form));
    show();
  }, 200);
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  location.hash = filtered(event.target);
});
// Copy a text; where the browser refuses, select it, so that a person can.
async function copy(button) {
  const shown = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    said.textContent = "The line is copied.";
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(shown);
    said.textContent = "The line is selected.";
  }
}

document.addEventListener("click", (event) => {
  const copied = event.target.closest?.("button[data-copy]");
  if (copied) {
    copy(copied);
    return;
  }
  const seen = event.target.closest?.("button[data-seen]");
  if (seen) {
    seenUpTo(seen.dataset.application, Number(seen.dataset.seen));
    show({ stays: true }).then(() => { said.textContent = "Everything up to now is marked as seen."; });
    return;
  }
  const stay = event.target.closest?.("a[data-stay]");
  if (!stay || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", stay.getAttribute("href"));
  show({ stays: true });
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const box = place.querySelector("input[type=search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});
pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  pause.textContent = isPaused ? "Resume" : "Pause";
  if (!isPaused && missed) show({ arrived: true });
  tell();
});
addEventListener("hashchange", () => show());
addEventListener("popstate", () => show());

document.getElementById("views").append(...Object.entries(VIEWS).filter(([, view]) => answers.has(view.needs)).map(([name, view]) =>
  el("li", {}, el("a", { href: link(name), "data-view": name }, view.title))));
if (!answers.isLive) {
  pause.remove();
  tellAsOf(answers.about.written);
  document.body.classList.add("written");
}
tell();
show();
// A hidden page does not listen for commits, since a browser has few connections for all its tabs.
let stop = null;
function listen() {
  stop?.();
  stop = document.hidden ? null : answers.follow(arrived, (connected) => {
    if (connected && !isConnected && !isPaused) show({ arrived: true });
    isConnected = connected;
    tell();
  });
}
document.addEventListener("visibilitychange", listen);
listen();
setInterval(() => answers.isLive && tick(place), 5000);
