// Elements, made in one line.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// New content for an element; what is null is left out.
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child != null));
  return element;
}

export function grid(columns, rows, first = 0) {
  const head = columns.map((one) =>
    make("th", { scope: "col", class: one.numeric ? "numeric" : null }, one.name, make("small", {}, one.type ?? "")));
  const body = rows.map((row, at) => make("tr", {}, make("td", {}, String(first + at + 1)), ...row.map((value, column) => {
    const text = value === null ? "null" : String(value);
    const kinds = [columns[column].numeric && "numeric", value === null && "null"].filter(Boolean).join(" ");
    return make("td", { class: kinds || null, title: text.length > 60 ? text : null }, text);
  })));
  return make("table", { class: "grid" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, make("span", { title: "number of the row" }, "#")), ...head)),
    make("tbody", {}, ...body));
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function seconds(value) {
  return value < 60 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}
