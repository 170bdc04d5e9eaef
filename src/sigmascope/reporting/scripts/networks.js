// The cards at the top, and the table of networks.

function rangeText(values) {
  const [low, high] = d3.extent(values);
  return low === high ? asCount(low) : `${asCount(low)} – ${asCount(high)}`;
}

// The name of the data, or only the number of samples.
function samplesCard(networks, data) {
  const count = rangeText(networks.map((network) => network.samples));
  const each = networks.length > 1 ? "for each network" : `in ${batchesOf(networks[0])}`;
  return data ? cardOf("Data", named(shortened(data, 80)), `${count} samples ${each}`) : cardOf("Samples", count, each);
}

// The network with the lowest or highest median, and those that cannot be told apart from it.
function extremeCard(label, numbers, networks, short) {
  const nameOf = (number) => shortened(short[number], 40);
  const { summary, population, ranked } = networks[numbers[0]];
  const median =
    ranked === "population"
      ? `population median ${withBar(population.median, population.half, asStatistic)}`
      : `median ${asStatistic(summary.median)}`;
  const tied = listSome(numbers.slice(1).map(nameOf), 3);
  return tied
    ? cardOf(`${label}, tied`, named(nameOf(numbers[0])), element("span", {}, `${median}; tied with `, named(tied)))
    : cardOf(label, named(nameOf(numbers[0])), median);
}

const rankedScore = ({ ranked }, site) =>
  ranked === "population" ? `population score ${withBar(site.population, site.half)}` : `score ${asScore(site.score)}`;

function layerCard(network) {
  const [first, ...tied] = network.lowest.map((number) => network.sites[number]);
  const score = rankedScore(network, first);
  const others = tied.length ? `; tied with ${listSome(tied.map((site) => site.name), 3)}` : "";
  return cardOf(`Most non-linear layer${tied.length ? ", tied" : ""}`, named(shortened(first.name, 40)), named(score + others));
}

function cardsOf({ networks, distances, data, extremes }) {
  const seen = d3.sum(networks, (network) => network.coverage.seen);
  const scored = d3.sum(networks, (network) => network.coverage.scored);
  const sorted = byMedian(networks);
  const short = briefly(networks.map((network) => network.name));
  const cards = [
    cardOf(
      "Networks",
      asCount(networks.length),
      `${rangeText(networks.map((network) => network.count))} sites${networks.length > 1 ? " each" : ""}`,
    ),
    cardOf("Activation calls", asCount(scored), scored === seen ? "all calls seen" : `scored of ${asCount(seen)} seen`),
    samplesCard(networks, data),
  ];
  if (extremes)
    cards.push(
      ...["Most non-linear", "Least non-linear"].map((label, end) => extremeCard(label, extremes[end], networks, short)),
    );
  else if (sorted.length) {
    const { by, summary, halves, population } = sorted[0];
    const range = `from ${asStatistic(summary.min)} to ${asStatistic(summary.max)}`;
    const beside =
      by === "published" && population ? `; population median ${withBar(population.median, population.half, asStatistic)}` : "";
    cards.push(
      cardOf(`Median ${SCORE_NAMES[by]}`, withBar(summary.median, halves.median, asStatistic), range + beside),
      layerCard(sorted[0]),
    );
  }
  if (distances && networks.length > 2) cards.push(nearestCard(short, distances));
  return cards;
}

function nearestCard(names, { networks: numbers, rows }) {
  const pairs = rows.flatMap((row, one) => row.map((distance, other) => ({ one, other, distance })));
  const { one, other, distance } = d3.least(pairs, (pair) => pair.distance);
  const nameOf = (position) => named(shortened(names[numbers[position]], 22));
  return cardOf("Closest pair", element("span", {}, nameOf(other), ", ", nameOf(one)), `distance ${asScore(distance)}`);
}

// Statistics shown with their intervals: there is no room for more.
const CERTAIN = ["min", "median", "mean", "spread"];
const COLUMNS = [
  { key: "name", text: "network", of: (network) => network.name },
  { key: "sites", text: "sites", of: (network) => network.count, show: asCount },
  ...["min", "median", "max", "mean", "std", "spread"].map((key) => ({
    key,
    text: key,
    of: (network) => network.summary[key],
    half: (network) => (CERTAIN.includes(key) ? network.halves[key] : null),
    show: asStatistic,
  })),
  {
    key: "population",
    text: "population median",
    of: ({ by, population }) => (by === "published" ? population?.median : null),
    half: ({ population }) => population?.half,
    show: asStatistic,
    optional: true,
  },
  { key: "parameters", text: "parameters", of: (network) => network.parameters, show: asShortCount },
  { key: "accuracy", text: "accuracy", of: ({ facts }) => facts.accuracy, show: asAccuracy, optional: true },
  { key: "depth", text: "depth", of: ({ facts }) => facts.depth, show: asCount, optional: true },
  { key: "flops", text: "FLOPs", of: ({ facts }) => facts.flops, show: asShortCount, optional: true },
  { key: "samples", text: "samples", of: (network) => network.samples, show: asCount, varying: true },
];

