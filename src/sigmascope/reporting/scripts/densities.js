// The densities of the scores, in the colors of the signatures.

function densityPoints({ low, high, values }, network) {
  const step = (high - low) / (values.length - 1);
  return values.map((value, number) => ({ network, score: low + number * step, value }));
}

function drawDensities(curves, choice, width) {
  const all = curves.flatMap(({ points }) => points);
  const inColor = curves.filter(({ network }) => choice.slotOf(network) >= 0);
  const line = (points, options) =>
    Plot.line(points, { x: "score", y: "value", z: (point) => point.network.number, ...options });
  const figure = figureOf(
    `Densities of the ${SCORE_NAMES[curves[0].network.by]}s. In color: ${listed(inColor.map(({ network }) => network.name)) || "no network"}.`,
    {
      width,
      height: 280,
      marginLeft: 46,
      marginRight: 12,
      marginBottom: 42,
      x: { label: SCORE_NAMES[curves[0].network.by], labelAnchor: "center", ticks: width / 90 },
      y: { label: "density", grid: true, ticks: 5, domain: [0, d3.max(all, (point) => point.value)] },
      marks: [
        line(
          all.filter(({ network }) => choice.slotOf(network) < 0),
          { stroke: "var(--faint)", strokeWidth: 1 },
        ),
        ...inColor.flatMap(({ network, points }) => {
          const color = slotColor(choice.slotOf(network));
          return [
            Plot.areaY(points, { x: "score", y: "value", fill: color, fillOpacity: 0.1 }),
            line(points, { stroke: color, strokeWidth: 1.6 }),
          ];
        }),
        Plot.ruleY([0], { stroke: "var(--quiet)" }),
      ],
    },
  );
  return { figure, points: placed(figure, all, "score", "value") };
}

const describeDensity = ({ network, score }) => [
  ["title", network.name],
  ["", `at score ${asStatistic(score)}`],
  ["value", `median ${asStatistic(network.summary.median)}, spread ${asStatistic(network.summary.spread)}`],
];

function createDensityChart(networks, densities, choice) {
  const stage = byId("density-chart");
  const items = densities.lacking.map(([number, reason]) => element("li", {}, named(networks[number].name), `: ${reason}`));
  if (items.length)
    byId("density-remarks").replaceChildren(element("p", {}, "Networks without a density:"), element("ul", {}, ...items));
  const curves = densities.curves.map((one) => ({
    network: networks[one.network],
    points: densityPoints(one, networks[one.network]),
  }));
  if (!curves.length) return () => stage.replaceChildren(element("p", {}, "No network has different scores, so there is no density."));
  const lens = createLens(stage, describeDensity);
  return () => {
    const { figure, points } = drawDensities(curves, choice, stage.clientWidth);
    const byNetwork = d3.group(points, (point) => point.network);
    lens.attach(figure, points, ({ network }) =>
      d3.line(
        (point) => point.x,
        (point) => point.y,
      )(byNetwork.get(network)),
    );
  };
}
