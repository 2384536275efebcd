// What can be seen of a run beside its rows: plots, why there is no match, the plan.

import { get, post } from "/page/api.js";
import { $, fill, make } from "/page/dom.js";

const named = (key) => Object.entries(key).map(([name, value]) => `${name} = ${value === null ? "null" : value}`).join(", ");

let vega = null;
function loadVega() {
  vega ??= new Promise((resolve, reject) => {
    document.head.append(make("script", { src: "/vega.js", onload: () => resolve(window.vegaEmbed), onerror: reject }));
  });
  return vega;
}

export class Looks {
  constructor({ ask, place }) {
    this.ask = ask; // opens the tab of why-not
    this.place = place; // shows a place in the query
    this.run = null;
  }

  // Another run, or a further state of the same one.
  use(run) {
    if (this.run?.id === run?.id && this.run?.patterns?.length === run?.patterns?.length) {
      this.run = run;
      return;
    }
    this.run = run;
    this.offered = new Map();
    for (const panel of ["plot", "why", "plan"]) fill($(`panel-${panel}`));
  }

  async show(tab) {
    const panel = $(`panel-${tab}`);
    if (!this.run?.patterns?.length) {
      const why = !this.run ? "Run a query first." : this.run.state === "running" ? "The query is being planned."
        : this.run.patterns ? "There is no pattern in this query: Spark evaluates all of it." : "The query was not planned.";
      return fill(panel, make("p", { class: "quiet" }, why));
    }
    if (panel.dataset.run === this.run.id && panel.childElementCount > 1) return;
    panel.dataset.run = this.run.id;
    await { plot: () => this.plot(), why: () => this.why(), plan: () => this.plan() }[tab]();
  }

  async attempt(target, waiting, work) {
    fill(target, make("p", { class: "busy" }, waiting));
    try {
      await work();
    } catch (error) {
      const text = error.problem?.text ?? String(error);
      fill(target, make("pre", { class: "why-text problem" }, text));
    }
  }

  // ---- which pattern, which key --------------------------------------------------------------------

  async keys(pattern) {
    if (!this.offered.has(pattern)) this.offered.set(pattern, await get(`/api/runs/${this.run.id}/keys?pattern=${pattern}`));
    return this.offered.get(pattern);
  }

  patternChoice(chosen) {
    if (this.run.patterns.length < 2) return null;
    const options = this.run.patterns.map((one) => make("option", { value: one.number }, `${one.number}: ${one.language}`));
    return make("label", {}, "Pattern", make("select", { onchange: (event) => chosen(Number(event.target.value)) }, ...options));
  }

  keyChoice(keys, first, chosen) {
    if (!keys.columns.length) return null;
    const options = keys.keys.map((one, at) => make("option", { value: at }, `${named(one.key)} (${one.rows.toLocaleString("en")} rows)`));
    const select = make("select", { onchange: (event) => chosen(event.target.value === "" ? null : keys.keys[event.target.value].key) },
      first ? make("option", { value: "" }, first) : null, ...options);
    return make("label", {}, `Key (${keys.columns.join(", ")})`, select);
  }

  // ---- plots ---------------------------------------------------------------------------------------

  async plot(pattern = this.run.patterns[0].number) {
    const panel = $("panel-plot");
    const chart = make("div", { class: "chart" });
    const choices = make("div", { class: "choices" });
    fill(panel, choices, chart);
    const asked = { pattern, of: null, choose: "longest", match: null };
    const draw = () => this.attempt(chart, "Drawing …", () => this.draw(chart, asked));
    const drawn = draw();
    const keys = await this.keys(pattern);
    fill(choices, this.patternChoice((number) => this.plot(number)),
      this.keyChoice(keys, "the most telling one", (key) => { asked.of = key; asked.match = null; draw(); }),
      make("label", {}, "Match", make("select", { onchange: (event) => { asked.choose = event.target.value; asked.match = null; draw(); } },
        ...["longest", "shortest", "rarest key"].map((one) => make("option", { value: one }, one)))),
      make("label", {}, "or its number", make("input", { type: "number", min: 1, step: 1, size: 6, placeholder: "any",
        onchange: (event) => { asked.match = event.target.value ? Number(event.target.value) : null; draw(); } })));
    await drawn;
  }

