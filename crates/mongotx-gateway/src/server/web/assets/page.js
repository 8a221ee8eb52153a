// Fetches the gateway's state once a second, as long as the page is visible, and shows it.

const token = document.querySelector("meta[name=token]").content;
const problem = document.getElementById("problem");
const said = document.getElementById("said");
let seconds = [];

function say(element, words) {
  element.hidden = !words;
  element.textContent = words ?? "";
}

/** Has the gateway do something, and says what it has answered. */
async function act(path, what) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-MongoTx-Token": token },
      body: JSON.stringify(what),
    });
    if (!answer.ok) throw new Error(await answer.text());
    const result = await answer.json();
    say(said, result.done);
    return result;
  } catch (error) {
    say(said, `It was not done: ${error.message}`);
    return null;
  }
}

function showTiles(snapshot) {
  const dead = snapshot.clients.list.filter((client) => client.dead).length;
  const tiles = { connections: snapshot.connections, running: snapshot.running, open: snapshot.open, waiting: snapshot.waiting, dead };
  for (const [id, value] of Object.entries(tiles)) document.getElementById(`tile-${id}`).textContent = value;
  document.getElementById("tile-waiting").parentElement.classList.toggle("alarm", snapshot.waiting > 0);
  document.getElementById("tile-dead").parentElement.classList.toggle("alarm", dead > 0);
  // A button would be refused.
  document.body.classList.toggle("looks-only", !snapshot.may_act);
  const user = snapshot.user ? `, logged in as ${snapshot.user}` : "";
  document.getElementById("about").textContent = `mongotx ${snapshot.version}, up for ${span(snapshot.uptime_ms)}${user}`;
}

function showCharts(snapshot) {
  const last = seconds.at(-1)?.at ?? 0;
  seconds = [...seconds, ...snapshot.seconds.filter((second) => second.at > last)].slice(-300);
  const now = seconds.at(-1)?.at ?? Date.now();
  // How long the second was that a value is of.
  const lengths = seconds.map((second, n) => (n > 0 ? Math.max((second.at - seconds[n - 1].at) / 1_000, 0.1) : 1));
  const rate = (value) => seconds.map((second, n) => [second.at, value(second) / lengths[n]]);
  const named = snapshot.sorts.map((name, n) => ({ name, colour: `c${n}`, n }));
  const place = (id) => [document.getElementById(`chart-${id}`), document.getElementById(`legend-${id}`)];
  const rates = named.map(({ name, colour, n }) => ({ name, colour, points: rate((second) => second.sorts[n][0]) }));
  draw(...place("rates"), rates, now, { words: count });
  const latencies = named.slice(0, 3).flatMap(({ name, colour, n }) =>
    [1, 2].map((which) => ({
      name,
      colour,
      dashed: which === 2,
      points: seconds.map((second) => [second.at, second.sorts[n][0] > 0 ? second.sorts[n][which] : null]),
    })),
  );
  draw(...place("latencies"), latencies, now, { log: true, words: micros });
  const ends = [
    ["committed", "c2"],
    ["conflicts", "c1"],
    ["aborted", "c3"],
  ];
  const names = { committed: "committed", conflicts: "rolled back by a rival", aborted: "rolled back otherwise" };
  const transactions = ends.map(([field, colour]) => ({
    name: names[field],
    colour,
    points: rate((second) => second[field]),
  }));
  draw(...place("transactions"), transactions, now, { words: count });
}

function showWaits(snapshot) {
  const place = document.querySelector("#waits .rows");
  const items = waitsOf(snapshot.operations);
  document.querySelector("#waits .empty").hidden = items.length > 0;
  const list = make("ul", { class: "waits" });
  list.append(...items);
  place.replaceChildren(list);
}

