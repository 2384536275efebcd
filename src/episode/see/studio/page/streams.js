// The page of running streams: rate, lag, latest matches, looked at every second while it is seen.

import { get } from "/page/api.js";
import { $, fill, grid, make } from "/page/dom.js";

const PERIOD = 1000;

export class Streams {
  constructor() {
    this.seen = new Map(); // rates of streams that keep no history, by their ids
  }

  start() {
    this.stop();
    this.look();
  }

  stop() { clearTimeout(this.timer); }

  async look() {
    try {
      this.show((await get("/api/streams")).streams);
    } finally {
      this.timer = setTimeout(() => this.look(), PERIOD);
    }
  }

  show(streams) {
    badge(streams);
    fill($("no-streams"), streams.length ? "" : "No stream runs in this process, and no checkpoint was given. Start the studio with "
      + "--checkpoint to watch a live query, or from Python beside your streams.");
    $("no-streams").hidden = streams.length > 0;
    const cards = streams.map((one) => this.card(one));
    fill($("streams"), ...cards);
  }

  card(one) {
    const rates = one.rates.length ? one.rates : this.remembered(one);
    return make("article", { class: "card", "data-stream": one.name },
      make("h3", {}, one.name, " ", make("span", { class: "tag" }, one.kind)),
      make("p", { class: "quiet" }, `${one.active ? "● " : "○ "}${one.message}${one.into ? ` · into ${one.into}` : ""}`),
      spark(rates),
      make("dl", { class: "figures" },
        figure("Events", number(one.events), one.rate == null ? "" : `${number(one.rate)}/s`),
        figure("Matches", number(one.matches)),
        figure("Lag", one.lag == null ? "–" : lasting(one.lag), "watermark to clock"),
        figure("Watermark", one.watermark ?? "–"),
        one.latency?.p50 == null ? null : figure("Latency", `${number(one.latency.p50)} ms`, `99 %: ${number(one.latency.p99)} ms`),
        one.unread == null ? null : figure("Not read yet", number(one.unread), "events"),
        one.held == null ? null : figure("Held", number(one.held), "rows for open matches"),
        ...one.dropped.map((drop) => figure(drop.name, number(drop.count), "events"))),
      one.latest.length ? make("details", { open: true }, make("summary", {}, "Latest matches"),
        grid(one.columns.map((name) => ({ name })), one.latest)) : null);
  }

  remembered(one) {
    const before = this.seen.get(one.id) ?? [];
    const rates = [...before, one.rate ?? 0].slice(-100);
    this.seen.set(one.id, rates);
    return rates;
  }
}

export function badge(streams) {
  $("streams-count").hidden = !streams.length;
  $("streams-count").textContent = streams.length;
}

function figure(name, value, more) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value, more ? make("small", {}, ` ${more}`) : null));
}

const number = (value) => value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 });

function lasting(seconds) {
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (Math.abs(seconds) >= length) return `${(seconds / length).toFixed(1)} ${unit}`;
  return `${seconds.toFixed(1)} s`;
}

// Events per second over time, as a line.
function spark(rates) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const most = Math.max(...rates, 1);
  const points = rates.map((rate, at) => `${(100 * at) / Math.max(1, rates.length - 1)},${29 - (27 * rate) / most}`);
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Events per second, at most ${number(most)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  for (const [name, value] of Object.entries({ points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": 1.5,
    "vector-effect": "non-scaling-stroke" })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}
