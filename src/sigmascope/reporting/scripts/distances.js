// Distances between signatures as a heat map, in the order of the tree beside it.

const TREE = 120; // pixels
const [TOP, LEFT] = [8, 4];
const LETTER = 6.2;

// Returns a function (row, column) -> distance, in the order of the leaves.
function readerOf({ rows, order }) {
  return (row, column) => {
    const [one, other] = [order[row], order[column]];
    return one === other ? 0 : rows[Math.max(one, other)][Math.min(one, other)];
  };
}

// Each merge as a bracket of four corners; a leaf is at the middle of its row.
function bracketsOf({ merges, order }) {
  const nodes = order.map((_, leaf) => ({ at: order.indexOf(leaf) + 0.5, height: 0 }));
  return merges.map(([one, other, height]) => {
    const [a, b] = [nodes[one], nodes[other]];
    nodes.push({ at: (a.at + b.at) / 2, height });
    return [
      [a.height, a.at],
      [height, a.at],
      [height, b.at],
      [b.height, b.at],
    ];
  });
}

function measuresOf(names, width) {
  const longest = Math.min(
    30,
    d3.max(briefly(names), (name) => Array.from(name).length),
  );
  const margin = Math.ceil(longest * LETTER) + 14;
  const cell = Math.max(11, Math.min(56, Math.floor((width - TREE - margin) / names.length)));
  return { longest, margin, cell, side: cell * names.length };
}

function drawTree(data, { side, margin }) {
  const corners = bracketsOf(data).flatMap((bracket, join) => bracket.map(([height, at]) => ({ height, at, join })));
  return figureOf("Dendrogram: hierarchical clustering of the networks, the closest merged first.", {
    width: TREE,
    height: TOP + side + margin,
    marginTop: TOP,
    marginBottom: margin,
    marginLeft: 8,
    marginRight: 3,
    x: { axis: null, domain: [d3.max(data.merges, ([, , height]) => height) || 1, 0] },
    y: { axis: null, domain: [data.order.length, 0] },
    marks: [Plot.line(corners, { x: "height", y: "at", z: "join", stroke: "var(--muted)", strokeLinejoin: "miter" })],
  });
}

const heat = (share) => `color-mix(in oklab, var(--near), var(--far) ${(100 * share).toFixed(1)}%)`;

// Legible on the color of every distance, in both themes: tests/reporting/test_style.py.
function inkOn(share) {
  if (share < 0.35) return "var(--on-near)";
  return share < 0.49 ? "var(--on-middle)" : "var(--on-far)";
}

// For cells that are wide enough.
const numberMark = (cells, largest) =>
  Plot.text(cells, {
    x: "column",
    y: "row",
    text: ({ distance }) => distance.toFixed(2),
    fill: ({ distance }) => inkOn(distance / largest),
    fontSize: 10.5,
  });

function drawMap(cells, names, largest, { longest, margin, cell, side }) {
  const short = briefly(names);
  const label = (position) => shortened(short[position], longest);
  const axis = { domain: d3.range(names.length), label: null, tickSize: 0, tickFormat: label };
  const fill = ({ distance }) => heat(distance / largest);
  return figureOf(mapLabel(cells, names), {
    width: LEFT + side + margin,
    height: TOP + side + margin,
    marginTop: TOP,
    marginBottom: margin,
    marginLeft: LEFT,
    marginRight: margin,
    padding: 0,
    color: { type: "identity" },
    x: { ...axis, tickRotate: -90 },
    y: { ...axis, axis: "right" },
    marks: [
      Plot.cell(cells, { x: "column", y: "row", fill, inset: cell > 16 ? 0.5 : 0 }),
      cell >= 36 ? numberMark(cells, largest) : null,
    ],
  });
}

