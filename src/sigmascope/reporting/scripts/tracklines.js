// The scores as lines over the steps: one site in color with its interval, the mean, and the others in gray.

const LINES_HEIGHT = 300;

// NaN leaves a gap in a line.
const momentsOf = ({ steps }, site) =>
  steps.map((step, place) => {
    const [score, low, high] = [site.score, site.low, site.high].map((values) => values[place] ?? NaN);
    return { site, place, step, score, low, high };
  });

const overSteps = (points, options) => Plot.line(points, { x: "step", y: "score", strokeLinecap: "round", ...options });

function linesText(track, site) {
  const mean = track.mean.filter((value) => value != null);
  return [
    `Line chart: ${SCORE_NAMES[track.estimator]} of every site over the steps.`,
    mean.length ? `The mean goes from ${asScore(mean[0])} to ${asScore(mean.at(-1))}.` : "",
    `In color: ${site.name}, from ${asScore(site.score[0])} to ${asScore(site.score.at(-1))}.`,
    ...track.events.map(({ step, text }) => `Step ${step}: ${text}.`).slice(0, 5),
  ].join(" ");
}

// The lowest end of what is drawn, rounded down.
function lowestScore(points, chosen) {
  const lowest = Math.min(d3.min(points, ({ score }) => score) ?? 0, d3.min(chosen, ({ low }) => low) ?? 1);
  return Math.floor(lowest * 10 - 0.2) / 10;
}

function drawTrackLines(track, site, frame) {
  const points = track.sites.flatMap((one) => momentsOf(track, one));
  const chosen = points.filter((point) => point.site === site);
  const means = track.steps.map((step, place) => ({ step, score: track.mean[place] ?? NaN }));
  const color = slotColor(0);
  const few = track.steps.length < 40;
  const dots = (data, options) =>
    Plot.dot(
      data.filter(({ score }) => score === score),
      { x: "step", y: "score", ...options },
    );
  const figure = figureOf(linesText(track, site), {
    width: frame.width,
    height: LINES_HEIGHT,
    marginTop: 24,
    marginLeft: frame.left,
    marginRight: frame.right,
    marginBottom: 40,
    x: { ...stepAxis(frame), label: "step", labelAnchor: "center" },
    y: { label: SCORE_NAMES[track.estimator], domain: [lowestScore(points, chosen), 1], grid: true, ticks: 5 },
    marks: [
      Plot.ruleY([1], { stroke: "var(--quiet)", strokeDasharray: "3 3" }),
      Plot.ruleX([...new Set(track.events.map(({ step }) => step))], { stroke: "var(--warn)", strokeDasharray: "2 3" }),
      overSteps(points, { z: ({ site: one }) => one.number, stroke: "var(--quiet)", strokeOpacity: 0.55, strokeWidth: 1 }),
      Plot.areaY(chosen, { x: "step", y1: "low", y2: "high", fill: color, fillOpacity: 0.22 }),
      overSteps(means, { stroke: "var(--ink)", strokeWidth: 1.8, strokeDasharray: "5 3" }),
      overSteps(chosen, { stroke: color, strokeWidth: 2 }),
      few ? dots(chosen, { fill: color, r: 2.6 }) : null,
    ],
  });
  const [x, y] = [figure.scale("x").apply, figure.scale("y").apply];
  for (const { step, site: one, what } of track.events.filter((event) => event.site)) {
    const score = one.score[nearestStep(track.steps, step)];
    if (score != null) figure.append(eventMark({ what }, x(step), y(score), 6.5));
  }
  return { figure, points: placed(figure, points, "step", "score") };
}

function createTrackLines(stage, view) {
  const lens = createLens(stage, ({ site, place }) => describeMoment(view.track, site, place));
  let bySite = new Map();

  function draw(frame) {
    const { figure, points } = drawTrackLines(view.track, view.site, frame);
    bySite = d3.group(points, ({ site }) => site);
    const line = d3
      .line(
        ({ x }) => x,
        ({ y }) => y,
      )
      .defined(({ score }) => score === score);
    const scored = points.filter(({ score }) => score === score);
    lens.attach(figure, scored, ({ site }) => line(bySite.get(site)));
  }

  return { draw, hide: lens.hide };
}
