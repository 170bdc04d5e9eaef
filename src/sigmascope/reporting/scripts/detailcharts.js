// The charts of a single site.

const SMALL = 220; // pixels high

// The scores of the batches, their mean and the population score, with 95 % intervals.
function drawBatches(site, { scores, low, high }, width) {
  const scored = scores.filter(({ score }) => score != null);
  const { score, population, half } = site;
  if (!scored.length && population == null) return [element("p", { class: "quiet" }, site.reason || "No batch has a score.")];
  const ends = population == null ? [] : [population - (half ?? 0), Math.min(1, population + (half ?? 0))];
  const every = [...scored.map((one) => one.score), low, high, ...ends].filter((value) => value != null);
  const [least, most] = d3.extent(every);
  const room = Math.max(0.01, 0.15 * (most - least));
  const last = Math.max(1, scores.length);
  const line = (y, color, dash) => Plot.ruleY(y == null ? [] : [y], { stroke: color, strokeWidth: 1.6, strokeDasharray: dash });
  const band = (y1, y2, fill) =>
    Plot.rect(y1 == null || y2 == null ? [] : [{ y1, y2 }], { x1: 0.5, x2: last + 0.5, y1: "y1", y2: "y2", fill, fillOpacity: 0.16 });
  const label = [
    `Scores of ${scored.length} of ${scores.length || site.batches} batches`,
    score == null ? "" : `mean ${asScore(score)}`,
    population == null ? "" : `population score ${withInterval(population, populationInterval(site))}`,
  ];
  const figure = figureOf(`${label.filter(Boolean).join(", ")}.`, {
    width,
    height: SMALL,
    marginLeft: 50,
    marginBottom: 36,
    x: { type: "linear", domain: [0.5, last + 0.5], label: "batch", labelAnchor: "center", ticks: wholeTicks(last, width), tickFormat: asCount },
    y: { label: "score", domain: [least - room, Math.min(1.02, most + room)], grid: true, ticks: 5 },
    marks: [
      band(low, high, slotColor(0)),
      band(...(half == null ? [null, null] : ends), slotColor(1)),
      line(score, slotColor(0)),
      line(population, slotColor(1), "5 3"),
      Plot.dot(scored, { x: "batch", y: "score", r: Math.max(1.6, Math.min(3.5, 300 / last)), fill: slotColor(0) }),
    ],
  });
  return [figure, keyOf(score, population)];
}

const wholeTicks = (last, width) => d3.ticks(1, last, Math.max(2, width / 90)).filter(Number.isInteger);

function keyOf(score, population) {
  const sample = (color, dash) => {
    const svg = svgPart("svg", { viewBox: "0 0 22 10", class: "sample", "aria-hidden": "true" });
    svg.append(svgPart("path", { d: "M1 5H21", stroke: color, "stroke-width": 2, "stroke-dasharray": dash }));
    return svg;
  };
  const items = [
    score == null ? null : element("span", { class: "item" }, sample(slotColor(0), "none"), "published score, the mean"),
    population == null ? null : element("span", { class: "item" }, sample(slotColor(1), "5 3"), "population score"),
  ];
  return element("div", { class: "key" }, ...items, element("span", { class: "item quiet" }, "bands: 95 % intervals"));
}

// Where output = input, as far as the chart goes.
function diagonalOf({ x, y }) {
  const [from, to] = [Math.max(x[0], y[0]), Math.min(x[1], y[1])];
  return from < to ? [[from, from], [to, to]] : [];
}

function drawHistogram(site, histogram, width) {
  if (!histogram) return [element("p", { class: "quiet" }, "The signature has no histogram: it comes with population scores, since version 0.2.")];
  const figure = figureOf(`Histogram of inputs against outputs of ${site.name}: inputs from ${asNumber(histogram.x[0])} to ${asNumber(histogram.x[1])}, outputs from ${asNumber(histogram.y[0])} to ${asNumber(histogram.y[1])}.`, {
    width,
    height: SMALL,
    marginLeft: 50,
    marginBottom: 36,
    color: { type: "identity" },
    x: { label: "input", labelAnchor: "center", domain: histogram.x, ticks: width / 90, nice: false },
    y: { label: "output", domain: histogram.y, ticks: 5 },
    marks: [
      Plot.rect(histogram.cells, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: ({ level }) => heat(1 - level) }),
      Plot.line(diagonalOf(histogram), { stroke: "var(--muted)", strokeDasharray: "3 3" }),
      Plot.frame({ stroke: "var(--rule)" }),
    ],
  });
  const text = "Values of the first samples and all channels as the score sees them, averaged over positions where it does so. The stronger the color, the more values (by square roots)";
  const dashed = diagonalOf(histogram).length ? "; dashed: output = input." : ".";
  return [figure, element("p", { class: "quiet small" }, text + dashed)];
}
