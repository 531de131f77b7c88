// When this browser last looked: the newest commit that it had shown, as a mark in its local storage.

const MARK_NAME = "holdfast-looked", PAUSE = 600000;

// A look that ended ten minutes ago or earlier is the last one; until then, opening the page again is the same look.
let kept = readMark();
if (kept?.shown && Date.now() - kept.shown.at > PAUSE) kept = { application: kept.application, ...kept.shown };

function readMark() {
  try {
    const found = JSON.parse(localStorage.getItem(MARK_NAME));
    return found && typeof found === "object" ? found : null;
  } catch {
    return null;
  }
}

function writeMark() {
  try {
    localStorage.setItem(MARK_NAME, JSON.stringify(kept));
  } catch {
    // The browser keeps nothing for this page.
  }
}

// The commit and the time of the last look at an application, null where it was not looked at.
export function lastLook(application) {
  return kept && Number.isInteger(kept.commit) && (!application || kept.application === application) ? { commit: kept.commit, at: kept.at } : null;
}

// Keep what this look has shown.
export function keepLook(application, commit) {
  if (kept?.application !== application) kept = { application };
  kept = { ...kept, shown: { commit, at: Date.now() } };
  writeMark();
}

// Start a new look: everything up to a commit was seen.
export function seenUpTo(application, commit) {
  kept = { application, commit, at: Date.now(), shown: { commit, at: Date.now() } };
  writeMark();
}
