// The page: enters with the token, brings the parts together, and remembers what a tab was at.

import { download, enter, get, save } from "/page/api.js";
import { $, fill, grid, make } from "/page/dom.js";
import { Editor } from "/page/editor.js";
import { Looks } from "/page/looks.js";
import { Runner } from "/page/run.js";
import { showExamples, showRuns, showTables } from "/page/side.js";
import { badge, Streams } from "/page/streams.js";

const kept = { // of this tab alone, and gone with it
  get: (name) => sessionStorage.getItem(`episode-${name}`),
  set: (name, value) => value == null ? sessionStorage.removeItem(`episode-${name}`) : sessionStorage.setItem(`episode-${name}`, value),
};

// ---- views, tabs, theme ------------------------------------------------------------------------------

const streams = new Streams();

function view(name) {
  for (const tab of document.querySelectorAll(".view-tab")) {
    const chosen = tab.dataset.view === name;
    chosen ? tab.setAttribute("aria-current", "page") : tab.removeAttribute("aria-current");
    $(`${tab.dataset.view}-view`).hidden = !chosen;
  }
  name === "streams" ? streams.start() : streams.stop();
  kept.set("view", name);
}

const tabs = [...document.querySelectorAll("[role=tab]")];

function select(name, focus = false) { // opens a tab, whatever is in it
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${name}`;
    if (chosen) tab.hidden = false;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
}

function open(name, focus = false) { // opens a tab and fills it
  select(name, focus);
  if (name === "rows") kept.set("tab", null);
  else if (name !== "preview") {
    kept.set("tab", name);
    return looks.show(name);
  }
}

const opened = () => tabs.find((tab) => tab.getAttribute("aria-selected") === "true").id.slice(4);

for (const tab of tabs) {
  tab.addEventListener("click", () => open(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const shown = tabs.filter((one) => !one.hidden);
    open(shown[(shown.indexOf(tab) + step + shown.length) % shown.length].id.slice(4), true);
  });
}

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem("episode-theme", name);
  $("theme").value = name;
}

// ---- the parts ---------------------------------------------------------------------------------------

const editor = new Editor((text) => kept.set("text", text));
const looks = new Looks({
  ask: (place) => {
    select("why", true);
    return looks.why(place);
  },
  place: (start, end) => editor.select(start, end),
});

const runner = new Runner({
  changed: (run) => {
    kept.set("run", run?.id ?? null);
    looks.use(run);
    if (!run) refreshRuns();
  },
  ended: (run) => {
    if (run.problem && run.text === editor.text) editor.showProblem(run.problem);
    if (["plot", "why", "plan"].includes(opened())) looks.show(opened());
    refreshRuns();
  },
});

const refreshRuns = () => showRuns(runner.id, async (id) => {
  await runner.follow(id);
  if (runner.run) editor.text = runner.run.text;
  open(opened() === "preview" ? "rows" : opened());
  refreshRuns();
});

async function run() {
  if (!editor.text.trim()) return editor.area.focus();
  if (opened() !== "plot" && opened() !== "plan") open("rows");
  const started = runner.start(editor.text);
  await new Promise((resolve) => setTimeout(resolve, 50));
  refreshRuns();
  await started;
}

async function report(event) {
  const button = event.target;
  if (!runner.run || runner.run.state !== "done") {
    $("run-state").textContent = "A report is of a run: run the query first.";
    return;
  }
  button.disabled = true;
  button.textContent = "Writing …";
  try {
    await download(`/api/runs/${runner.id}/report`, {}, "episode-report.html");
  } catch (error) {
    $("run-state").textContent = error.message;
  } finally {
    button.disabled = false;
    button.textContent = "Report";
  }
}

async function preview(name) {
  open("preview");
  const panel = $("panel-preview");
  fill(panel, make("p", { class: "busy" }, `Reading ${name} …`));
  try {
    const found = await get(`/api/tables/${encodeURIComponent(name)}`);
    fill(panel, make("p", { class: "quiet" }, `The first rows of ${name}`), grid(found.columns, found.rows));
  } catch (error) {
    fill(panel, make("pre", { class: "why-text problem" }, error.problem?.text ?? String(error)));
  }
}

function connect() {
  $("run").addEventListener("click", run);
  $("cancel").addEventListener("click", () => runner.cancel());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  $("theme").addEventListener("change", (event) => theme(event.target.value));
  for (const tab of document.querySelectorAll(".view-tab")) tab.addEventListener("click", () => view(tab.dataset.view));
  $("export-sql").addEventListener("click", () => save(new Blob([editor.text], { type: "application/sql" }), "episode-query.sql"));
  $("export-report").addEventListener("click", report);
  $("export-notebook").addEventListener("click", () => download("/api/notebook", { text: editor.text }, "episode-query.ipynb"));
}

async function begin() {
  theme(localStorage.getItem("episode-theme") ?? "auto");
  connect();
  let found;
  try {
    await enter();
    found = await get("/api/tables");
  } catch (error) {
    $("gate").hidden = false;
    return;
  }
  view(kept.get("view") ?? "query");
  $("tab-plot").hidden = !found.offers.plot;
  $("export-report").hidden = !found.offers.report;
  showTables(found.tables, { insert: (name) => editor.insert(name), preview });
  showExamples(found.examples, (one) => {
    editor.text = one.text;
    editor.area.focus();
  });
  editor.text = kept.get("text") ?? found.examples[0]?.text ?? "";
  const earlier = kept.get("run");
  const tab = kept.get("tab");
  if (tab) open(tab);
  if (earlier) runner.follow(earlier);
  refreshRuns();
  get("/api/streams").then(({ streams: running }) => badge(running));
}

begin();
