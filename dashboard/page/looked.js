// When this browser last looked at an application: the newest commit that it had shown, as a mark in its local storage.

const MARK_NAME = "holdfast-looked", PAUSE = 600000;

let lastApplication = null;
const looks = new Map();
readMarks();

// A look that ended ten minutes ago or earlier is the last one; until then, opening the page again is the same look.
function readMarks() {
  try {
    const { last, of } = JSON.parse(localStorage.getItem(MARK_NAME)) ?? { last: null, of: [] };
    for (const [name, look] of of) looks.set(name, look.shown && Date.now() - look.shown.at > PAUSE ? { ...look.shown } : look);
    lastApplication = last;
  } catch {
    looks.clear(); // what another page of this address has written
  }
}

function keepMark(application, look) {
  lastApplication = application;
  looks.set(application, look);
  try {
    localStorage.setItem(MARK_NAME, JSON.stringify({ last: application, of: [...looks] }));
  } catch {
    // The browser keeps nothing for this page.
  }
}

// The commit and the time of the last look at an application, by default the last one; null where there was none.
export function lastLook(application) {
  const look = looks.get(application ?? lastApplication);
  return Number.isInteger(look?.commit) && Number.isFinite(look.at) ? { commit: look.commit, at: look.at } : null;
}

// Keep what this look has shown.
export function keepLook(application, commit) {
  keepMark(application, { ...looks.get(application), shown: { commit, at: Date.now() } });
}

// Start a new look: everything up to a commit was seen.
export function seenUpTo(application, commit) {
  keepMark(application, { commit, at: Date.now(), shown: { commit, at: Date.now() } });
}
