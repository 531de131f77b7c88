// The source of answers: the server of the page, or, in a report, the data in the file.

const WORDS = ["table_name", "family", "kind", "change", "reason", "cause"];

export function source() {
  const written = document.getElementById("data");
  return written ? new Written(JSON.parse(written.textContent)) : new Served();
}

class Served {
  isLive = true;
  about = null;

  async ask(question, parameters) {
    const query = new URLSearchParams(Object.entries(parameters ?? {}).filter(([, given]) => given !== null && given !== undefined && given !== ""));
    let response;
    try {
      response = await fetch(`api/${question}?${query}`, { cache: "no-store" });
    } catch {
      throw new Error("holdfast dashboard does not answer: it was stopped, or its machine cannot be reached.");
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    return answer;
  }

  has() {
    return true;
  }

  // Call a function for each commit, and another one when the connection is made or lost.
  follow(arrived, connected) {
    const events = new EventSource("api/events");
    events.addEventListener("open", () => connected(true));
    events.addEventListener("error", () => connected(false));
    events.addEventListener("state", (event) => arrived(event.data));
    return () => events.close();
  }
}

class Written {
  isLive = false;

  constructor(data) {
    this.data = data;
    this.about = data.about;
  }

  async ask(question, given) {
    const parameters = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== ""));
    const answer = this.data.answers[question];
    if (question === "history") return parameters.kind ? { families: {} } : answer[parameters.table_name ?? ""] ?? { families: {} };
    if (question === "batches") return answer[parameters.table_name ?? ""] ?? answer[""];
    if (question === "changes") return page(answer, parameters, (row) => fits(row, parameters, ["constraint", "sentence", "by"]));
    if (question === "constraints") {
      return soundPage(answer, parameters, (row) => fits(row, parameters, ["constraint", "sentence"]), SORTED[parameters.order] ?? null);
    }
    if (question === "near") {
      return soundPage(answer, parameters, (row) => fits(row, parameters, ["constraint", "sentence"]) && isNear(row, parameters),
        NEAR_SORTED[parameters.order] ?? null);
    }
    if (question === "near_constraint") {
      const found = answer[parameters.id];
      return found ? page(found, parameters, () => true) : this.without(parameters.id);
    }
    if (question === "suspects") {
      return page(answer, parameters, (row) => ["table_name", "column"].every((name) => !parameters[name] || row[name] === parameters[name]));
    }
    if (question === "constraint") return { found: answer[parameters.id] ?? null };
    if (question === "incidents") {
      return page(answer, parameters, (row) =>
        (!parameters.table_name || row.table_name === parameters.table_name) && (!parameters.direction || row.direction === parameters.direction));
    }
    if (question === "incident") {
      const found = answer[`${parameters.commit}-${parameters.direction}-${parameters.table_name}`];
      return found ? page(found, parameters, () => true) : { incident: null, total: 0, rows: [], isShort: true };
    }
    if (question === "quarantine") {
      return page(answer, parameters, (row) =>
        (!parameters.table_name || row.table_name === parameters.table_name) && (!parameters.reason || row.reason.includes(parameters.reason)));
    }
    return answer;
  }

  // A near constraint whose changes are not in the file.
  without(id) {
    const row = this.data.answers.near.rows.find((one) => one.constraint_id === id) ?? null;
    return { held: row, total: 0, rows: [], course: [], exceptions: null, where: [], isShort: true };
  }

  // Whether the file has the data of a view; most views need none.
  has(question) {
    return !question || question in this.data.answers;
  }

  follow() {
    return () => {};
  }
}

const SORTED = {
  newest: (a, b) => b.since_commit - a.since_commit,
  oldest: (a, b) => a.since_commit - b.since_commit,
  text: (a, b) => (a.constraint < b.constraint ? -1 : 1),
};

const NEAR_SORTED = {
  share: (a, b) => (a.exceptions === 0) - (b.exceptions === 0) || a.share - b.share,
  most: (a, b) => b.share - a.share,
  newest: SORTED.newest,
  text: (a, b) => (a.table_name + a.constraint < b.table_name + b.constraint ? -1 : 1),
};

function isNear(row, parameters) {
  return (!parameters.shape || row.shape === parameters.shape) && (!parameters.having || parameters.having === (row.exceptions ? "some" : "none"));
}

function fits(row, parameters, searched) {
  const text = searched.map((name) => row[name] ?? "").join("\n").toLowerCase();
  const words = (parameters.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return WORDS.every((name) => !parameters[name] || row[name] === parameters[name])
    && (!parameters.day || row.at.slice(0, 10) <= parameters.day) && (!parameters.id || row.constraint_id === parameters.id) && words.every((word) => text.includes(word));
}

// A page without the rows that are known not to be sound, unless all are asked for, or none is sound.
function soundPage(answer, parameters, wanted, order) {
  const every = page(answer, parameters, wanted, order);
  if (parameters.every === "yes" || !answer.rows.some((row) => row.is_sound === "yes")) return { ...every, unsound: 0 };
  const found = page(answer, parameters, (row) => row.is_sound !== "no" && wanted(row), order);
  return { ...found, unsound: every.total - found.total };
}

function page(answer, parameters, wanted, order) {
  let rows = answer.rows.filter(wanted);
  if (order) rows = rows.toSorted(order);
  const offset = Number(parameters.offset ?? 0);
  return { ...answer, total: rows.length, rows: rows.slice(offset, offset + Number(parameters.limit ?? 25)), kept: answer.rows.length, left: answer.total - answer.rows.length };
}
