// The signatures over depth. Selected networks have colors; a single one has a color for each place in its blocks.

const HEIGHT = 400;

function depthOf(site, network, mode) {
  if (mode === "call") return site.number + 1;
  return network.count > 1 ? site.number / (network.count - 1) : 0.5;
}

// All sites with their coordinates. A call without a score is NaN, which leaves a gap in the line.
const pointsOf = (networks, mode) =>
  networks.flatMap((network) =>
    network.sites.map((site) => ({ network, site, depth: depthOf(site, network, mode), score: site.shown ?? NaN })),
  );

const isScored = ({ site }) => site.shown != null;

const lineMark = (points, options) =>
  Plot.line(points, { x: "depth", y: "score", z: (point) => point.network.number, strokeLinecap: "round", ...options });

const faintMark = (points) => lineMark(points, { stroke: "var(--faint)", strokeWidth: 1 });

const strongMark = (points, color) => lineMark(points, { stroke: color, strokeWidth: 1.4, strokeOpacity: 0.8 });

const spreadMark = (points, color) =>
  Plot.ruleX(
    points.filter(({ site }) => site.bar != null),
    {
      x: "depth",
      y1: ({ site }) => site.shown - site.bar,
      y2: ({ site }) => Math.min(1, site.shown + site.bar),
      stroke: color,
      strokeOpacity: 0.55,
      strokeWidth: points[0]?.network.by === "population" ? 2.4 : 1,
    },
  );

// The population score and its interval beside a published score, at a distance that leaves room for both.
const besideMarks = (points, color, shift) => {
  const known = points.filter(({ network, site }) => network.by === "published" && site.population != null);
  const ends = (sign) => ({ site }) => Math.min(1, site.population + sign * (site.half ?? 0));
  return [
    Plot.ruleX(known, { x: "depth", y1: ends(-1), y2: ends(1), dx: shift, stroke: color, strokeWidth: 1.6 }),
    Plot.dot(known, {
      x: "depth",
      y: ({ site }) => site.population,
      dx: shift,
      r: 1.6,
      fill: "var(--surface)",
      stroke: color,
      strokeWidth: 1.2,
    }),
  ];
};

const dotMark = (points, slot, radius) =>
  Plot.dot(points, {
    x: "depth",
    y: "score",
    symbol: SYMBOLS[slot],
    r: radius,
    fill: slotColor(slot),
    stroke: slotColor(slot),
    strokeWidth: 1.2,
  });

function networkMarks(points, slot, radius) {
  const [color, scored] = [slotColor(slot), points.filter(isScored)];
  return [
    spreadMark(scored, color),
    strongMark(points, color),
    dotMark(scored, slot, radius),
    ...besideMarks(points, color, 1.5 * radius),
  ];
}

const placesOf = (network) => [...new Set(network.sites.map((site) => site.place))];

function placeMarks(network, points, radius) {
  const scored = points.filter(isScored);
  const marks = placesOf(network).flatMap((place, slot) => {
    const here = scored.filter(({ site }) => site.place === place);
    return [
      spreadMark(here, slotColor(slot)),
      dotMark(here, slot, radius),
      ...besideMarks(
        points.filter(({ site }) => site.place === place),
        slotColor(slot),
        1.5 * radius,
      ),
    ];
  });
  return [strongMark(points, "var(--quiet)"), ...marks];
}

// The more calls, the smaller the dots; they leave room for intervals.
const radiusOf = (chosen, width) =>
  Math.max(1.4, Math.min(chosen[0]?.by === "population" ? 2.2 : 3, (0.45 * width) / (d3.max(chosen, (network) => network.count) ?? 1)));

function domainOf(points) {
  const ends = points.flatMap(({ site }) => [site.shown - (site.bar ?? 0), (site.population ?? 1) - (site.half ?? 0)]);
  const low = Math.floor((d3.min(ends) ?? 0) * 10 - 0.2) / 10;
  // A population score may be negative, a published one not.
  return [points.some(({ site }) => Math.min(site.shown, site.population ?? 0) < 0) ? low : Math.max(0, low), 1];
}

function scoreName(networks) {
  if (networks[0]?.by === "population") return "population score, 95 % interval";
  return `affinity score${networks.some(({ population }) => population) ? "; beside it, the population score, 95 % interval" : ""}`;
}

function labelOf(chosen, points) {
  const names = chosen.length ? listed(chosen.map((network) => network.name)) : "no network";
  const [low, high] = d3.extent(points, (point) => point.score);
  return [
    `Line chart: ${scoreName(chosen)} of every activation call over depth.`,
    `In color: ${names}.`,
    `All scores are between ${asScore(low)} and ${asScore(high)}.`,
    "Use the slider below the chart to inspect single sites.",
  ].join(" ");
}

