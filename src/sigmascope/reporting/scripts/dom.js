// Elements are created one by one and text is set as text: no string ever becomes markup.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function svgPart(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Names come from files: they are isolated, so that their writing direction affects nothing else.
const named = (text, attributes = {}) => element("bdi", { class: "name", ...attributes }, text);

// As the command line prints them: four decimals for sites and distances, three for statistics.
const asScore = (value) => (value == null ? "–" : value.toFixed(4));
const asStatistic = (value) => (value == null ? "–" : value.toFixed(3));
const asCount = d3.format(",");
const asAccuracy = d3.format(".2f");
const asShortCount = (value) => (value < 1e4 ? asCount(value) : d3.format(".3~s")(value).replace("G", "B"));
const asNumber = (value) => (value == null ? "–" : d3.format(".4~g")(value).replace("e+", "e"));
const listed = (texts) => texts.join(", ");

// Cuts a long name in its middle: its ends say most.
function shortened(text, longest) {
  const letters = Array.from(text);
  if (letters.length <= longest) return text;
  const front = Math.floor((longest - 1) / 2);
  return `${letters.slice(0, front).join("")}…${letters.slice(front + 1 - longest).join("")}`;
}

// Names without the directories that all of them share.
function briefly(names) {
  const folders = (name) => name.split("/").slice(0, -1);
  const first = folders(names[0] ?? "");
  const differ = first.findIndex((_, depth) => names.some((name) => folders(name)[depth] !== first[depth]));
  const shared = differ < 0 ? first.length : differ;
  return names.map((name) => name.split("/").slice(shared).join("/"));
}

// A wide table scrolls inside its frame, which the keyboard can reach.
const framed = (label, table) => element("div", { class: "frame", role: "region", tabindex: "0", "aria-label": label }, table);

// Stays visible when the table is scrolled.
const captionOf = (text) => element("caption", {}, element("span", {}, text));

function tableOf(caption, heads, rows) {
  const cell = (tag, content, { numeric, scope } = {}) => element(tag, { class: numeric ? "numeric" : null, scope }, content);
  const head = element("tr", {}, ...heads.map((one) => cell("th", one.text, { numeric: one.numeric, scope: "col" })));
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      ...row.map((content, number) =>
        number === 0 ? cell("th", content, { scope: "row" }) : cell("td", content, heads[number]),
      ),
    ),
  );
  return element("table", {}, captionOf(caption), element("thead", {}, head), element("tbody", {}, ...body));
}

// Plot adds a style element to every figure, which the page's policy blocks; charts.css has the same rules.
function figureOf(label, options) {
  const figure = Plot.plot({ className: "plot", ...options });
  figure.querySelectorAll("style").forEach((style) => style.remove());
  // For a screen reader, parts of an image have no names of their own.
  figure.querySelectorAll("[aria-label]").forEach((part) => {
    part.dataset.mark = part.getAttribute("aria-label");
    part.removeAttribute("aria-label");
  });
  figure.setAttribute("role", "img");
  figure.setAttribute("aria-label", label);
  return figure;
}

function cardOf(label, value, remark) {
  return element(
    "div",
    { class: "card" },
    element("dt", {}, label),
    element("dd", {}, element("span", { class: "figure" }, value), element("span", { class: "remark" }, remark)),
  );
}