function mapLabel(cells, names) {
  const pairs = cells.filter(({ row, column }) => row < column);
  const say = ({ row, column, distance }) => `${names[row]} and ${names[column]}, ${asScore(distance)}`;
  return [
    `Heat map of the distances between ${names.length} networks.`,
    `Closest: ${say(d3.least(pairs, (pair) => pair.distance))}.`,
    `Farthest: ${say(d3.greatest(pairs, (pair) => pair.distance))}.`,
    "The table below lists all distances.",
  ].join(" ");
}

function drawRamp(largest) {
  const steps = d3.range(0, 1, 1 / 32);
  return figureOf(`Color scale: strong at distance 0, weak at ${asScore(largest)}.`, {
    width: 220,
    height: 34,
    marginTop: 0,
    marginBottom: 20,
    marginLeft: 12,
    marginRight: 20,
    color: { type: "identity" },
    x: { domain: [0, largest], label: null, ticks: 4, tickSize: 4 },
    marks: [
      Plot.rectX(steps, {
        x1: (step) => step * largest,
        x2: (step) => (step + 1 / 32) * largest,
        fill: heat,
        insetRight: -0.5,
      }),
    ],
  });
}

// The cell under the pointer follows from the width of a cell, without a search.
function followCells(stage, figure, { cell, side }, describe) {
  const frame = svgPart("rect", { class: "ring", width: cell, height: cell });
  const note = createNote(stage, frame);
  const follow = (x, y) => {
    const [across, down] = [x - LEFT, y - TOP];
    if (across < 0 || down < 0 || across >= side || down >= side) return note.hide();
    const [column, row] = [Math.floor(across / cell), Math.floor(down / cell)];
    const corner = { x: LEFT + column * cell, y: TOP + row * cell };
    frame.setAttribute("transform", `translate(${corner.x},${corner.y})`);
    return note.show({ x: corner.x + cell / 2, y: corner.y + cell / 2 }, describe(row, column));
  };
  followPointer(figure, follow, note.hide);
  note.mount(figure);
}

const explained = (method, by) =>
  [
    `Distance between signatures by dynamic time warping of their ${by} scores: the root of the smallest sum of squared`,
    `differences when either may be stretched along depth. Networks are ordered by hierarchical clustering (${method} linkage).`,
    "The stronger the color, the closer the networks.",
  ].join(" ");

function createDistanceChart(networks, data) {
  const home = byId("distance-chart");
  if (!data) {
    home.replaceChildren(element("p", {}, "Distances need at least two networks with scores."));
    return () => {};
  }
  const names = data.order.map((leaf) => networks[data.networks[leaf]].name);
  const distance = readerOf(data);
  const places = d3.range(names.length);
  const cells = d3.cross(places, places, (row, column) => ({ row, column, distance: distance(row, column) }));
  const largest = d3.max(cells, (cell) => cell.distance) || 1;
  const [tree, stage] = [element("div", {}), element("div", { class: "stage" })];
  const map = element(
    "div",
    { class: "frame heat", role: "region", tabindex: "0", "aria-label": "Heat map of distances" },
    tree,
    stage,
  );
  const chart = element("div", { class: "whole" }, element("p", {}, explained(data.method, networks[0].by)), drawRamp(largest), map);
  home.replaceChildren(chart, distanceTable(names, distance));

  const describe = (row, column) => [
    ["", names[row]],
    ["", names[column]],
    ["value", `distance ${asScore(distance(row, column))}`],
  ];
  return () => {
    const measures = measuresOf(names, home.clientWidth);
    tree.replaceChildren(drawTree(data, measures));
    followCells(stage, drawMap(cells, names, largest, measures), measures, describe);
  };
}

// The same numbers for readers who cannot see colors or want to copy them.
function distanceTable(names, distance) {
  return lazyDetails(element("summary", {}, "Distances as a table"), () => {
    const heads = [{ text: "network" }, ...names.map((name) => ({ text: named(name), numeric: true }))];
    const rows = names.map((name, row) => [named(name), ...names.map((_, column) => asScore(distance(row, column)))]);
    return [framed("Table of distances", tableOf("Distances between networks", heads, rows))];
  });
}
