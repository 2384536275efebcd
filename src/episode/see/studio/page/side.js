// The side: tables with their columns, examples, and the runs of all pages.

import { get } from "/page/api.js";
import { $, count, fill, make, seconds } from "/page/dom.js";

export function showTables(tables, { insert, preview }) {
  const given = tables.filter((one) => !one.sample);
  const samples = tables.filter((one) => one.sample);
  const parts = [];
  if (!given.length) parts.push(make("p", { class: "quiet" }, "Give your own: episode studio --table name=path"));
  for (const table of [...given, ...samples]) parts.push(tablePart(table, given.length === 1 && !table.sample, insert, preview));
  fill($("tables"), ...parts);
}

function tablePart(table, open, insert, preview) {
  const columns = table.columns.map((one) => make("li", {},
    make("button", { type: "button", title: `Insert ${one.name}`, onclick: () => insert(one.name) }, one.name),
    make("small", {}, one.type)));
  return make("details", { class: "table-part", open },
    make("summary", {}, table.name, " ", table.sample ? make("small", {}, "sample") : null),
    make("ul", { class: "columns" }, ...columns),
    make("button", { type: "button", class: "preview-button", "aria-label": `First rows of ${table.name}`,
      onclick: () => preview(table.name) }, "First rows"));
}

export function showExamples(examples, choose) {
  $("examples-part").hidden = !examples.length;
  fill($("examples"), ...examples.map((one) => make("li", {},
    make("button", { type: "button", class: "entry example", "data-name": one.name, onclick: () => choose(one) },
      make("span", { class: "heading" }, make("b", {}, one.title), make("span", { class: "tag" }, one.language)),
      make("small", {}, one.about)))));
}

export const STATES = { running: "◌ running", done: "✓ done", failed: "✗ failed", cancelled: "■ cancelled" };

export async function showRuns(current, choose) {
  const { runs } = await get("/api/runs");
  $("no-runs").hidden = runs.length > 0;
  fill($("runs"), ...runs.map((one) => make("li", {},
    make("button", { type: "button", class: "entry", "aria-current": one.id === current ? "true" : null, "data-run": one.id,
      onclick: () => choose(one.id) },
      make("b", { class: "one-line", title: one.title }, `${one.number}. ${one.title || "query"}`),
      make("small", {}, [STATES[one.state], seconds(one.seconds),
        one.rows == null ? null : `${one.more ? "over " : ""}${count(one.rows, "row")}`].filter(Boolean).join(" · "))))));
}