function showOperations(snapshot) {
  const rows = snapshot.operations.map((one) => {
    const [words, kind] = one.waits ? ["waits", "waits"] : one.idle ? ["idle", "idle"] : ["runs", "runs"];
    const age = one.open_ms === null ? "" : `transaction open for ${span(one.open_ms)}`;
    const aborts = one.number !== null && one.session;
    const key = aborts ? `${one.session}/${one.number}` : `op ${one.opid}`;
    const words2 = one.idle ? "" : span(one.ms);
    return {
      key,
      cells: [
        cell([state(words, kind)]),
        cell([words2, make("small", {}, age)], "number"),
        whoCell(one.who),
        cell(one.namespace),
        cell([code(one.shape), make("small", {}, one.transaction ? `transaction ${one.transaction}` : "")], "wide"),
      ],
      button: () =>
        aborts
          ? sureButton("Abort", () => act("abort", { session: one.session, number: one.number }))
          : sureButton("End", () => act("end", { opid: one.opid })),
    };
  });
  const more = snapshot.more_operations > 0 ? `${snapshot.more_operations} more are not shown.` : null;
  fill("operations", ["State", "For", "Who", "Collection", "Query, without its values", ""], rows, more);
}

/** What a client holds, on request: the store is asked then only. */
async function showHeld(id, place) {
  const result = await act("holds", { client: id });
  if (!result) return;
  const items = result.transactions.map((held) => {
    const line = make("p", { class: "held" });
    line.append(code(held.id), ` ${held.outcome}, ${held.written} written, ${held.read} read `);
    if (held.outcome === "undecided") {
      line.append(sureButton("Abort", () => act("abort", { transaction: held.id })));
    }
    return line;
  });
  place.replaceChildren(...items);
}

function showClients(snapshot) {
  const { list, more, error } = snapshot.clients;
  const rows = list.map((client) => {
    const name = client.application ?? "an application";
    const where = [client.host, client.process === null ? null : `process ${client.process}`].filter(Boolean).join(" · ");
    return {
      key: client.id,
      cells: [
        cell([state(client.dead ? "dead" : "alive", client.dead ? "dead" : "live")]),
        cell([span(client.silent_ms), make("small", {}, `lease ${span(client.lease_ms)}`)], "number"),
        cell([name, make("small", {}, where)]),
        cell([client.namespaces.join(", "), make("small", {}, client.more_namespaces ? `and ${client.more_namespaces} more` : "")]),
        cell([code(client.id), make("small", {}, client.unfinished ? `${client.unfinished} committed, being finished` : "")], "wide"),
      ],
      button: () => {
        const held = make("div");
        const both = make("div");
        const look = make("button", { type: "button" }, "What does it hold?");
        look.addEventListener("click", () => showHeld(client.id, held));
        both.append(look, held);
        return both;
      },
    };
  });
  const note = error ?? (more ? "Others, which were silent for less long, are not shown." : null);
  fill("clients", ["State", "Silent for", "Who", "Collections", "Client", ""], rows, note);
  document.getElementById("repair").disabled = !list.some((client) => client.dead);
}

function showEnded(snapshot) {
  const rows = snapshot.ended.map((one, n) => ({
    key: `${n}`,
    cells: [
      cell(`${span(one.ago_ms)} ago`, "number"),
      cell([one.reason.replaceAll("_", " "), make("small", {}, one.code ? `code ${one.code}` : "")]),
      whoCell(one.was.who),
      cell([one.was.namespace ?? "", make("small", {}, one.was.shape ?? "")], "wide"),
      cell(
        one.rival ? [`rival: ${whoWords(one.rival_was?.who)}`, make("small", {}, one.rival_was?.shape ?? one.rival)] : "",
      ),
    ],
  }));
  fill("ended", ["When", "Why", "Who", "Last statement", "Because of", ""], rows, null);
}

function show(snapshot) {
  showTiles(snapshot);
  showCharts(snapshot);
  showWaits(snapshot);
  showOperations(snapshot);
  showClients(snapshot);
  showEnded(snapshot);
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(`state?since=${seconds.at(-1)?.at ?? 0}`);
      if (!answer.ok) throw new Error((await answer.text()).trim());
      show(await answer.json());
      say(problem, null);
    } catch (error) {
      say(problem, `The gateway does not answer: ${error.message}`);
    }
  }
  setTimeout(look, 1_000);
}

const repair = sureButton("Repair what dead clients have left", () => act("repair", {}));
repair.id = "repair";
repair.disabled = true;
document.querySelector("#clients h2").after(repair);
look();