  async draw(chart, asked) {
    const width = Math.max(420, Math.min(1600, chart.clientWidth - 190));
    const [found, embed] = await Promise.all([post(`/api/runs/${this.run.id}/plot`, { ...asked, width }), loadVega()]);
    const target = make("div");
    const note = found.asks ? make("p", { class: "quiet" },
      "Click a place in the chart to ask why no match begins there; or choose key and time under “Why not?”.") : null;
    fill(chart, make("div", { role: "figure", "aria-label": found.description }, target), note);
    const { view } = await embed(target, found.spec, { ast: true, actions: false, renderer: "svg", logLevel: 1, patch: datesAsNumbers });
    chart.classList.toggle("can-ask", Boolean(found.asks));
    if (!found.asks) return;
    view.addEventListener("click", (event) => {
      const around = placesAround(view, event);
      if (around) this.ask({ pattern: asked.pattern, of: found.key, between: around.map((one, at) => written(one, found.asks, at === 1)) });
    });
  }

  // ---- why not -------------------------------------------------------------------------------------

  async why(given = { pattern: this.run.patterns[0].number }) {
    const panel = $("panel-why");
    panel.dataset.run = this.run.id;
    const pattern = this.run.patterns.find((one) => one.number === given.pattern);
    const answer = make("div", { id: "answer", "aria-live": "polite" });
    fill(panel, make("p", { class: "busy" }, "Looking for keys …"), answer);
    const keys = await this.keys(given.pattern);
    const [at, until] = given.between ?? [null, null];
    const asked = { pattern: given.pattern, of: given.of ?? keys.keys[0]?.key ?? null, at, until };
    const choice = this.keyChoice(keys, null, (key) => { asked.of = key; });
    if (choice && given.of) {
      const at = keys.keys.findIndex((one) => named(one.key) === named(given.of));
      const select = choice.querySelector("select");
      if (at >= 0) select.value = String(at);
      else select.prepend(make("option", { value: "", selected: true }, named(given.of)));
    }
    const ask = () => this.attempt(answer, "Looking …", () => this.answer(answer, asked));
    const time = (name, label, value, hint) => make("label", {}, label, make("input", { id: `why-${name}`, type: "text", value: value ?? "",
      placeholder: hint, autocomplete: "off", oninput: (event) => { asked[name] = typed(event.target.value); } }));
    const form = make("form", { class: "choices", onsubmit: (event) => { event.preventDefault(); ask(); } },
      this.patternChoice((number) => this.why({ pattern: number })), choice,
      pattern.time ? time("at", `From (${pattern.time})`, asked.at, "the beginning") : null,
      pattern.time ? time("until", "Until", asked.until, asked.at ? "the same" : "the end") : null,
      make("button", { type: "submit", class: "primary" }, "Ask"));
    fill(panel, make("p", { class: "quiet" },
      "Where did you expect a match? Choose a key and when it should have begun; the pattern is tried there again, step by step."), form, answer);
    if (given.between) await ask();
  }

  async answer(target, asked) {
    const place = { pattern: asked.pattern, of: asked.of };
    if (asked.at !== null && asked.until === null) place.at = asked.at;
    else if (asked.at !== null || asked.until !== null) place.between = [asked.at, asked.until];
    const found = await post(`/api/runs/${this.run.id}/why-not`, place);
    fill(target, ...found.answers.flatMap((one) => [
      one.role ? make("h3", {}, `The ${one.role} pattern`) : null,
      one.findings.length ? make("ul", { class: "findings" }, ...one.findings.map((finding) => this.finding(finding)))
        : make("p", {}, "Nothing begins there: there are no events at this place."),
    ]), make("details", {}, make("summary", {}, "As text"), make("pre", { class: "why-text" }, found.text)));
  }

