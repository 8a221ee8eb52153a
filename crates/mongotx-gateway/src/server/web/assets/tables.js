// Tables and lists of the gateway's state. Everything is put into the page as text.

function make(name, attributes = {}, text) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined && text !== null) element.textContent = text;
  return element;
}

function span(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

function micros(us) {
  if (us < 1_000) return `${Math.round(us)} µs`;
  return us < 1_000_000 ? `${Number((us / 1_000).toPrecision(3))} ms` : `${Number((us / 1_000_000).toPrecision(3))} s`;
}

function count(value) {
  return value >= 10_000 ? `${Number((value / 1_000).toPrecision(3))} k` : `${Number(value.toPrecision(3))}`;
}

/** A cell: a text, or elements. */
function cell(content, kind) {
  const td = make("td", kind ? { class: kind } : {});
  td.append(...(Array.isArray(content) ? content : [content ?? ""]));
  return td;
}

function code(text) {
  return make("code", {}, text ?? "");
}

/** Who: the user, the application and the host. */
function whoCell(who) {
  if (!who) return cell("");
  const name = [who.user, who.application].filter(Boolean).join(" · ") || "a client";
  const more = [who.host, who.driver].filter(Boolean).join(" · ");
  return cell([name, make("small", {}, more)]);
}

function whoWords(who) {
  return who ? [who.user, who.application, who.host].filter(Boolean).join(" · ") : "another gateway or client";
}

function state(words, kind) {
  return make("span", { class: `state ${kind}` }, words);
}

/**
 * Shows rows, or that there are none. A row that was there before, by its key, is exchanged in its
 * place only if it has changed.
 */
function fill(id, headings, rows, more) {
  const section = document.getElementById(id);
  section.querySelector(".empty").hidden = rows.length > 0;
  const place = section.querySelector(".rows");
  let table = place.querySelector("table");
  if (!table) {
    table = make("table");
    const head = make("tr");
    head.append(...headings.map((heading) => make("th", { scope: "col" }, heading)));
    const top = make("thead");
    top.append(head);
    table.append(top, make("tbody"));
    place.replaceChildren(table);
  }
  table.hidden = rows.length === 0;
  const body = table.tBodies[0];
  const before = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach(({ key, cells, button }, at) => {
    let row = before.get(key);
    before.delete(key);
    if (!row) {
      row = make("tr", { "data-key": key });
      row.append(...cells);
      const act = cell(button ? [button()] : "", "act");
      row.append(act);
    } else {
      cells.forEach((next, n) => {
        if (!row.cells[n].isEqualNode(next)) row.cells[n].replaceWith(next);
      });
    }
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
  });
  before.forEach((row) => row.remove());
  const note = section.querySelector(".more");
  note.hidden = !more;
  note.textContent = more ?? "";
}

/** A button that asks once more before it acts. */
function sureButton(words, act) {
  const button = make("button", { type: "button" }, words);
  let timer;
  const calm = () => {
    clearTimeout(timer);
    button.classList.remove("sure");
    button.textContent = words;
  };
  button.addEventListener("click", async () => {
    if (!button.classList.contains("sure")) {
      button.classList.add("sure");
      button.textContent = `${words}: sure?`;
      timer = setTimeout(calm, 4_000);
      return;
    }
    calm();
    button.disabled = true;
    await act();
    button.disabled = false;
  });
  return button;
}

/** Those who wait, under those who hold what they wait for. */
function waitsOf(operations) {
  const byId = new Map(operations.filter((one) => one.transaction).map((one) => [one.transaction, one]));
  const waiters = new Map();
  for (const one of operations.filter((one) => one.waits)) {
    const rival = one.waits.transaction;
    waiters.set(rival, [...(waiters.get(rival) ?? []), one]);
  }
  const item = (id, one, wait, above) => {
    const line = make("li");
    const who = one ? whoWords(one.who) : whoWords(wait.rival?.who);
    const words = wait && one?.waits === wait ? ` waits for ${span(wait.ms)}, for a document of ` : "";
    line.append(make("b", {}, who), words || " holds what others wait for: ");
    line.append(code(words ? wait.namespace : one ? (one.shape ?? "") : (wait.rival?.shape ?? id)));
    if (words) line.append(make("small", {}, ` ${one.shape ?? ""}`));
    const below = id && !above.includes(id) ? (waiters.get(id) ?? []) : [];
    if (below.length > 0) {
      const list = make("ul");
      list.append(...below.map((next) => item(next.transaction, next, next.waits, [...above, id])));
      line.append(list);
    }
    return line;
  };
  const roots = [...waiters.keys()].filter((id) => !byId.get(id)?.waits);
  // Two transactions that wait for each other have no root.
  const shown = roots.length > 0 ? roots : [...waiters.keys()].slice(0, 1);
  return shown.map((id) => item(id, byId.get(id), byId.has(id) ? null : waiters.get(id)[0].waits, []));
}
