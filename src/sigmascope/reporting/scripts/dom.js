// Elements are made one by one and texts are set as texts: no string ever becomes markup.

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

// A name from outside keeps its writing direction, and its tricks, to itself.
const named = (text, attributes = {}) => element("bdi", { class: "name", ...attributes }, text);

// As the command line prints them: a site or a distance with four decimals, a statistic with three.
const asScore = (value) => (value == null ? "–" : value.toFixed(4));
const asStatistic = (value) => (value == null ? "–" : value.toFixed(3));
const asCount = d3.format(",");
const asAccuracy = d3.format(".2f");
const asShortCount = (value) => (value < 1e4 ? asCount(value) : d3.format(".3~s")(value).replace("G", "B"));
const asNumber = (value) => (value == null ? "–" : d3.format(".4~g")(value).replace("e+", "e"));
const listed = (texts) => texts.join(", ");

// The ends of a long name tell most.
function shortened(text, longest) {
  const letters = Array.from(text);
  if (letters.length <= longest) return text;
  const front = Math.floor((longest - 1) / 2);
  return `${letters.slice(0, front).join("")}…${letters.slice(front + 1 - longest).join("")}`;
}

// Names less the folders that all of them share, where room is scarce.
function briefly(names) {
  const folders = (name) => name.split("/").slice(0, -1);
  const first = folders(names[0] ?? "");
  const differ = first.findIndex((_, depth) => names.some((name) => folders(name)[depth] !== first[depth]));
  const shared = differ < 0 ? first.length : differ;
  return names.map((name) => name.split("/").slice(shared).join("/"));
}

// A wide table moves inside its frame, which the keyboard can reach.
const framed = (label, table) => element("div", { class: "frame", role: "region", tabindex: "0", "aria-label": label }, table);

// Stays in sight when the table is moved.
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

// Plot gives every figure a style element, which the page's policy would refuse; page.css says the same.
function figureOf(label, options) {
  const figure = Plot.plot({ className: "plot", ...options });
  figure.querySelectorAll("style").forEach((style) => style.remove());
  // Parts of an image have no names of their own for a screen reader.
  figure.querySelectorAll("[aria-label]").forEach((part) => {
    part.dataset.mark = part.getAttribute("aria-label");
    part.removeAttribute("aria-label");
  });
  figure.setAttribute("role", "img");
  figure.setAttribute("aria-label", label);
  return figure;
}
