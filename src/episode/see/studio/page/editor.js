// The editor: a text area over the same text in colours. It is checked as it is written.

import { post, Problem } from "/page/api.js";
import { $, fill, make } from "/page/dom.js";
import { coloured } from "/page/highlight.js";

const PAUSE = 120; // milliseconds without a key before a check

// Python counts characters, JavaScript counts halves of some of them.
export function offset(text, characters) {
  let at = 0;
  for (const one of text) {
    if (characters-- <= 0) break;
    at += one.length;
  }
  return at;
}

export class Editor {
  constructor(changed) {
    this.area = $("editor-text");
    this.changed = changed;
    this.problem = null;
    this.noted = null;
    this.area.addEventListener("input", () => this.edited());
    this.area.addEventListener("scroll", () => this.scrolled());
    this.area.addEventListener("keydown", (event) => this.key(event));
  }

  get text() { return this.area.value; }

  set text(value) {
    this.area.value = value;
    this.area.setSelectionRange(0, 0);
    this.area.scrollTo(0, 0);
    this.edited();
  }

  insert(words) {
    this.area.focus();
    this.area.setRangeText(words, this.area.selectionStart, this.area.selectionEnd, "end");
    this.edited();
  }

  // Show a place of the query, as findings speak of it.
  select(start, end) {
    const [from, to] = [offset(this.text, start), offset(this.text, end)];
    this.noted = [from, to, "noted"];
    this.area.focus();
    this.area.setSelectionRange(from, to);
    const line = this.text.slice(0, from).split("\n").length - 1;
    this.area.scrollTop = Math.max(0, 20 * line - this.area.clientHeight / 2);
    this.paint();
  }

  edited() {
    this.problem = null;
    this.noted = null;
    this.paint();
    this.changed(this.text);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.check(), PAUSE);
  }

  key(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const before = this.text.slice(0, this.area.selectionStart);
    const indent = before.slice(before.lastIndexOf("\n") + 1).match(/^[ \t]*/)[0];
    if (!indent || event.shiftKey) return;
    event.preventDefault();
    this.insert("\n" + indent);
  }

  scrolled() {
    const layer = $("editor-colours");
    layer.scrollTop = this.area.scrollTop;
    layer.scrollLeft = this.area.scrollLeft;
    $("editor-lines").scrollTop = this.area.scrollTop;
  }

  marks() {
    const found = this.noted ? [this.noted] : [];
    if (this.problem?.position != null) {
      const start = offset(this.text, this.problem.position);
      const end = Math.max(start + 1, offset(this.text, this.problem.position + this.problem.length));
      found.unshift([start, end, "wrong"]);
    }
    return found;
  }

  paint() {
    $("editor-colours").replaceChildren(coloured(this.text, this.marks()));
    const lines = this.text.split("\n").map((_, at) => {
      const wrong = this.problem?.line === at + 1;
      return make("span", { class: wrong ? "at-fault" : null }, `${wrong ? "! " : ""}${at + 1}\n`);
    });
    $("editor-lines").replaceChildren(...lines, "\n");
    this.scrolled();
  }

  async check() {
    this.checking?.abort();
    this.checking = new AbortController();
    const text = this.text;
    try {
      const found = await post("/api/check", { text }, this.checking.signal);
      if (text === this.text) this.show(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Problem) this.show({ problem: error.problem });
    }
  }

  show(found) {
    const check = $("check");
    check.dataset.milliseconds = found.milliseconds ?? "";
    check.dataset.checked = String(Number(check.dataset.checked ?? 0) + 1);
    this.showProblem(found.problem);
    if (found.problem) return;
    check.className = found.empty ? "check" : "check is-right";
    const names = (found.columns ?? []).map((one) => one.name);
    const shown = names.slice(0, 6).join(", ") + (names.length > 6 ? ", …" : "");
    check.textContent = found.empty ? "Write a query, or take an example." : `✓ Gives ${shown}`;
    check.title = (found.columns ?? []).map((one) => `${one.name} ${one.type}`).join("\n");
  }

  showProblem(problem) {
    this.problem = problem ?? null;
    this.paint();
    const panel = $("problem");
    panel.hidden = !problem;
    this.area.setAttribute("aria-invalid", problem ? "true" : "false");
    if (!problem) return;
    const check = $("check");
    check.className = "check is-wrong";
    check.title = "";
    check.textContent = problem.line ? `✗ Line ${problem.line}, column ${problem.column}` : "✗ This cannot be run";
    const lines = problem.text.split("\n").slice(problem.message.split("\n").length);
    const place = problem.line ? lines.slice(1, 3).join("\n") : "";
    fill(
      panel,
      make("p", {}, make("strong", {}, `${KINDS[problem.kind] ?? "Error"}: `), problem.message),
      place ? make("pre", {}, place) : null,
      problem.hint ? make("p", { class: "quiet" }, problem.hint) : null,
    );
  }
}

const KINDS = { syntax: "Syntax", analysis: "Meaning", unsupported: "Not supported", data: "Data" };