  finding(one) {
    const values = Object.entries(one.values ?? {}).map(([name, value]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, value === null ? "null" : typeof value === "object" ? JSON.stringify(value) : String(value))));
    return make("li", { class: one.kind === "found" ? "finding found" : "finding" },
      make("p", { class: "kind" }, one.kind, one.count > 1 ? ` · ${one.count.toLocaleString("en")} times` : ""),
      make("p", {}, one.message),
      values.length ? make("dl", {}, ...values) : null,
      one.span ? make("p", {}, make("button", { type: "button", class: "link", onclick: () => this.place(...one.span) },
        "Show in the query"), " ", make("code", {}, (one.text ?? "").slice(0, 120))) : null);
  }

  // ---- the plan ------------------------------------------------------------------------------------

  async plan(analyze = false) {
    const panel = $("panel-plan");
    await this.attempt(panel, analyze ? "Running it to see what it does …" : "Planning …", async () => {
      const found = await post(`/api/runs/${this.run.id}/plan`, { analyze });
      const page = new DOMParser().parseFromString(found.html, "text/html");
      const again = make("button", { type: "button", onclick: () => this.plan(true) }, "Run it and count");
      const words = analyze ? "With what it did in a run." : "As it is planned. What did it do? Run it once more to see attempts, rows and times:";
      fill(panel, make("p", { class: "choices" }, make("span", { class: "quiet" }, words), analyze ? null : again),
        make("div", { class: "plan-picture" }, ...[...page.head.children, ...page.body.children].map((one) => document.importNode(one, true))));
    });
  }
}

// The interpreter of Vega's expressions, which needs no evaluation of scripts, takes the milliseconds of datetime(…) for
// a year: where they are all there is, they stand for themselves.
function datesAsNumbers(spec) {
  const text = JSON.stringify(spec).replace(/\{"signal":"\{data: datetime\((-?[\d.]+)\)\}"\}/g, "[$1]");
  return JSON.parse(text);
}

// The places on the horizontal axis a few pixels around a click: of the panel that was clicked, by its name.
function placesAround(view, event) {
  const frame = view.container().querySelector("svg, canvas").getBoundingClientRect();
  const [x, y] = [event.clientX - frame.left - view.origin()[0], event.clientY - frame.top - view.origin()[1]];
  const panels = view.scenegraph().root.items[0].items
    .filter((mark) => mark.marktype === "group" && /^(concat_\d+_group|layer_\d+_group|cell)$/.test(mark.name ?? ""))
    .map((mark) => ({ name: mark.name, ...box(mark.items[0]) }));
  const away = (one) => Math.max(one.y - y, y - one.y - one.height, 0);
  const panel = panels.sort((one, other) => away(one) - away(other))[0] ?? { name: "", x: 0 };
  const scale = view._runtime.scales[panel.name.replace(/_group$/, "_x")]?.value ?? view._runtime.scales.x?.value;
  if (!scale?.invert) return null;
  const [low, high] = [Math.min(...scale.range()), Math.max(...scale.range())];
  if (x - panel.x < low - NEAR || x - panel.x > high + NEAR) return null;
  return [-NEAR, NEAR].map((near) => scale.invert(Math.min(high, Math.max(low, x - panel.x + near))));
}

const box = ({ x, y, width, height }) => ({ x: x ?? 0, y: y ?? 0, width, height });

// A time as somebody types it: nothing, a number where event time is one, or a text.
function typed(value) {
  const text = value.trim();
  return text === "" ? null : /^[+-]?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

const NEAR = 5; // pixels to either side of a click

// A place on the axis as the server reads it: times on the clock of the session, without a zone.
function written(value, kind, last) {
  if (kind !== "time") return last ? Math.ceil(value) : Math.floor(value);
  return new Date(Number(value)).toISOString().replace("T", " ").replace("Z", "");
}