// A fact has a column if it is known for any network, and the number of samples if it differs: else the cards tell it.
const columnsOf = (networks) =>
  COLUMNS.filter(({ optional, varying, of }) => {
    const known = new Set(networks.map(of).filter((value) => value != null));
    return (!optional || known.size > 0) && (!varying || known.size > 1);
  });

// Names sort by their numbers: resnet9 before resnet18. Missing values come last either way.
function sortedBy(networks, { of }, direction) {
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);
  const sign = direction === "descending" ? -1 : 1;
  return [...networks].sort((a, b) => (of(a) == null) - (of(b) == null) || sign * compare(of(a), of(b)) || a.number - b.number);
}

// A population score may be negative, so that the line of the ranges may begin below 0.
const lineStart = (networks) => Math.min(0, Math.floor((d3.min(networks, ({ summary }) => summary.min) ?? 0) * 10) / 10);

// The range of the scores on a line from `low` to 1, with the median as a tick.
function rangeBar({ min, median, max }, low) {
  if (median == null) return "";
  const bar = element(
    "span",
    { class: "range", "aria-hidden": "true" },
    element("span", { class: "extent" }),
    element("span", { class: "middle" }),
  );
  for (const [name, value] of Object.entries({ min, median, max })) bar.style.setProperty(`--${name}`, (value - low) / (1 - low));
  return bar;
}

function networkRow(network, columns, low) {
  const link = element("a", { href: `#sites-${network.number}` }, named(network.name));
  const cells = columns.slice(1).map(({ of, show, half }) => {
    const bar = half?.(network);
    return element(
      "td",
      { class: "numeric" },
      of(network) == null ? "–" : show(of(network)),
      bar == null ? null : element("span", { class: "bar" }, ` ± ${show(bar)}`),
    );
  });
  cells.splice(1, 0, element("td", { class: "ranged" }, rangeBar(network.summary, low)));
  return element("tr", {}, element("th", { scope: "row" }, link), ...cells);
}

function createNetworkTable(networks, changed) {
  const [columns, low] = [columnsOf(networks), lineStart(networks)];
  const body = element("tbody", {}, ...networks.map((network) => networkRow(network, columns, low)));
  const rows = new Map(networks.map((network, number) => [network, body.rows[number]]));
  const heads = columns.map((one, number) =>
    element(
      "th",
      { scope: "col", class: number ? "numeric" : null },
      buttonOf(one.text, () => sort(number)),
    ),
  );

  function sort(number) {
    const direction = heads[number].getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[number].setAttribute("aria-sort", direction);
    body.append(...sortedBy(networks, columns[number], direction).map((network) => rows.get(network)));
    byId("sorted").textContent = `Sorted by ${columns[number].text}, ${direction}.`;
    changed();
  }

  // As a text such as "median,descending", and back.
  const place = () => heads.findIndex((head) => head.hasAttribute("aria-sort"));
  const sorted = () => (place() < 0 ? null : `${columns[place()].key},${heads[place()].getAttribute("aria-sort")}`);
  function sortAs(key, direction) {
    const number = columns.findIndex((one) => one.key === key);
    if (number < 0) return;
    sort(number);
    if (direction === "descending") sort(number);
  }

  const cells = [...heads];
  cells.splice(2, 0, element("th", { scope: "col", class: "ranged" }, `${low.toString().replace("-", "−")} – 1`));
  const scores =
    `${networks[0].by === "published" ? "Published" : "Population"} scores of each network over its sites: minimum, median, maximum, mean, standard deviation and spread (max − min).`;
  const certain = networks.some(({ population }) => population?.half != null);
  const accurate = columns.some(({ key }) => key === "accuracy");
  const caption = captionOf(
    [scores, certain && "± is half the width of the 95 % interval.", accurate && "Accuracy in percent."].filter(Boolean).join(" "),
  );
  byId("network-table").replaceChildren(
    framed("Table of networks", element("table", {}, caption, element("thead", {}, element("tr", {}, ...cells)), body)),
  );
  return { sorted, sort: sortAs };
}
