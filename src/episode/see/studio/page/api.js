// Calls of the server. Texts go in bodies; an answer that says what is wrong becomes an error with its problem.

export class Problem extends Error {
  constructor(problem, status) {
    super(problem.message);
    this.problem = problem;
    this.status = status;
  }
}

async function answered(response) {
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(body.problem ?? { message: `The server answered ${response.status}.` }, response.status);
  return body;
}

export async function get(path, signal) {
  return answered(await fetch(path, { signal }));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(body ?? {}), signal }));
}

export async function download(path, body, name) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) await answered(response);
  save(await response.blob(), name);
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The token of the address is handed in once; the browser keeps a cookie for it, and the address forgets it.
export async function enter() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  history.replaceState(null, "", location.pathname);
  await post("/api/enter", { token: found });
}
