// The page of a linearized network: the curve, the sites, the tuning and what was folded.

const CURVE_HEIGHT = 360;
const asPoints = (value) => (value == null ? "–" : `${value.toFixed(2)} %`);
const asPercentage = (value) => (value == null ? "–" : value.toFixed(2));
const asMilliseconds = (seconds) => (seconds == null ? "–" : d3.format(".3~g")(1e3 * seconds));
const plural = (count, noun) => `${asCount(count)} ${noun}${count === 1 ? "" : "s"}`;
const arrow = (before, after, show) => `${show(before)} → ${show(after)}`;

function ratioText(before, after) {
  return before && after != null ? `${d3.format(".3~g")(after / before)} times` : "–";
}

function linearizationCards({ sites, elements, saved, test, samples, folding }) {
  const left = sites.filter((site) => !site.chosen).length;
  const cards = [
    cardOf("Activations left", `${asCount(left)} of ${asCount(sites.length)}`, `${asCount(sites.length - left)} replaced`),
    cardOf("Elements saved", d3.format(".1%")(saved / Math.max(1, elements)), `${asCount(saved)} of ${asCount(elements)} per sample`),
  ];
  if (samples.test) {
    const { before, after } = test;
    const drop = before == null || after == null ? "" : `${d3.format("+.2f")(after - before)} points, `;
    cards.push(cardOf("Test accuracy, %", arrow(before, after, asPercentage), `${drop}${plural(samples.test, "sample")}`));
  }
  if (folding) {
    const { before, after } = folding;
    cards.push(cardOf("Layers", arrow(before.layers, after.layers, asCount), `${plural(folding.steps.length, "merge")}`));
    cards.push(cardOf("Latency, ms", arrow(before.latency, after.latency, asMilliseconds), "one sample, measured"));
  }
  return cards;
}

const kindOf = ({ epochs }) => (epochs ? `tuned, ${plural(epochs, "epoch")}` : "not tuned");

const describePoint = (point) => [
  ["title", `${plural(point.left, "activation")} left`],
  ["", `${asCount(point.replaced)} replaced, ${asCount(point.elements)} elements left per sample`],
  ["value", `accuracy ${asPoints(point.accuracy)}`],
  ["", `${kindOf(point)}${point.isResult ? "; the result" : ""}`],
  ["", point.site ? `replaced last: ${point.site}` : ""],
];

const curveSaid = (lines) =>
  lines
    .map(([, text]) => text)
    .filter(Boolean)
    .join(" · ");

function curveText(points, result) {
  const [original] = points;
  return [
    "Line chart: accuracy on held-out data against the number of activations left, the original at the left.",
    `Original: ${asPoints(original.accuracy)} with ${asCount(original.left)} activations.`,
    `Result: ${asPoints(result.accuracy)} with ${asCount(result.left)} activations, ${kindOf(result)}.`,
    "Use the slider below the chart to inspect single points.",
  ].join(" ");
}

function drawCurve(points, width) {
  const known = points.filter(({ accuracy }) => accuracy != null);
  const result = points.find(({ isResult }) => isResult);
  const [plain, tuned] = [known.filter(({ epochs }) => !epochs), known.filter(({ epochs }) => epochs)];
  const line = (data, slot, dash) =>
    Plot.line(data, { x: "left", y: "accuracy", stroke: slotColor(slot), strokeWidth: 1.8, strokeDasharray: dash });
  const dots = (data, slot) =>
    Plot.dot(data, { x: "left", y: "accuracy", symbol: SYMBOLS[slot], r: 3.4, fill: slotColor(slot), stroke: slotColor(slot) });
  const lowest = d3.min(known, ({ accuracy }) => accuracy) ?? 0;
  const most = d3.max(points, ({ left }) => left);
  const least = d3.min(points, ({ left }) => left);
  const figure = figureOf(curveText(points, result), {
    width,
    height: CURVE_HEIGHT,
    marginLeft: 46,
    marginRight: 14,
    marginBottom: 42,
    x: {
      label: "activations left",
      labelAnchor: "center",
      labelArrow: "none",
      domain: [most, least],
      inset: 10,
      ticks: d3.ticks(least, most, Math.min(most - least || 1, width / 70)).filter(Number.isInteger),
      tickFormat: asCount,
    },
    y: {
      label: "accuracy in %, held-out data",
      labelArrow: "none",
      domain: [Math.max(0, Math.floor(lowest / 10) * 10), 100],
      grid: true,
      ticks: 6,
    },
    marks: [
      Plot.ruleY([points[0].accuracy ?? 0], { stroke: "var(--quiet)", strokeDasharray: "3 3" }),
      line(plain, 0),
      line(tuned, 1, "5 3"),
      dots(plain, 0),
      dots(tuned, 1),
      result.accuracy == null ? null : Plot.dot([result], { x: "left", y: "accuracy", r: 8, stroke: "var(--ink)", strokeWidth: 1.8 }),
    ],
  });
  const [x, y] = [figure.scale("x").apply, figure.scale("y").apply];
  for (const point of known) [point.x, point.y] = [x(point.left), y(point.accuracy)];
  return { figure, known };
}