function drawSignatures(networks, choice, mode, width) {
  const chosen = choice.chosen();
  const points = pointsOf(networks, mode);
  const scored = points.filter(isScored);
  const alone = chosen.length === 1;
  const radius = radiusOf(chosen, width);
  const figure = figureOf(labelOf(chosen, scored), {
    width,
    height: HEIGHT,
    marginLeft: 46,
    marginRight: 12,
    marginBottom: 42,
    x: {
      label: mode === "call" ? "activation call, in order of execution" : "fraction of the network's calls",
      labelAnchor: "center",
      inset: 6,
      ticks: width / 90,
    },
    y: { label: scoreName(networks), domain: domainOf(scored), grid: true, ticks: 6 },
    marks: [
      Plot.ruleY([1], { stroke: "var(--quiet)", strokeDasharray: "3 3" }),
      faintMark(points.filter(({ network }) => choice.slotOf(network) < 0)),
      ...chosen.map((network) => {
        const own = points.filter((point) => point.network === network);
        return alone ? placeMarks(network, own, radius) : networkMarks(own, choice.slotOf(network), radius);
      }),
    ],
  });
  return { figure, points: placed(figure, points, "depth", "score") };
}

// Adds the positions of the points on the page.
function placed(figure, points, across, up) {
  const [x, y] = [figure.scale("x"), figure.scale("y")];
  for (const point of points) [point.x, point.y] = [x.apply(point[across]), y.apply(point[up])];
  return points;
}

function createSignatureChart(networks, choice, pick) {
  const stage = byId("signature-chart");
  const lens = createLens(stage, ({ network, site }) => describeSite(network, site), pick);
  let byNetwork = new Map();

  function draw() {
    const mode = byId("depth").querySelector("input:checked").value;
    const { figure, points } = drawSignatures(networks, choice, mode, stage.clientWidth);
    byNetwork = d3.group(points, (point) => point.network);
    const line = d3
      .line(
        (point) => point.x,
        (point) => point.y,
      )
      .defined(isScored);
    lens.attach(figure, points.filter(isScored), ({ network }) => line(byNetwork.get(network)));
    drawKey(choice.chosen());
  }

  byId("depth").addEventListener("change", draw);
  const pointAt = (network, site) => byNetwork.get(network)?.find((point) => point.site === site && isScored(point));
  return {
    draw,
    hide: lens.hide,
    show: (network, site) => (pointAt(network, site) ? lens.show(pointAt(network, site)) : lens.hide()),
  };
}

// The legend for the colors of a single network.
function drawKey(chosen) {
  const items =
    chosen.length === 1
      ? placesOf(chosen[0]).map((place, slot) => element("span", { class: "item" }, symbolOf(slot), named(place)))
      : [];
  byId("places").replaceChildren(...items);
}

// The slider replaces the pointer for keyboard users: it goes through the sites one by one.
function createWalk(networks, choice, chart, open) {
  const [select, slider] = [byId("walk-network"), byId("walk-site")];
  const current = () => networks[Number(select.value)];
  const site = () => current()?.sites[slider.valueAsNumber];

  function read() {
    const text = site() ? said(describeSite(current(), site())) : "";
    slider.setAttribute("aria-valuetext", text);
    byId("readout").replaceChildren(named(text));
  }

  function point() {
    read();
    if (site()) chart.show(current(), site());
  }

  function begin() {
    const count = current()?.count ?? 0;
    slider.max = Math.max(0, count - 1);
    slider.value = Math.min(slider.valueAsNumber, slider.max);
    slider.disabled = byId("walk-open").disabled = count === 0;
    read();
  }

  choice.onChange(() => {
    offer(select, choice.chosen().length ? choice.chosen() : networks, current());
    begin();
  });
  select.addEventListener("change", () => {
    slider.value = 0;
    begin();
  });
  slider.addEventListener("input", point);
  slider.addEventListener("focus", point);
  slider.addEventListener("blur", chart.hide);
  const details = () => site() && open(current(), site());
  slider.addEventListener("keydown", (event) => event.key === "Enter" && details());
  byId("walk-open").addEventListener("click", details);
  return function follow(network, { number }) {
    if (![...select.options].some(({ value }) => Number(value) === network.number)) return;
    select.value = network.number;
    begin();
    slider.value = number;
    read();
  };
}

const said = (lines) =>
  lines
    .map(([, text]) => text)
    .filter(Boolean)
    .join(" · ");

// Offers networks to inspect, and keeps the current one if it is still among them.
function offer(select, networks, before) {
  select.replaceChildren(...networks.map((network) => element("option", { value: network.number }, network.name)));
  if (networks.includes(before)) select.value = before.number;
}
