// A run: started, watched, cancelled, and its rows, page by page. A page that is loaded again goes on with its run.

import { get, post, Problem } from "/page/api.js";
import { $, count, fill, grid, make, seconds } from "/page/dom.js";
import { STATES } from "/page/side.js";

const PERIOD = 300; // milliseconds between two looks
const PAGE = 100; // rows

export class Runner {
  constructor({ changed, ended }) {
    this.changed = changed; // called with every state of the run
    this.ended = ended; // called once when it is over
    this.run = null;
  }

  get id() { return this.run?.id ?? null; }

  async start(text) {
    this.forget();
    $("run-state").textContent = "Starting …";
    $("run-state").dataset.state = "running";
    fill($("panel-rows"));
    const run = await post("/api/runs", { text });
    await this.follow(run.id);
  }

  forget() {
    clearTimeout(this.timer);
    this.run = null;
    this.first = 0;
  }

  async follow(id) {
    this.forget();
    this.run = { id, state: "running" };
    await this.look(id);
  }

  async look(id) {
    let run;
    try {
      run = await get(`/api/runs/${id}`);
    } catch (error) {
      if (!(error instanceof Problem)) { // the server cannot be reached for now
        this.timer = setTimeout(() => this.look(id), 5 * PERIOD);
        return;
      }
      this.forget();
      $("run-state").textContent = error.message;
      $("cancel").disabled = true;
      this.changed(null);
      return;
    }
    if (this.id !== id) return; // another one was chosen meanwhile
    this.run = run;
    this.show();
    this.changed(run);
    if (run.state === "running") this.timer = setTimeout(() => this.look(id), PERIOD);
    else {
      await this.rows(0);
      this.ended(run);
    }
  }

  async cancel() {
    if (this.id === null) return;
    $("cancel").disabled = true;
    $("run-state").textContent = "Cancelling …";
    await post(`/api/runs/${this.id}/cancel`);
  }

  show() {
    const { run } = this;
    const going = run.state === "running";
    $("cancel").disabled = !going;
    const bar = $("progress");
    bar.hidden = !going;
    const tasks = run.progress;
    if (going && tasks?.total) {
      bar.max = tasks.total;
      bar.value = tasks.done;
    } else bar.removeAttribute("value");
    const parts = [`Run ${run.number}`, STATES[run.state], seconds(run.seconds ?? 0)];
    if (going) parts.push(tasks?.total ? `${tasks.done} of ${count(tasks.total, "task")}` : "planning");
    else if (run.rows != null) parts.push(run.more ? `more than ${count(run.rows, "row")}` : count(run.rows, "row"));
    $("run-state").textContent = parts.join(" · ");
    $("run-state").dataset.state = run.state;
  }

  async rows(first) {
    const { run } = this;
    const panel = $("panel-rows");
    if (run.problem) {
      fill(panel, make("pre", { class: "why-text" }, run.problem.text));
      return;
    }
    if (run.rows == null) return fill(panel, make("p", { class: "quiet" }, "There is no result."));
    if (!run.rows) return fill(panel, make("p", {}, "The query has run, and found nothing."),
      run.patterns.length ? make("p", { class: "quiet" }, "Did you expect a match? Ask under “Why not?”.") : null);
    const found = await get(`/api/runs/${run.id}/rows?from=${first}&count=${PAGE}`);
    this.first = first;
    fill(panel, this.pager(), grid(run.columns, found.rows, first));
    panel.scrollTo(0, 0);
  }

  pager() {
    const { run, first } = this;
    const last = Math.min(first + PAGE, run.rows);
    const all = run.total == null ? `the first ${run.rows.toLocaleString("en")}` : run.total.toLocaleString("en");
    const button = (name, to, off) => make("button", { type: "button", disabled: off, onclick: () => this.rows(to) }, name);
    const counting = make("button", { type: "button", onclick: async (event) => {
      event.target.disabled = true;
      event.target.textContent = "Counting …";
      run.total = (await post(`/api/runs/${run.id}/count`)).total;
      this.rows(this.first);
    } }, "Count all rows");
    return make("div", { class: "pager" },
      button("‹ Previous", Math.max(0, first - PAGE), first === 0),
      button("Next ›", first + PAGE, last >= run.rows),
      make("span", { class: "quiet" }, `Rows ${(first + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${all}`
        + (run.more && run.total != null ? `; ${count(run.rows, "row")} can be shown` : "")),
      run.total == null ? counting : null);
  }
}