function createCurve({ points }) {
  const stage = byId("curve-chart");
  const lens = createLens(stage, describePoint);
  const slider = byId("walk-point");
  slider.max = points.length - 1;
  slider.value = points.findIndex(({ isResult }) => isResult);

  function read() {
    const text = curveSaid(describePoint(points[slider.valueAsNumber]));
    slider.setAttribute("aria-valuetext", text);
    byId("readout").replaceChildren(named(text));
  }

  function draw() {
    const { figure, known } = drawCurve(points, stage.clientWidth);
    const path = d3.line(
      ({ x }) => x,
      ({ y }) => y,
    );
    lens.attach(figure, known, ({ epochs }) => path(known.filter((one) => Boolean(one.epochs) === Boolean(epochs))));
  }

  function point() {
    read();
    const found = points[slider.valueAsNumber];
    if (found.accuracy == null) lens.hide();
    else lens.show(found);
  }

  slider.addEventListener("input", point);
  slider.addEventListener("focus", point);
  slider.addEventListener("blur", lens.hide);
  read();
  draw();
  drawCurveKey(points);
  byId("curve-table").replaceChildren(lazyTable("The curve as a table", "curve-details", () => curveTable(points)));
  return draw;
}

function drawCurveKey(points) {
  const tuned = points.find(({ epochs }) => epochs);
  const item = (mark, text) => element("span", { class: "item" }, mark, named(text));
  const ring = svgPart("svg", { viewBox: "-9 -9 18 18", class: "symbol", "aria-hidden": "true" });
  ring.append(svgPart("circle", { r: 7, fill: "none", stroke: "var(--ink)", "stroke-width": 1.8 }));
  byId("curve-key").replaceChildren(
    item(symbolOf(0), "not tuned"),
    ...(tuned ? [item(symbolOf(1), kindOf(tuned))] : []),
    item(ring, "result"),
  );
}

function lazyTable(summary, id, make) {
  const details = element("details", { id }, element("summary", {}, summary));
  details.addEventListener("toggle", () => details.append(make()), { once: true });
  return details;
}

const headsOf = (names, textual) => names.map((text) => ({ text, numeric: !textual.includes(text) }));

function curveTable(points) {
  const names = ["activations left", "replaced", "elements left", "accuracy", "loss", "tuning", "replaced last"];
  const rows = points.map((point) => [
    asCount(point.left),
    asCount(point.replaced),
    asCount(point.elements),
    asPoints(point.accuracy),
    asNumber(point.loss),
    kindOf(point),
    named(point.site ?? ""),
  ]);
  const table = tableOf("Accuracy and loss on held-out data.", headsOf(names, ["tuning", "replaced last"]), rows);
  return framed("Table of the curve", table);
}

function intervalOf({ score, low, high }) {
  if (score == null) return "–";
  const bar = low == null ? null : element("span", { class: "bar" }, `${asScore(low)} – ${asScore(high)}`);
  return element("span", {}, asScore(score), bar ?? "");
}

function createSiteTable({ sites, by, meaning, elements }) {
  const criterion = ["affinity", "r2"].includes(by) ? [] : [by];
  const names = ["site", "rank", "activation", "channels", "elements", "affinity, 95 %", ...criterion, "R²", "decision", "saved"];
  const rows = sites.map((site) => [
    named(site.name),
    site.rank ? asCount(site.rank) : "–",
    named(site.kind),
    asCount(site.channels),
    asCount(site.elements),
    intervalOf(site),
    ...criterion.map(() => asNumber(site.value)),
    asScore(site.fit),
    element(site.chosen ? "strong" : "span", {}, site.chosen ? "replaced" : "kept"),
    site.chosen ? d3.format(".1%")(site.elements / Math.max(1, elements)) : "",
  ]);
  const caption = `Activation calls in the order in which they are replaced, ranked by ${by}${meaning ? `: ${meaning}` : ""}.`;
  byId("site-table").replaceChildren(framed("Table of sites", tableOf(caption, headsOf(names, ["site", "activation", "decision"]), rows)));
  const reasons = sites.filter(({ reason }) => reason);
  const items = reasons.map(({ name, reason }) => element("li", {}, named(name), ": ", named(reason)));
  if (items.length) {
    const lead = element("p", {}, "Kept, because they cannot be replaced:");
    byId("site-remarks").replaceChildren(lead, element("ul", {}, ...items));
  }
}

function createTuning({ tunings }) {
  if (!tunings.length) return hide("tuning");
  const names = ["replaced", "epoch", "training loss", "held-out loss", "accuracy"];
  const rows = tunings.flatMap(({ replaced, epochs }) =>
    epochs.map(({ number, loss, heldOut, accuracy }) => [
      replaced ? asCount(replaced) : "0, the original",
      asCount(number),
      asNumber(loss),
      asNumber(heldOut),
      asPoints(accuracy),
    ]),
  );
  const caption = "Epochs of tuning for each number of replaced activations; loss and accuracy on held-out data.";
  return byId("tuning-table").replaceChildren(framed("Table of epochs", tableOf(caption, headsOf(names, ["replaced"]), rows)));
}

function listOf(text, lines) {
  if (!lines.length) return [];
  return [element("p", { class: "lead-in" }, text), element("ul", {}, ...lines.map((line) => element("li", {}, named(line))))];
}

function createFolding({ folding }) {
  if (!folding) return hide("folding");
  const { before, after, steps, refused } = folding;
  const row = (name, key, show) => [name, show(before[key]), show(after[key]), ratioText(before[key], after[key])];
  const rows = [
    row("layers", "layers", asCount),
    row("norms and maps", "maps", asCount),
    row("parameters", "parameters", asCount),
    row("multiply-adds", "multiplyAdds", asCount),
    row("latency in ms", "latency", asMilliseconds),
  ];
  const names = ["for one sample", "before", "after", "after / before"];
  const table = tableOf("What merging saves; the latency is measured.", headsOf(names, names.slice(0, 1)), rows);
  const none = steps.length ? [] : [element("p", {}, "Nothing was merged.")];
  return byId("folding-table").replaceChildren(
    framed("Table of costs", table),
    ...none,
    ...listOf("Merged:", steps),
    ...listOf("Not merged, with the reason:", refused),
  );
}

function hide(id) {
  byId(id).closest("section").hidden = true;
  document.querySelector(`nav a[href="#${id}"]`).hidden = true;
}

function startLinearization() {
  const { content } = JSON.parse(byId("data").textContent);
  createTheme();
  byId("title").replaceChildren(named(shortened(content.name, 80)), ", linearized");
  document.title = `${shortened(content.name, 60)}, linearized – sigmascope`;
  byId("colophon").textContent = `Written by sigmascope ${content.sigmascope}. This page is self-contained and loads nothing.`;
  byId("cards").replaceChildren(...linearizationCards(content));
  createSiteTable(content);
  createTuning(content);
  createFolding(content);
  const pairs = content.settings.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, named(value))));
  byId("setting-pairs").replaceChildren(...pairs);
  const draw = createCurve(content);
  onWidth(draw);
}

startLinearization();
